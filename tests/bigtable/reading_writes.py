"""Writes that read, and changes of families. Those that read are stamped by the servers' clocks."""

import dataclasses

from emulator import DELETE_ROW, delete_cells
from operations import CLOCK, Write, key_values
from rules import Rule
from values import quoted


@dataclasses.dataclass
class Modify:
    """ReadModifyWrite: adds to a number or to the end of a text. `form`: update, conflict (of a family, or
    of the cell), or incr.

    An UPDATE that reads changes only rows that are there; then the cell is written.
    """

    key: tuple
    family: str
    qualifier: tuple
    by: object
    form: str

    def run(self, at):
        table, family = at.table, at.table.families[self.family]
        cell, added, where = family.cell(self.qualifier), family.value.literal(self.by), table.key.equal(self.key)
        number = family.value.name == "bigint"
        sign, nothing = ("+", "0") if number else ("||", "''")
        rule = {"increment_amount": self.by} if number else {"append_value": family.value.bytes(self.by)}
        # Bigtable reads a version that is too old until it is collected; a rule holds at once here.
        at.collect(self.key)
        lived = at.row_lives(self.key)
        theirs = at.bigtable.read_modify_write(
            table.key.bytes(self.key), self.family, family.qualifier.bytes(self.qualifier), rule
        )
        if self.form == "incr":
            words = [at.name, self.key[0], f"{self.family}:{self.qualifier[0]}"]
            at.ask(f"incr {', '.join(map(quoted, words))}, {self.by}")
            return None
        if self.form.startswith("conflict"):
            column, value = (self.family, family.map([(self.qualifier, self.by)])) if self.form == "conflict" else (cell, added)
            columns, values = [*table.key.columns, column], [*key_values(table, self.key), value]
            change = f"{cell} = coalesce({at.name}.{cell}, {nothing}) {sign} excluded.{cell}"
            insert = f"INSERT INTO {at.name} ({', '.join(columns)}) VALUES ({', '.join(values)})"
            conflict = f"ON CONFLICT ({', '.join(table.key.columns)}) DO UPDATE SET {change}"
            answer = at.ask(f"{insert} {conflict} RETURNING {cell}")
            if not lived:
                at.mark_row(self.key, CLOCK)
        else:
            change = f"{cell} = coalesce({cell}, {nothing}) {sign} {added}"
            answer = at.ask(f"UPDATE {at.name} SET {change} WHERE {where} RETURNING {cell}")
            if not answer:
                answer = at.ask(f"UPDATE {at.name} SET {cell} = {added} WHERE {where} RETURNING {cell}")
        return family.value.bytes(answer[0][0]), theirs


@dataclasses.dataclass
class Check:
    """CheckAndMutate: where a cell has a value, has another, is greater, or is not there, then a write or a deletion."""

    key: tuple
    family: str
    qualifier: tuple
    sign: str
    value: object
    then: object

    def condition(self, family):
        if self.sign in ("= NULL", "!= NULL"):
            return f"{family.cell(self.qualifier)} {self.sign}"
        return f"{family.cell(self.qualifier)} {self.sign} {family.value.literal(self.value)}"

    def predicate(self, family):
        """The newest version, then its value."""
        column = column_filter(family, self.qualifier)
        value = family.value.bytes(self.value) if self.value is not None else b""
        newest = [*column, {"cells_per_column_limit_filter": 1}]
        kind = {"=": ("start_value_closed", "end_value_closed"), ">": ("start_value_open",), "<=": ("end_value_closed",)}
        ends = kind.get(self.sign, ())
        return {"chain": {"filters": newest + ([{"value_range_filter": {end: value for end in ends}}] if ends else [])}}

    def run(self, at):
        family, then = at.table.families[self.family], self.then
        statement = f"{then.statement(at)} IF {self.condition(family)}"
        key = at.table.key.bytes(self.key)
        at.collect(self.key)
        mutations = then.mutations(at)
        yes, no = ([], mutations) if self.sign == "= NULL" else (mutations, [])
        theirs = at.bigtable.check_and_mutate(key, self.predicate(family), yes, no)
        theirs = theirs != (self.sign == "= NULL")
        ours = at.ask(statement)[0][0]
        if ours and isinstance(then, DeleteWhole) and not then.family:
            at.forget_row(self.key, CLOCK)
        return ours, theirs


@dataclasses.dataclass
class Where:
    """A write or a deletion of all rows in which a cell's newest value is this one. Bigtable reads first."""

    family: str
    qualifier: tuple
    value: object
    # Cells (family, qualifier, value) that are written; without them the rows are deleted.
    cells: list

    def run(self, at):
        family = at.table.families[self.family]
        at.collect()
        predicate = Check(None, self.family, self.qualifier, "=", self.value, None).predicate(family)
        found = {cell[0] for cell in at.bigtable.read([predicate])}
        condition = f"{family.cell(self.qualifier)} = {family.value.literal(self.value)}"
        changes = [
            f"{at.table.families[name].cell(q)} = {at.table.families[name].value.literal(v)}" for name, q, v in self.cells
        ]
        rows = f"UPDATE {at.name} SET {', '.join(changes)}" if self.cells else f"DELETE FROM {at.name}"
        at.ask(f"{rows} WHERE {condition}")
        for key in at.table.keys:
            if at.table.key.bytes(key) in found:
                write = Write(key, self.cells, CLOCK)
                at.bigtable.mutate(at.table.key.bytes(key), write.mutations(at) if self.cells else [DELETE_ROW])
                if not self.cells:
                    at.forget_row(key, CLOCK)


@dataclasses.dataclass
class DeleteWhole:
    """A row, or one cell of it, where a condition holds."""

    key: tuple
    family: str | None = None
    qualifier: tuple | None = None

    def statement(self, at):
        cell = f"{at.table.families[self.family].cell(self.qualifier)} " if self.family else ""
        return f"DELETE {cell}FROM {at.name} WHERE {at.table.key.equal(self.key)}"

    def mutations(self, at):
        if not self.family:
            return [DELETE_ROW]
        return [delete_cells(self.family, at.table.families[self.family].qualifier.bytes(self.qualifier))]


@dataclasses.dataclass
class Alter:
    """Another rule, which keeps nothing that the old one does not keep: what that hides may still be there, or not."""

    family: str
    rule: Rule

    def run(self, at):
        at.table.families[self.family].rule = self.rule
        at.ask(f"ALTER TABLE {at.name} ALTER {self.family} SET{self.rule.text()}")
        rule = self.rule.bigtable()
        # A family without a rule is one whose update names the field and leaves it out.
        at.bigtable.change(
            {"id": self.family, "update": {"gc_rule": rule} if rule else {}, "update_mask": {"paths": ["gc_rule"]}}
        )


@dataclasses.dataclass
class Anew:
    """A family is dropped, and there is one of its name again, with any rule."""

    family: str
    rule: Rule

    def run(self, at):
        family = at.table.families[self.family]
        family.rule = self.rule
        at.ask(f"ALTER TABLE {at.name} DROP {self.family}")
        at.ask(f"ALTER TABLE {at.name} ADD {self.family} {family.type()}{family.rule.text()}")
        rule = family.rule.bigtable()
        at.bigtable.change({"id": self.family, "drop": True})
        at.bigtable.change({"id": self.family, "create": {"gc_rule": rule} if rule else {}})


def column_filter(family, qualifier):
    """The cells of one column."""
    at = family.qualifier.bytes(qualifier)
    span = {"family_name": family.name, "start_qualifier_closed": at, "end_qualifier_closed": at}
    return [{"column_range_filter": span}]
