"""Writes, each in both languages: statements for Keyspan, mutations for Bigtable.

`at` is the run that does them: its table here and there, and what it knows of rows. A stamp of `None` is the servers'
clock. `run` gives the answers of both where there are any, to be compared.
"""

import dataclasses
import time

from emulator import DELETE_ROW, SERVER_TIME, delete_cells, delete_family, set_cell
from values import quoted, time_literal

CLOCK = None


def using(stamp):
    return "" if stamp is CLOCK else f" USING TIMESTAMP {stamp}"


def until(at, time):
    """The time that a deletion of versions names: a stamp, or a mark, which is set now if it was not before."""
    if isinstance(time, str) and time not in at.marks:
        Mark(time).run(at)
    return at.marks[time] if isinstance(time, str) else time


@dataclasses.dataclass
class Write:
    """Cells of one row, (family, qualifier, value). `form`: how it is said."""

    key: tuple
    cells: list
    stamp: int | None
    form: str = "update"

    def statement(self, at):
        table, name = at.table, at.name
        families = table.families
        if self.form == "insert":
            columns = [*table.key.columns, *(families[family].cell(q) for family, q, _ in self.cells)]
            values = key_values(table, self.key) + [families[family].value.literal(value) for family, _, value in self.cells]
            return f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({', '.join(values)}){using(self.stamp)}"
        if self.form == "plus":
            named = dict.fromkeys(family for family, _, _ in self.cells)
            maps = {family: families[family].map([cell[1:] for cell in self.cells if cell[0] == family]) for family in named}
            changes = [f"{family} = {family} + {cells}" for family, cells in maps.items()]
        else:
            changes = [
                f"{families[family].cell(q)} = {families[family].value.literal(value)}" for family, q, value in self.cells
            ]
        return f"UPDATE {name}{using(self.stamp)} SET {', '.join(changes)} WHERE {table.key.equal(self.key)}"

    def mutations(self, at):
        stamp = SERVER_TIME if self.stamp is CLOCK else self.stamp
        return [set_cell(family, *at.cell(family, q, value, stamp)) for family, q, value in self.cells]

    def run(self, at):
        at.ask(self.statement(at))
        at.bigtable.mutate(at.table.key.bytes(self.key), self.mutations(at))
        if self.form == "insert":
            at.mark_row(self.key, self.stamp)


@dataclasses.dataclass
class Put(Write):
    """The same one cell, by HBase's command, of a text key and a family of texts. Its stamp counts milliseconds."""

    def statement(self, at):
        family, (qualifier,), value = self.cells[0]
        words = [at.name, self.key[0], f"{family}:{qualifier}", value]
        stamp = "" if self.stamp is CLOCK else f", {self.stamp // 1000}"
        return f"put {', '.join(map(quoted, words))}{stamp}"


@dataclasses.dataclass
class Replace:
    """A family of a row as a whole."""

    key: tuple
    family: str
    cells: list
    stamp: int | None
    form: str = "set"

    def run(self, at):
        table, family = at.table, at.table.families[self.family]
        cells = family.map(self.cells)
        if self.form == "insert":
            columns, values = [*table.key.columns, self.family], [*key_values(table, self.key), cells]
            at.ask(f"INSERT INTO {at.name} ({', '.join(columns)}) VALUES ({', '.join(values)}){using(self.stamp)}")
            at.mark_row(self.key, self.stamp)
        else:
            at.ask(f"UPDATE {at.name}{using(self.stamp)} SET {self.family} = {cells} WHERE {table.key.equal(self.key)}")
        written = Write(self.key, [(self.family, *cell) for cell in self.cells], self.stamp).mutations(at)
        at.bigtable.mutate(table.key.bytes(self.key), [delete_family(self.family), *written])


@dataclasses.dataclass
class Batch:
    """Writes of several cells that share a stamp. `form`: batch, insert, transaction, or undone."""

    writes: list
    form: str

    def run(self, at):
        stamp = self.writes[0].stamp
        if self.form == "batch":
            inner = "; ".join(dataclasses.replace(write, stamp=CLOCK).statement(at) for write in self.writes)
            at.ask(f"BEGIN BATCH{using(stamp)} {inner}; APPLY BATCH")
        else:
            at.ask("BEGIN")
            for write in self.writes:
                at.ask(write.statement(at))
            at.ask("ROLLBACK" if self.form == "undone" else "COMMIT")
        if self.form != "undone":
            at.bigtable.mutate_rows([(at.table.key.bytes(write.key), write.mutations(at)) for write in self.writes])
            for write in self.writes:
                if write.form == "insert":
                    at.mark_row(write.key, stamp)


@dataclasses.dataclass
class DeleteColumns:
    """Cells of a row, all versions, or those up to `stamp` where `partly`."""

    key: tuple
    family: str
    qualifiers: list
    stamp: int | None
    partly: bool = False
    form: str = "delete"

    def statement(self, at):
        family, where = at.table.families[self.family], at.table.key.equal(self.key)
        cells = [family.cell(qualifier) for qualifier in self.qualifiers]
        if self.form == "delete":
            return f"DELETE {', '.join(cells)} FROM {at.name}{using(self.stamp)} WHERE {where}"
        if self.form == "cells":
            equal = [f"({family.qualifier.equal(qualifier)})" for qualifier in self.qualifiers]
            cells = f"DELETE FROM cells('{at.name}', '{self.family}'){using(self.stamp)}"
            return f"{cells} WHERE {where} AND ({' OR '.join(equal)})"
        if self.form == "shell":
            words = [at.name, self.key[0], f"{self.family}:{self.qualifiers[0][0]}"]
            return f"deleteall {', '.join(map(quoted, words))}" + ("" if self.stamp is CLOCK else f", {self.stamp // 1000}")
        if self.form == "minus":
            change = f"{self.family} = {self.family} - {{{', '.join(map(family.qualifier.literal, self.qualifiers))}}}"
        else:
            change = ", ".join(f"{cell} = NULL" for cell in cells)
        return f"UPDATE {at.name}{using(self.stamp)} SET {change} WHERE {where}"

    def run(self, at):
        at.ask(self.statement(at))
        qualifier, stamp = at.table.families[self.family].qualifier, self.stamp + 1 if self.partly else None
        mutations = [delete_cells(self.family, qualifier.bytes(each), stamp) for each in self.qualifiers]
        at.bigtable.mutate(at.table.key.bytes(self.key), mutations)


@dataclasses.dataclass
class DeleteQualifiers:
    """The cells from one qualifier to another, both inclusive."""

    key: tuple
    family: str
    first: tuple
    last: tuple
    stamp: int | None

    def run(self, at):
        family = at.table.families[self.family]
        name = family.qualifier.columns[0]
        literal = lambda values: family.qualifier.parts[0].type.literal(values[0])
        span = f"{name} >= {literal(self.first)} AND {name} <= {literal(self.last)}"
        where = f"{at.table.key.equal(self.key)} AND {span}"
        at.ask(f"DELETE FROM cells('{at.name}', '{self.family}'){using(self.stamp)} WHERE {where}")
        inside = [each for each in family.pool if self.first[0] <= each[0] <= self.last[0]]
        mutations = [delete_cells(self.family, family.qualifier.bytes(each)) for each in inside]
        at.bigtable.mutate(at.table.key.bytes(self.key), mutations)


@dataclasses.dataclass
class DeleteOlder:
    """Versions written before a time, or up to it: of one cell, of a row's family, or of a family in all rows."""

    key: tuple | None
    family: str
    qualifier: tuple | None
    time: int | str
    inclusive: bool = False

    def run(self, at):
        table, family, time = at.table, at.table.families[self.family], until(at, self.time)
        conditions = [table.key.equal(self.key)] if self.key else []
        conditions += [family.qualifier.equal(self.qualifier)] if self.qualifier else []
        conditions.append(f"written_at {'<=' if self.inclusive else '<'} {time_literal(time)}")
        at.ask(f"DELETE FROM cells('{at.name}', '{self.family}') WHERE {' AND '.join(conditions)}")
        qualifiers = [self.qualifier] if self.qualifier else family.pool
        bound = time + self.inclusive
        mutations = [delete_cells(self.family, family.qualifier.bytes(each), bound) for each in qualifiers]
        for key in [self.key] if self.key else table.keys:
            at.bigtable.mutate(table.key.bytes(key), mutations)


@dataclasses.dataclass
class DeleteVersions:
    """Versions of a cell written from one time on and before another."""

    key: tuple
    family: str
    qualifier: tuple
    first: int
    end: int

    def run(self, at):
        table, family = at.table, at.table.families[self.family]
        first, end = (time_literal(until(at, each)) for each in (self.first, self.end))
        cell = f"{table.key.equal(self.key)} AND {family.qualifier.equal(self.qualifier)}"
        versions = f"written_at >= {first} AND written_at < {end}"
        at.ask(f"DELETE FROM cells('{at.name}', '{self.family}') WHERE {cell} AND {versions}")
        deletion = delete_cells(self.family, family.qualifier.bytes(self.qualifier), until(at, self.end), until(at, self.first))
        at.bigtable.mutate(table.key.bytes(self.key), [deletion])


@dataclasses.dataclass
class DeleteFamily:
    key: tuple
    family: str
    stamp: int | None
    form: str = "delete"

    def run(self, at):
        where = at.table.key.equal(self.key)
        statement = {
            "delete": f"DELETE {self.family} FROM {at.name}{using(self.stamp)} WHERE {where}",
            "null": f"UPDATE {at.name}{using(self.stamp)} SET {self.family} = NULL WHERE {where}",
            "cells": f"DELETE FROM cells('{at.name}', '{self.family}'){using(self.stamp)} WHERE {where}",
            "shell": f"deleteall '{at.name}', {quoted(str(self.key[0]))}, '{self.family}'",
        }
        at.ask(statement[self.form])
        at.bigtable.mutate(at.table.key.bytes(self.key), [delete_family(self.family)])


@dataclasses.dataclass
class DeleteRows:
    """Rows from one key to another, both inclusive, or one row."""

    first: tuple
    last: tuple
    stamp: int | None
    shell: bool = False

    def run(self, at):
        key, name = at.table.key, at.table.key.columns[0]
        where = key.equal(self.first)
        inside = [self.first]
        if self.first != self.last:
            first, last = (at.table.key.parts[0].type.literal(each[0]) for each in (self.first, self.last))
            where = f"{name} >= {first} AND {name} <= {last}"
            inside = [each for each in at.table.keys if self.first[0] <= each[0] <= self.last[0]]
        shell = f"deleteall '{at.name}', {quoted(str(self.first[0]))}"
        at.ask(shell if self.shell else f"DELETE FROM {at.name}{using(self.stamp)} WHERE {where}")
        for each in inside:
            at.bigtable.mutate(key.bytes(each), [DELETE_ROW])
            at.forget_row(each, self.stamp)


@dataclasses.dataclass
class Truncate:
    def run(self, at):
        at.ask(f"TRUNCATE {at.name}")
        at.bigtable.drop_rows(None)
        at.marked.clear()


@dataclasses.dataclass
class Mark:
    """A moment between two statements."""

    name: str

    def run(self, at):
        time.sleep(0.002)
        at.marks[self.name] = time.time_ns() // 1000
        at.log.append(f"-- {self.name} is now")
        time.sleep(0.002)


@dataclasses.dataclass
class Transaction:
    """Several operations in one, after which all is read before it ends. The reads follow from the seed."""

    operations: list
    seed: float

    def run(self, at):
        at.ask("BEGIN")
        for operation in self.operations:
            answers = operation.run(at)
            if answers and answers[0] != answers[1]:
                return answers
        at.collect()
        found = at.check(self.seed)
        if not found:
            at.ask("COMMIT")
        return found


@dataclasses.dataclass
class Upkeep:
    """FLUSH and COMPACT, which change no answer."""

    statement: str

    def run(self, at):
        at.ask(self.statement)


def key_values(table, key):
    return [part.type.literal(value) for part, value in zip(table.key.parts, key)]
