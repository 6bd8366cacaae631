"""Random statements beside PostgreSQL: made in `generator/`, run on both servers, and shrunk where the answers differ.

Each statement has a seed of its own, the run's seed plus its number: `--random 1 --seed S` repeats the one that a
report names. Tables are the same in every run; writes are rolled back.
"""

import collections
import decimal
import math
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "generator"))

import tables  # noqa: E402
from choices import Choices, shrunk  # noqa: E402
from queries import Queries  # noqa: E402
from writes import Writes  # noqa: E402

NUMERIC, FLOATS = 1700, (700, 701)
AFTER_WRITE = "SELECT * FROM z ORDER BY id"
NOT_THERE, TOO_LONG = "0A000", "57014"
# Kinds of answers that are no difference.
FINE = ("same", "refused by both", "refused by name", "too long")


class Random:
    """A run: what was the same, what was refused and why, and what differed."""

    def __init__(self, ours, theirs):
        self.ours, self.theirs = ours, theirs
        self.counts, self.refused = collections.Counter(), collections.Counter()
        self.seen = collections.Counter()

    def prepare(self):
        for server in (self.ours, self.theirs):
            for statement in ["CREATE SCHEMA random", "SET search_path = random", *tables.definitions()]:
                if (answer := server.ask(statement)).error:
                    raise RuntimeError(f"{statement}: {answer}")
        for server in (self.ours, self.theirs):
            server.ask("SET statement_timeout = '2s'")
        self.ours.ask("SET write_semantics = 'postgres'")

    def run(self, seed, count):
        for number in range(seed, seed + count):
            choices = Choices(seed=number)
            text, difference = self.compared(choices)
            if difference:
                self.report(number, choices.taken, text, difference)

    def compared(self, choices):
        """The statement that the choices make, and how the answers differ, if they do."""
        if choices.likely(25):
            text, ordered = Writes(choices).statement(), False
            answers = [self.written(server, text) for server in (self.ours, self.theirs)]
        else:
            text, ordered = Queries(choices).statement()
            answers = [[server.ask(text)] for server in (self.ours, self.theirs)]
        for ours, theirs in zip(*answers):
            kind = difference(ours, theirs, ordered)
            self.counts[kind] += 1
            if kind == "refused by name":
                self.refused[named(ours)] += 1
            if kind == "refused by both":
                self.refused[f"both: {theirs.error} {shape(theirs.message)}"] += 1
            if kind not in FINE:
                return text, (kind, ours, theirs)
            ordered = True
        return text, None

    def written(self, server, text):
        server.ask("BEGIN")
        answers = [server.ask(text)]
        if not answers[0].error:
            answers.append(server.ask(AFTER_WRITE))
        server.ask("ROLLBACK")
        return answers

    def report(self, seed, taken, text, found):
        cause = signature(found)
        self.seen[cause] += 1
        if self.seen[cause] > (20 if found[0] == "rows" else 1):
            return
        counts, refused = self.counts.copy(), self.refused.copy()
        again = lambda numbers: (other := self.compared(Choices(given=numbers))[1]) and signature(other) == cause
        short, found = self.compared(Choices(given=shrunk(taken, again)))
        self.counts, self.refused = counts, refused
        kind, ours, theirs = found
        print(f"-- seed {seed}: {kind}\n{short};\nKeyspan:    {ours}\nPostgreSQL: {theirs}\n", flush=True)

    def summary(self):
        for kind, count in sorted(self.counts.items()):
            print(f"{count:7} {kind}")
        for feature, count in self.refused.most_common(40):
            print(f"{count:7} {feature}")
        for cause, count in self.seen.most_common():
            print(f"{count:7} times: {cause}")


def difference(ours, theirs, ordered):
    """`same`, `refused by both`, `refused by name`, or what is wrong."""
    if ours.error == "XX000" or ours.error and ours.error.startswith("08"):
        return "internal error"
    if ours.error and theirs.error:
        return "refused by both"
    if TOO_LONG in (ours.error, theirs.error):
        return "too long"
    if ours.error:
        return "refused by name" if ours.error == NOT_THERE else "refused"
    if theirs.error:
        return "same" if theirs.error == NOT_THERE else "accepted"
    if ours.names != theirs.names:
        return "names"
    if ours.types != theirs.types:
        return "types"
    if ours.tag != theirs.tag:
        return "count of rows"
    rows = lambda answer: [tuple(map(value_of, answer.types, row)) for row in answer.rows]
    arranged = (lambda all_rows: all_rows) if ordered else (lambda all_rows: sorted(all_rows, key=repr))
    left, right = arranged(rows(ours)), arranged(rows(theirs))
    return "same" if len(left) == len(right) and all(map(alike, left, right)) else "rows"


def value_of(ty, value):
    """A value to compare: digits that differ in nothing but their number are alike."""
    if value is None or ty not in (NUMERIC, *FLOATS):
        return value
    number = decimal.Decimal(value)
    return value if not number.is_finite() else float(f"{number:.12g}") + 0.0


def alike(left, right):
    return left == right or all(map(near, left, right))


def near(left, right):
    """Equal, or floating numbers of which one was added up in another order."""
    return left == right or isinstance(left, float) and isinstance(right, float) and math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)


def named(answer):
    return f"not there: {shape(answer.message)}"


def shape(message):
    return re.sub(r"\d+", "0", re.sub(r'"[^"]*"|\'[^\']*\'', "…", message))[:120]


def signature(found):
    """What differences of one cause have in common, as far as their answers tell."""
    kind, ours, theirs = found
    if kind in ("names", "types"):
        pairs = zip(getattr(ours, kind), getattr(theirs, kind))
        return f"{kind} {next((pair for pair in pairs if pair[0] != pair[1]), '')}"
    message = ours.message if ours.error else theirs.message
    return f"{kind} {ours.error or ''} {shape(message)}".strip()
