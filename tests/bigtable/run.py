"""One scenario on both servers: its table here and there, and what is known of its rows."""

import dataclasses
import random
import time

import psycopg

import rules
from documents import canonical
from emulator import delete_cells
from random_operations import Checkpoint
from reads import Reads

# Stamps of the servers' clocks, which are not the same.
CLOCK = "now"
# The newest stamp that a scenario gives is this much older than the run.
YOUNGEST = 60_000_000
NO_READ = "-"


@dataclasses.dataclass
class Difference:
    """What went wrong at an operation, or at a read of a checkpoint."""

    kind: str
    text: str
    ours: object
    theirs: object
    # The operation's place.
    place: int = 0


class Refused(Exception):
    pass


class Run:
    def __init__(self, connection, server, name, scenario):
        self.connection, self.name = connection, name
        families = {name: dataclasses.replace(family) for name, family in scenario.table.families.items()}
        self.table = dataclasses.replace(scenario.table, families=families)
        self.operations, self.stamps = scenario.operations, scenario.stamps
        # Keys of rows that an INSERT has made: they live without cells.
        self.marked, self.marks = {}, {}
        self.log, self.reads = [], 0
        self.began = time.time_ns() // 1000 - YOUNGEST
        bigtable = {name: rule.bigtable() for name, rule in self.table.rules().items()}
        self.bigtable = server.create(name, bigtable)
        self.ask(self.table.definition(name))

    def drop(self):
        self.connection.rollback()
        self.ask(f"DROP TABLE {self.name}")
        self.bigtable.drop()

    # What operations ask for

    def ask(self, text):
        self.log.append(text)
        try:
            cursor = self.connection.execute(text.encode(), prepare=False)
            while cursor.nextset():
                pass
            return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            self.connection.rollback()
            raise Refused(f"{error.sqlstate} {str(error).splitlines()[0]}") from error

    def cell(self, family, qualifier, value, stamp):
        family = self.table.families[family]
        return family.qualifier.bytes(qualifier), stamp, family.value.bytes(value)

    def mark_row(self, key, stamp):
        stamp = float("inf") if stamp is None else stamp
        self.marked[key] = max(stamp, self.marked.get(key, 0))

    def forget_row(self, key, stamp):
        if stamp is None or stamp >= self.marked.get(key, 0):
            self.marked.pop(key, None)

    def row_lives(self, key):
        return key in self.marked or bool(self.bigtable.read(rows={"row_keys": [self.table.key.bytes(key)]}))

    # Collection

    def collect(self, key=None, intersections=False):
        """Deletes what rules do not keep, as the emulator does some time later; it does not know intersections."""
        rows = {"row_keys": [self.table.key.bytes(key)]} if key else None
        now = time.time_ns() // 1000
        for row, cells in rules.uncollected(self.bigtable.read(rows=rows), self.table.rules(), now).items():
            newest = {}
            for family, qualifier, stamp in cells:
                if intersections and not self.table.families[family].rule.both:
                    raise RuntimeError(f"the emulator has kept {row} {family} {qualifier} {stamp}")
                newest[family, qualifier] = max(stamp, newest.get((family, qualifier), 0))
            self.bigtable.mutate(row, [delete_cells(*column, stamp + 1) for column, stamp in newest.items()])

    # Values in one form

    def stamp(self, stamp):
        return CLOCK if stamp >= self.began else stamp

    def json_value(self, family, value):
        return family.value.json(family.value.of_bytes(value))

    def json_key(self, family, qualifier):
        names = {family.qualifier.bytes(each): family.qualifier.json(each) for each in family.pool}
        return names[qualifier]

    def json(self, family, cells):
        """The newest values of a family's cells as the map that clients get."""
        named = lambda: {self.json_key(family, q): self.json_value(family, value) for q, value in cells.items()}
        return canonical(named() if cells else None)

    def json_history(self, family, cells):
        version = lambda stamp, value: [self.stamp(stamp), self.json_value(family, value)]
        named = lambda: {self.json_key(family, q): [version(*each) for each in versions] for q, versions in cells.items()}
        return canonical(named() if cells else None)

    # The scenario

    def steps(self, waits, only=None):
        """Does the operations. Yields where it `waits` for the emulator to collect; the difference is the result.

        With `only`, the text of a read, the last operation makes this read alone, and others none.
        """
        for place, operation in enumerate(self.operations):
            self.only = only if place == len(self.operations) - 1 else only and NO_READ
            try:
                if isinstance(operation, Checkpoint):
                    if waits:
                        yield
                    self.collect(intersections=waits)
                    found = self.check(operation.seed)
                else:
                    found = self.do(operation)
            except Refused as error:
                found = Difference("refused", self.log[-1], str(error), "")
            if found:
                # All scenarios share the connection: no transaction stays open.
                self.connection.rollback()
                found.place = place
                return found
        return None

    def do(self, operation):
        found = operation.run(self)
        if isinstance(found, tuple):
            return None if found[0] == found[1] else Difference("answers", self.log[-1], *found)
        return found

    def check(self, seed):
        for read in Reads(self, random.Random(seed)).all():
            if self.only and read.text.replace(self.name, "t") != self.only:
                continue
            self.reads += 1
            ours, theirs = [read.ours(row) for row in self.ask(read.text)], read.theirs()
            self.log.pop()
            if not read.ordered:
                ours, theirs = sorted(ours, key=repr), sorted(theirs, key=repr)
            if ours != theirs:
                return Difference("rows", read.text, ours, theirs)
        return None
