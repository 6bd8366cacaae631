"""Rules of Bigtable's model, one scenario each: what its documentation says, and the operations that show it.

Each ends with a checkpoint, where all is read. A scenario's name is what `differences.toml` calls it.
"""

import time

import operations as ops
import reading_writes as reading
import rules
import table as tables
import values
from random_operations import Checkpoint, Scenario
from values import Part, Path

KEY = Path((Part("key", values.TEXT),))
QUALIFIER = Path((Part("qualifier", values.TEXT),))
CLOCK = ops.CLOCK
R, S = ("r",), ("s",)
EMPTY, A, B, C = ("",), ("a",), ("b",), ("c",)


class Days:
    """Stamps: `day(5)` was five and a half days ago."""

    def __init__(self):
        self.now = time.time_ns() // 1_000_000 * 1000

    def __call__(self, ago, more=0):
        return self.now - ago * rules.DAY - rules.DAY // 2 + more


day = Days()


def family(name, rule=rules.Rule(), value=values.TEXT):
    return tables.Family(name, QUALIFIER, value, rule, [EMPTY, A, B, C])


def write(stamp, qualifier, value, key=R, name="f"):
    return ops.Write(key, [(name, qualifier, value)], stamp)


def versions(count, key=R, name="f"):
    """So many versions of one cell, from as many days ago."""
    return [write(day(ago), A, f"{ago} days", key, name) for ago in range(count, 0, -1)]


def on(*operations, rule=rules.Rule(), more=(), value=values.TEXT):
    """A scenario on one family `f`, and others."""
    families = {each.name: each for each in (family("f", rule, value), *more)}
    stamps = [day(ago) for ago in range(8)]
    return Scenario(tables.Table(KEY, [R, S], families), [*operations, Checkpoint(1), Checkpoint(2)], stamps)


def all():
    return {
        # Versions
        "a cell keeps all versions without a rule": on(*versions(5)),
        "versions are ordered by their stamps, not by when they come": on(*reversed(versions(5))),
        "max_versions keeps the newest ones": on(*versions(5), rule=rules.Rule(versions=2)),
        "an older version that comes late is none of the newest": on(
            *versions(2), write(day(6), A, "late"), rule=rules.Rule(versions=2)
        ),
        "max_age removes what is older": on(*versions(5), rule=rules.Rule(days=3)),
        "a union removes what either removes": on(*versions(6), rule=rules.Rule(versions=2, days=4)),
        "an intersection removes what both remove": on(*versions(6), rule=rules.Rule(versions=2, days=4, both=True)),
        "the last version goes by its age, and the row with it": on(write(day(5), A, "old"), rule=rules.Rule(days=3)),
        "families have rules of their own": on(
            *versions(4), *versions(4, name="g"), rule=rules.Rule(versions=1), more=[family("g", rules.Rule(days=2))]
        ),
        "a rule is changed": on(*versions(5), reading.Alter("f", rules.Rule(versions=2))),
        "a stamp in the future is a version like any other": on(write(day(-3), A, "later"), write(day(1), A, "now")),
        "an empty value is a value, an empty qualifier one, too": on(write(day(1), EMPTY, "")),
        # One stamp
        "the same stamp again is the same version": on(write(day(1), A, "a"), write(day(1), A, "b")),
        "of two values with one stamp the later one is kept": on(write(day(1), A, "b"), write(day(1), A, "a")),
        # Deletions
        "DeleteFromColumn takes all versions": on(*versions(3), ops.DeleteColumns(R, "f", [A], CLOCK)),
        "DeleteFromColumn with a time takes the versions before it": on(
            *versions(5), ops.DeleteOlder(R, "f", A, day(3)), rule=rules.Rule()
        ),
        "DeleteFromColumn with a range takes the versions in it": on(
            *versions(6), ops.DeleteVersions(R, "f", A, day(4), day(2)), rule=rules.Rule()
        ),
        "DeleteFromColumn with a range takes the newest version, and the one before it is the newest": on(
            *versions(3), ops.DeleteVersions(R, "f", A, day(1), day(0)), rule=rules.Rule(versions=3)
        ),
        "DeleteFromFamily leaves the other family": on(
            *versions(2), *versions(2, name="g"), ops.DeleteFamily(R, "f", CLOCK), more=[family("g")]
        ),
        "DeleteFromRow takes all families": on(
            *versions(2), *versions(2, name="g"), *versions(1, S), ops.DeleteRows(R, R, CLOCK), more=[family("g")]
        ),
        "DropRowRange takes rows": on(*versions(2), *versions(2, S), ops.DeleteRows(R, S, CLOCK)),
        "a row goes with its last cell": on(write(day(1), A, "x"), ops.DeleteColumns(R, "f", [A], CLOCK)),
        "what a rule has hidden does not come back when a newer version is deleted": on(
            *versions(4), ops.DeleteColumns(R, "f", [A], CLOCK), rule=rules.Rule(versions=1)
        ),
        "a deletion takes what is there, not what comes later": on(
            write(day(2), A, "x"), ops.DeleteColumns(R, "f", [A], day(1)), write(day(2), A, "again")
        ),
        "a new value of a family takes what is there": on(
            write(day(2), A, "x"), ops.Replace(R, "f", [(B, "y")], day(1)), write(day(2), A, "again")
        ),
        "a family that was dropped is empty when it is there again": on(*versions(2), reading.Anew("f", rules.Rule())),
        # Writes that read
        "an increment of nothing makes the cell and the row": on(
            reading.Modify(R, "f", A, 5, "update"), reading.Modify(R, "f", A, 5, "update"), value=values.BIGINT
        ),
        "an increment is a version": on(write(day(1), A, 7), reading.Modify(R, "f", A, 5, "update"), value=values.BIGINT),
        "an increment of a version in the future has its stamp": on(
            write(day(-3), A, 7), reading.Modify(R, "f", A, 5, "update"), value=values.BIGINT
        ),
        "an append is a version": on(write(day(1), A, "x"), reading.Modify(R, "f", A, "y", "update")),
        "a check of the newest version": on(
            *versions(3),
            reading.Check(R, "f", A, "=", "1 days", write(CLOCK, B, "yes")),
            reading.Check(R, "f", A, "=", "2 days", write(CLOCK, C, "yes")),
        ),
        "a check of a cell that is not there makes the row": on(
            reading.Check(R, "f", A, "= NULL", None, write(CLOCK, B, "yes"))
        ),
        "a check of what a rule has hidden": on(
            write(day(5), A, "old"), reading.Check(R, "f", A, "= NULL", None, write(CLOCK, B, "yes")), rule=rules.Rule(days=3)
        ),
        "a check that deletes the row": on(
            *versions(2), reading.Check(R, "f", A, "=", "1 days", reading.DeleteWhole(R)), more=[family("g")]
        ),
        # Several rows
        "rows of one batch": on(ops.Batch([write(day(1), A, "x"), write(day(1), A, "y", S)], "batch")),
        "a transaction deletes what it has written": on(
            ops.Transaction([write(CLOCK, A, "x"), ops.DeleteColumns(R, "f", [A, B], CLOCK, form="cells")], 1)
        ),
        "a transaction that is undone": on(ops.Batch([write(day(1), A, "x"), write(day(1), A, "y", S)], "undone")),
    }
