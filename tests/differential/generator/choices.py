"""What a random statement is made of: a list of numbers, drawn from a seed or given, so that statements can be shrunk.

Every decision of the generator is one number, and 0 is the simplest answer. A shorter list, or one with more zeros,
is a simpler statement: that is all that shrinking needs to know.
"""

import random
import time


class Choices:
    """Draws numbers from a seed, or takes them from a list and then 0; remembers what was taken."""

    def __init__(self, seed=None, given=None):
        self.random = random.Random(seed)
        self.given = given
        self.taken = []

    def below(self, count):
        """A number from 0 up to `count`, exclusive."""
        if self.given is None:
            drawn = self.random.randrange(count)
        else:
            at = len(self.taken)
            drawn = min(self.given[at], count - 1) if at < len(self.given) else 0
        self.taken.append(drawn)
        return drawn

    def one(self, *options):
        """One of the options; the first is the simplest."""
        return options[self.below(len(options))]

    def likely(self, percent):
        """Yes in so many of a hundred cases; no is simpler."""
        return self.below(100) >= 100 - percent

    def some(self, options, least=0, most=None):
        """Some of the options, each once, in any order."""
        left = list(options)
        count = least + self.below(min(len(left), most or len(left)) - least + 1)
        return [left.pop(self.below(len(left))) for _ in range(count)]


def shrunk(numbers, fails, seconds=8):
    """A simpler list for which `fails` still holds: parts are left out, then made 0, as long as that goes on to fail."""
    numbers, until = list(numbers), time.monotonic() + seconds
    block = max(1, len(numbers) // 2)
    while block and time.monotonic() < until:
        at, smaller = 0, False
        while at < len(numbers) and time.monotonic() < until:
            zeros = [0] * len(numbers[at : at + block])
            for middle in ([], zeros):
                candidate = numbers[:at] + middle + numbers[at + block :]
                if candidate == numbers:
                    continue
                if fails(candidate):
                    numbers, smaller = candidate, True
                    break
            else:
                at += block
        if not smaller or block > 1:
            block //= 2
    return numbers
