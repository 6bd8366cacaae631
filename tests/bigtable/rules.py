"""Rules of garbage collection: their text, their form in Bigtable, and which versions they keep."""

import dataclasses
import math

DAY = 86_400_000_000


@dataclasses.dataclass(frozen=True)
class Rule:
    """At most `versions`, at most so many `days` old, with `both` when each says that a version goes. `spoken` is false
    for the default, one version. Neither keeps all.
    """

    versions: int | None = None
    days: int | None = None
    both: bool = False
    spoken: bool = True

    def text(self):
        """As it follows a family's type."""
        parts = [f"max_versions = {self.versions}"] if self.versions else []
        parts += [f"max_age = '{self.days}d'"] if self.days else []
        return f" GC {(' AND ' if self.both else ' OR ').join(parts) or 'NONE'}" if self.spoken else ""

    def bigtable(self):
        """The rule as the emulator takes it, which ignores an intersection."""
        parts = [{"max_num_versions": self.versions}] if self.versions else []
        parts += [{"max_age": {"seconds": self.days * 86400}}] if self.days else []
        if len(parts) < 2:
            return parts[0] if parts else None
        return {"intersection" if self.both else "union": {"rules": parts}}

    def keeps(self, place, stamp, now):
        """Whether it keeps the version at this place, 0 for the newest."""
        few = self.versions is None or place < self.versions
        young = self.days is None or stamp >= now - self.days * DAY
        return few or young if self.both else few and young

    def narrower(self, other):
        """Whether it keeps nothing that the other does not keep."""
        fewer = (self.versions or math.inf) <= (other.versions or math.inf)
        younger = (self.days or math.inf) <= (other.days or math.inf)
        if other.both and not self.both:
            return bool(self.versions and fewer or self.days and younger)
        return fewer and younger and (other.both or not self.both or other == Rule())


def rule(draw):
    versions, days = draw.randint(1, 4), draw.choice((3, 8, 20))
    both = draw.random() < 0.5
    kinds = ("all", "default", "versions", "versions", "age", "two", "two")
    return {
        "all": Rule(),
        "default": Rule(1, spoken=False),
        "versions": Rule(versions),
        "age": Rule(days=days),
        "two": Rule(versions, days, both),
    }[draw.choice(kinds)]


def uncollected(cells, rules, now):
    """Of cells in order, newest versions first, those that a family's rule does not keep, by row:
    {key: [(family, qualifier, stamp), …]}.
    """
    gone, column, place = {}, None, 0
    for key, family, qualifier, stamp, _ in cells:
        place = place + 1 if column == (key, family, qualifier) else 0
        column = (key, family, qualifier)
        if not rules[family].keeps(place, stamp, now):
            gone.setdefault(key, []).append((family, qualifier, stamp))
    return gone
