"""Random operations over one table: writes and deletions that meet in the same cells, between checkpoints.

A deletion of Bigtable takes what is there. One of Keyspan has a stamp and hides what is written later with an older
one, as in Cassandra. So each write gets a stamp above the deletions that it could meet, which is what `Floors` knows;
the difference itself is a scenario of its own.
"""

import dataclasses
import math

import operations as ops
import reading_writes as reading
import rules
import table as tables
import values

CLOCK = ops.CLOCK
# Stamps come in days, each with a few milliseconds in which they meet. A deletion ends a day.
SLOTS = 6
MILLISECOND = 1000
EVENING = 900 * MILLISECOND
HALF_A_DAY = rules.DAY // 2


@dataclasses.dataclass
class Checkpoint:
    """All is read, and compared. The reads follow from the seed."""

    seed: float


@dataclasses.dataclass
class Scenario:
    table: tables.Table
    operations: list
    # The times that reads and deletions of versions name.
    stamps: list


class Floors:
    """Of rows, families and cells the latest deletion, and which cells the servers' clocks have stamped."""

    def __init__(self):
        self.deleted = {}
        self.clocked = set()

    def delete(self, path, stamp):
        stamp = math.inf if stamp is CLOCK else stamp
        self.deleted[path] = max(stamp, self.deleted.get(path, 0))

    def of(self, path):
        return max(self.deleted.get(path[:length], 0) for length in range(1, 4))

    def has_clocked(self, path):
        return any(cell[: len(path)] == path for cell in self.clocked)


class Operations:
    def __init__(self, seed_of_reads, table, draw, now):
        self.table, self.draw, self.seed_of_reads = table, draw, seed_of_reads
        self.floors = Floors()
        # Ages are whole days, and stamps lie half a day off.
        self.first_day = now - now % MILLISECOND - HALF_A_DAY - draw.randint(20, 45) * rules.DAY
        self.day = 0
        self.days = draw.randint(8, 20)
        self.marks = 0
        self.rules = table.rules()
        self.written = {}

    def likely(self, percent):
        return self.draw.random() * 100 < percent

    def scenario(self, count):
        plan, checkpoints = [], {count // 3, 2 * count // 3, count}
        for done in range(1, count + 1):
            plan += self.operation()
            if done in checkpoints:
                plan.append(Checkpoint(self.draw.random()))
        stamps = [self.stamp(day, slot) for day in range(self.days) for slot in range(SLOTS)]
        return Scenario(self.table, plan, stamps)

    def operation(self):
        kinds = {
            self.write: 34, self.batch: 7, self.replace: 8, self.modify: 9, self.check: 9,
            self.delete_columns: 9, self.delete_qualifiers: 3, self.delete_older: 7, self.delete_family: 4,
            self.delete_rows: 4, self.upkeep: 3, self.transaction: 4, self.where: 4, self.alter: 2, self.anew: 0.7,
            self.truncate: 0.4,
        }  # fmt: skip
        return self.draw.choices(list(kinds), list(kinds.values()))[0]()

    # Stamps

    def stamp(self, day, slot):
        return self.first_day + day * rules.DAY + slot * MILLISECOND

    def evening(self):
        """The stamp of a deletion of all that was stamped; what is written later is newer."""
        stamp = self.stamp(self.day, 0) + EVENING
        self.day = min(self.day + 1, self.days - 1)
        return stamp if self.day < self.days - 1 else CLOCK

    def stamp_for(self, paths):
        """A stamp for a write of these cells: most of them today, some of an earlier day, or the servers' clock."""
        floor = max(map(self.floors.of, paths))
        days = [day for day in range(self.day + 1) if self.stamp(day, 0) > floor]
        if not days or self.likely(5):
            self.floors.clocked.update(paths)
            return CLOCK
        day = self.draw.choice(days) if self.likely(40) else days[-1]
        return self.stamp(day, self.draw.randrange(SLOTS))

    def deletion(self, path):
        """The stamp of a deletion of all of this."""
        stamp = CLOCK if self.floors.has_clocked(path) or self.likely(5) else self.evening()
        self.floors.delete(path, stamp)
        return stamp

    # What is drawn

    def key(self):
        return self.draw.choice(self.table.keys)

    def family(self, fits=lambda family: True):
        families = [family for family in self.table.families.values() if fits(family)]
        return self.draw.choice(families) if families else None

    def cells(self, family, most=3):
        most = min(most, len(family.pool)) if len(family.pool) < tables.WIDE else tables.WIDE // 3
        qualifiers = self.draw.sample(family.pool, self.draw.randint(1, most))
        return [(qualifier, self.draw.choice(family.value.pool)) for qualifier in qualifiers]

    # Writes

    def one_write(self):
        key, family = self.key(), self.family()
        cells = [(family.name, *cell) for cell in self.cells(family)]
        if self.likely(20):
            other = self.family()
            cells += [(other.name, *cell) for cell in self.cells(other, 1)] if other is not family else []
        form = self.draw.choice(("update", "update", "insert", "plus"))
        return ops.Write(key, cells, None, form)

    def paths(self, write):
        return [(write.key, family, qualifier) for family, qualifier, _ in write.cells]

    def settled(self, write):
        """Of two values of a cell with one stamp Keyspan keeps the greater one, Bigtable the later: it is the same here."""
        if write.stamp is CLOCK:
            return write
        cells = []
        for family, qualifier, value in write.cells:
            cell, kind = ((write.key, family, qualifier), write.stamp), self.table.families[family].value
            if cell in self.written:
                old = self.written[cell]
                sorts = kind in (values.TEXT, values.BIGINT, values.BLOB, values.BOOLEAN)
                value = max(old, value, key=kind.bytes) if sorts else old
            self.written[cell] = value
            cells.append((family, qualifier, value))
        return dataclasses.replace(write, cells=cells)

    def write(self):
        write = self.one_write()
        if self.is_text(write.key, self.table.key) and self.likely(15):
            family = self.family(lambda each: each.value is values.TEXT and self.is_text(each.pool[0], each.qualifier))
            cells = self.cells(family, 1) if family else []
            if family and cells[0][1] and cells[0][0][0]:
                write = ops.Put(write.key, [(family.name, *cells[0])], None)
        write.stamp = self.stamp_for(self.paths(write))
        return [self.settled(write)]

    def shell_fits(self, key, family, qualifier):
        return self.is_text(key, self.table.key) and self.is_text(qualifier, family.qualifier) and qualifier[0] != ""

    def is_text(self, values_of_path, path):
        return len(path.parts) == 1 and path.parts[0].type is values.TEXT

    def batch(self):
        """Writes of cells that differ: one cell has one value of one stamp."""
        writes, seen = [], set()
        for write in (self.one_write() for _ in range(self.draw.randint(2, 4))):
            if not seen & set(self.paths(write)):
                writes.append(write)
                seen |= set(self.paths(write))
        stamp = self.stamp_for(sorted(seen, key=repr))
        for write in writes:
            write.stamp = stamp
        form = self.draw.choice(("batch", "transaction", "transaction", "undone"))
        writes = writes if form == "undone" else [self.settled(write) for write in writes]
        return [ops.Batch(writes, form)]

    def replace(self):
        key, family = self.key(), self.family()
        cells, path = self.cells(family), (key, family.name)
        paths = [(key, family.name, qualifier) for qualifier, _ in cells]
        clock = self.floors.has_clocked(path) or max(map(self.floors.of, paths)) == math.inf or self.likely(5)
        stamp = CLOCK if clock else self.evening()
        if stamp is CLOCK:
            self.floors.clocked.update(paths)
        # It deletes what was before its stamp.
        self.floors.delete(path, stamp)
        return [ops.Replace(key, family.name, cells, stamp, self.draw.choice(("set", "insert")))]

    def modify(self):
        family = self.family(lambda each: each.value in (values.TEXT, values.BIGINT))
        if not family:
            return self.write()
        key, qualifier = self.key(), self.draw.choice(family.pool)
        by = self.draw.randint(1, 300) if family.value is values.BIGINT else self.draw.choice(("x", "yé"))
        forms = ["update", "conflict", "conflict of the cell"]
        forms += ["incr"] if self.shell_fits(key, family, qualifier) and family.value is values.BIGINT else []
        form = self.draw.choice(forms)
        if form == "conflict":
            # Where there is no row, a family is inserted, which deletes what was before.
            self.floors.delete((key, family.name), CLOCK)
        self.floors.clocked.add((key, family.name, qualifier))
        return [reading.Modify(key, family.name, qualifier, by, form)]

    def check(self):
        key, family = self.key(), self.family()
        qualifier, value = self.draw.choice(family.pool), self.draw.choice(family.value.pool)
        signs = ["=", "= NULL", "!= NULL"]
        signs += [">", "<="] if family.value in (values.TEXT, values.BIGINT, values.BLOB) and family.value.bytes(value) else []
        if family.value is values.VARIANT:
            signs = ["= NULL", "!= NULL"]
        then = self.one_write()
        then = dataclasses.replace(then, key=key, form="update", stamp=CLOCK)
        if self.likely(25):
            other = self.family()
            then = reading.DeleteWhole(key, other.name, self.draw.choice(other.pool))
            if self.likely(30):
                then = reading.DeleteWhole(key)
            path = (key, *((then.family, then.qualifier) if then.family else ()))
            # Whether it does is not known here.
            self.floors.delete(path, CLOCK)
        else:
            self.floors.clocked.update(self.paths(then))
        return [reading.Check(key, family.name, qualifier, self.draw.choice(signs), value, then)]

    def where(self):
        family = self.family(lambda each: each.value is not values.VARIANT)
        if not family:
            return self.check()
        qualifier, value = self.draw.choice(family.pool), self.draw.choice(family.value.pool)
        cells = [] if self.likely(30) else [cell for cell in self.one_write().cells]
        for key in self.table.keys:
            if cells:
                self.floors.clocked.update((key, *cell[:2]) for cell in cells)
            else:
                self.floors.delete((key,), CLOCK)
        return [reading.Where(family.name, qualifier, value, cells)]

    # Deletions

    def delete_columns(self):
        key, family = self.key(), self.family()
        qualifiers = self.draw.sample(family.pool, self.draw.randint(1, 2))
        form = self.draw.choice(("delete", "null", "minus", "cells"))
        if self.shell_fits(key, family, qualifiers[0]) and self.likely(20):
            qualifiers, form = qualifiers[:1], "shell"
        paths = [(key, family.name, qualifier) for qualifier in qualifiers]
        if self.likely(40):
            stamp = self.stamp(self.draw.randint(0, self.day), self.draw.randrange(SLOTS))
            for path in paths:
                self.floors.delete(path, stamp)
            return [ops.DeleteColumns(key, family.name, qualifiers, stamp, True, form)]
        clock = any(map(self.floors.has_clocked, paths)) or self.likely(5)
        stamp = CLOCK if clock else self.evening()
        for path in paths:
            self.floors.delete(path, stamp)
        return [ops.DeleteColumns(key, family.name, qualifiers, stamp, False, form)]

    def delete_qualifiers(self):
        key, family = self.key(), self.family(lambda each: len(each.qualifier.parts) == 1)
        if not family:
            return self.delete_columns()
        first, last = sorted(self.draw.sample(family.pool, 2), key=family.qualifier.bytes)
        inside = [(key, family.name, each) for each in family.pool if first[0] <= each[0] <= last[0]]
        clock = any(map(self.floors.has_clocked, inside)) or self.likely(5)
        stamp = CLOCK if clock else self.evening()
        for path in inside:
            self.floors.delete(path, stamp)
        return [ops.DeleteQualifiers(key, family.name, first, last, stamp)]

    def delete_older(self):
        family = self.family()
        key = None if self.likely(20) else self.key()
        qualifier = self.draw.choice(family.pool) if key and self.likely(70) else None
        inclusive = self.likely(50)
        before = []
        if self.likely(25):
            self.marks += 1
            time, floor = f"mark{self.marks}", CLOCK
            before = [ops.Mark(time)]
        else:
            time = self.stamp(self.draw.randint(0, self.day), self.draw.randrange(SLOTS))
            floor = time
        for each in [key] if key else self.table.keys:
            self.floors.delete((each, family.name, qualifier) if qualifier else (each, family.name), floor)
        between = self.write() if before and self.likely(60) else []
        return [*before, *between, ops.DeleteOlder(key, family.name, qualifier, time, inclusive)]

    def delete_family(self):
        key, family = self.key(), self.family()
        stamp = self.deletion((key, family.name))
        forms = ["delete", "null", "cells"] + (["shell"] if stamp is CLOCK and self.is_text(key, self.table.key) else [])
        return [ops.DeleteFamily(key, family.name, stamp, self.draw.choice(forms))]

    def delete_rows(self):
        first = last = self.key()
        if self.likely(40) and len(self.table.key.parts) == 1:
            first, last = sorted(self.draw.sample(self.table.keys, 2), key=self.table.key.bytes)
        inside = [key for key in self.table.keys if first[0] <= key[0] <= last[0]] if first != last else [first]
        # A row that an INSERT has made by the clock needs it, too.
        clock = any(self.floors.has_clocked((key,)) for key in inside)
        stamp = CLOCK if clock or self.likely(10) else self.evening()
        for key in inside:
            self.floors.delete((key,), stamp)
        shell = stamp is CLOCK and first == last and self.is_text(first, self.table.key) and self.likely(50)
        return [ops.DeleteRows(first, last, stamp, shell)]

    def transaction(self):
        """Without times of its own: in a transaction the servers' clock counts at its end."""
        operations, kinds = [], (self.write, self.write, self.replace, self.modify, self.check, self.delete_columns, self.where)
        kinds += (self.delete_qualifiers, self.delete_older, self.delete_family, self.delete_rows)
        for kind in self.draw.choices(kinds, k=self.draw.randint(2, 6)):
            made = kind()
            operations += made if not isinstance(made[0], ops.Mark) else []
        return [ops.Transaction(operations, self.draw.random())]

    # The rest

    def upkeep(self):
        return [ops.Upkeep(self.draw.choice(("FLUSH", "FLUSH", "COMPACT")))]

    def truncate(self):
        self.floors, self.written = Floors(), {}
        return [ops.Truncate()]

    def alter(self):
        family, rule = self.family(), dataclasses.replace(rules.rule(self.draw), spoken=True)
        narrower, self.rules[family.name] = rule.narrower(self.rules[family.name]), rule
        if narrower:
            return [reading.Alter(family.name, rule)]
        return [*self.truncate(), reading.Alter(family.name, rule)] if self.likely(10) else [self.new(family, rule)]

    def anew(self):
        family = self.family()
        return [self.new(family, self.rules[family.name])]

    def new(self, family, rule):
        self.floors.deleted = {path: stamp for path, stamp in self.floors.deleted.items() if path[1:2] != (family.name,)}
        self.written = {cell: value for cell, value in self.written.items() if cell[0][1] != family.name}
        return reading.Anew(family.name, rule)
