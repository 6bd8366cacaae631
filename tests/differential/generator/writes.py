"""Random writes to the table `z`, in PostgreSQL's write semantics. No row is written twice by one statement."""

import tables
from queries import Queries
from scope import Scope

COLUMNS = [column for column in tables.WRITTEN if column != "id"]


class Writes:
    def __init__(self, choices):
        self.choices, self.queries = choices, Queries(choices)
        self.make = self.queries.expressions
        self.own = Scope([(f"z.{column}", kind) for column, kind in tables.WRITTEN.items()])

    def statement(self):
        write = self.choices.one(self.insert, self.update, self.delete, self.conflict, self.merge)
        return write()

    def value(self, column, scope, depth=1):
        kind = tables.WRITTEN[column]
        text = self.make.of(kind, scope, depth)
        return {"int": f"({text}) % 1000", "numeric": f"({text})::numeric(20,3) % 100000"}.get(kind, text)

    def returning(self, scope):
        if not self.choices.likely(40):
            return ""
        return " RETURNING " + self.choices.one("*", "id, s", f"id, {self.make.of('int', scope, 1)}") if scope is self.own else " RETURNING z.id, z.a"

    def rows(self, first):
        """Rows with new keys, as VALUES or a query."""
        columns = self.choices.some(COLUMNS, least=1)
        names = ", ".join(["id", *columns])
        if self.choices.likely(35):
            text, scope = self.queries.sources.table()
            values = ", ".join(self.value(column, scope) for column in columns)
            return f"({names}) SELECT {scope.keys[0]} + {first}, {values} FROM {text}"
        empty = Scope()
        row = lambda at: f"({first + at}, " + ", ".join(self.value(column, empty) if self.choices.likely(85) else "DEFAULT" for column in columns) + ")"
        return f"({names}) VALUES {', '.join(row(at) for at in range(1 + self.choices.below(3)))}"

    def insert(self):
        return f"INSERT INTO z {self.rows(self.choices.one(20, 100))}{self.returning(self.own)}"

    def conflict(self):
        both = Scope(self.own.columns + [(f"excluded.{column}", kind) for column, kind in tables.WRITTEN.items()], no_subqueries=True)
        columns = self.choices.some(COLUMNS, least=1, most=2)
        sets = ", ".join(f"{column} = {self.value(column, both)}" for column in columns)
        where = f" WHERE {self.make.of('bool', both, 1)}" if self.choices.likely(40) else ""
        action = self.choices.one("DO NOTHING", f"DO UPDATE SET {sets}{where}", f"DO UPDATE SET {sets}{where}")
        target = " (id)" if "UPDATE" in action else self.choices.one("", " (id)")
        return f"INSERT INTO z {self.rows(self.choices.one(4, 1, 0))} ON CONFLICT{target} {action}{self.returning(self.own)}"

    def update(self):
        columns = self.choices.some(COLUMNS, least=1, most=3)
        scope, source, condition = self.own, "", []
        if self.choices.likely(45):
            text, other = self.queries.sources.table()
            scope = self.own.joined(other)
            source, condition = f" FROM {text}", [f"z.id = {other.keys[0]}"]
        sets = ", ".join(f"{column} = {self.value(column, scope, 2)}" for column in columns)
        if len(columns) > 1 and self.choices.likely(20):
            sets = f"({', '.join(columns)}) = ({', '.join(self.value(column, scope) for column in columns)})"
        if not condition or self.choices.likely(50):
            condition.append(self.make.of("bool", scope, 2))
        return f"UPDATE z SET {sets}{source} WHERE {' AND '.join(condition)}{self.returning(scope)}"

    def delete(self):
        scope, source = self.own, ""
        if self.choices.likely(45):
            text, other = self.queries.sources.table()
            scope, source = self.own.joined(other), f" USING {text}"
        return f"DELETE FROM z{source} WHERE {self.make.of('bool', scope, 2)}{self.returning(scope)}"

    def merge(self):
        text, other = self.queries.sources.table()
        both = self.own.joined(other).alone()
        source = Scope(other.columns, no_subqueries=True)
        clauses, ended = [], set()
        for _ in range(1 + self.choices.below(3)):
            matched = self.choices.likely(60)
            scope = both if matched else source
            guard = f" AND {self.make.of('bool', scope, 1)}" if self.choices.likely(50) else ""
            if matched in ended:
                continue
            if not guard:
                ended.add(matched)
            columns = self.choices.some(COLUMNS, least=1, most=2)
            if matched:
                sets = ", ".join(f"{column} = {self.value(column, both)}" for column in columns)
                action = self.choices.one("DELETE", f"UPDATE SET {sets}", "DO NOTHING")
            else:
                values = ", ".join(self.value(column, source) for column in columns)
                action = self.choices.one("DO NOTHING", f"INSERT (id, {', '.join(columns)}) VALUES ({other.keys[0]}, {values})")
            clauses.append(f"WHEN {'' if matched else 'NOT '}MATCHED{guard} THEN {action}")
        return f"MERGE INTO z USING {text} ON z.id = {other.keys[0]} {' '.join(clauses)}"
