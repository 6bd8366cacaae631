"""What stands after FROM: tables, joins of every kind, subqueries, functions and lists of values."""

import tables
from scope import Scope

JOINED_BY = ["int", "text", "bigint", "numeric"]


class Sources:
    """Makes FROM items. `queries` makes those that are queries."""

    def __init__(self, choices, queries):
        self.choices, self.queries = choices, queries

    def source(self, outer, depth):
        """The text after FROM and the scope that it gives."""
        text, scope = self.item(outer, depth)
        for _ in range(self.choices.one(0, 0, 1, 1, 2)):
            text, scope = self.join(text, scope, outer, depth)
        if self.choices.likely(10):
            item, other = self.item([], depth - 1)
            text, scope = f"{text}, {item}", scope.joined(other)
        scope.outer = outer
        return text, scope

    def table(self, name=None):
        name = name or self.choices.one(*tables.TABLES, "r", "u", "v", "r", "u")
        alias = self.queries.name("t")
        columns = [(f"{alias}.{column}", kind) for column, kind in tables.TABLES[name].items()]
        return f"{name} {alias}", Scope(columns, keys=[f"{alias}.id"])

    def item(self, outer, depth):
        way = self.choices.below(12)
        if depth <= 0 or way < 7:
            text, scope = self.table()
        elif way == 7 and self.queries.common:
            text, scope = self.common()
        elif way == 8:
            text, scope = self.function(Scope(outer=outer))
        elif way == 9:
            text, scope = self.values()
        else:
            text, scope = self.derived([], depth)
        scope.outer = outer
        return text, scope

    def common(self):
        name, kinds = self.choices.one(*self.queries.common)
        alias = self.queries.name("t")
        return f"{name} {alias}", self.named(alias, kinds)

    def named(self, alias, kinds, prefix="c"):
        columns = [(f"{alias}.{prefix}{at}", kind) for at, kind in enumerate(kinds, 1)]
        return Scope(columns, keys=[text for text, _ in columns])

    def derived(self, outer, depth):
        query, kinds = self.queries.query(outer, depth - 1, named=True)
        alias = self.queries.name("q")
        return f"({query}) {alias}", self.named(alias, kinds)

    def values(self):
        alias, kinds = self.queries.name("v"), self.choices.one(["int"], ["int", "text"], ["date", "int"])
        row = lambda: "(" + ", ".join(tables.literal(self.choices, kind) for kind in kinds) + ")"
        rows = ", ".join(row() for _ in range(1 + self.choices.below(3)))
        names = ", ".join(f"c{at}" for at in range(1, len(kinds) + 1))
        return f"(VALUES {rows}) {alias}({names})", self.named(alias, kinds)

    def function(self, scope):
        """A function in FROM; what it is given may be columns of what stands before it."""
        make, alias = self.queries.expressions, self.queries.name("g")
        scope = scope.alone()
        count = lambda: self.choices.one("3", f"least({make.of('int', scope, 1)}, 4)")
        text, kinds = self.choices.one(
            (f"generate_series(1, {count()})", ["int"]),
            (f"generate_series({count()}, -1, -1)", ["int"]),
            (f"unnest({make.of('ints', scope, 1)})", ["int"]),
            (f"unnest({make.of('ints', scope, 0)}) WITH ORDINALITY", ["int", "bigint"]),
            (f"generate_series('2024-01-30'::timestamp without time zone, '2024-05-01', '1 mon')", ["timestamp"]),
            (f"regexp_split_to_table({make.of('text', scope, 1)}, 'a')", ["text"]),
            (f"jsonb_array_elements('[1, 2, null]'::jsonb)", ["json"]),
            (f"unnest({make.of('texts', scope, 1)})", ["text"]),
        )
        names = ", ".join(f"c{at}" for at in range(1, len(kinds) + 1))
        return f"{text} {alias}({names})", self.named(alias, kinds)

    def join(self, left, scope, outer, depth):
        way = self.choices.below(10)
        if way >= 8 and depth > 0:
            return self.lateral(left, scope, outer, depth)
        if way >= 5 and " JOIN " not in left and "(" not in left:
            return self.by_name(left, scope, outer)
        right, other = self.item([], depth - 1)
        kind = self.choices.one("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN")
        both = scope.joined(other)
        both.outer = outer
        if kind == "CROSS JOIN":
            return f"{left} CROSS JOIN {right}", both
        return f"{left} {kind} {right} ON {self.condition(kind, scope, other, both, depth)}", both

    def condition(self, kind, left, right, both, depth):
        parts = []
        for joined in JOINED_BY:
            if left.of(joined) and right.of(joined) and (not parts or self.choices.likely(25)):
                own = [text for text, has in left.columns if has == joined and "." in text]
                if own:
                    parts.append(f"{self.choices.one(*own)} = {self.choices.one(*right.of(joined))}")
        if not parts:
            return "true"
        if kind != "FULL JOIN" and self.choices.likely(35):
            parts.append(self.queries.expressions.of("bool", both.alone() if self.choices.likely(70) else both, min(depth, 1)))
        return " AND ".join(parts)

    def by_name(self, left, scope, outer):
        """USING and NATURAL between two tables: names that are merged are the ones both have."""
        name = left.split()[0]
        if name not in tables.TABLES:
            return self.join_tables(left, scope, outer)
        right_name = self.choices.one(*(other for other in tables.TABLES if other != name))
        right, other = self.table(right_name)
        shared = [column for column in tables.TABLES[name] if column in tables.TABLES[right_name]]
        kind = self.choices.one("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
        if self.choices.likely(30):
            text, merged = f"{left} NATURAL {kind} {right}", shared
        else:
            merged = self.choices.some(shared, least=1, most=2)
            text = f"{left} {kind} {right} USING ({', '.join(merged)})"
        both = scope.joined(other, [(column, tables.TABLES[name][column]) for column in merged] + scope.columns + other.columns)
        both.outer = outer
        return text, both

    def join_tables(self, left, scope, outer):
        right, other = self.table()
        both = scope.joined(other)
        both.outer = outer
        return f"{left} JOIN {right} ON {self.condition('JOIN', scope, other, both, 0)}", both

    def lateral(self, left, scope, outer, depth):
        if "FULL JOIN" in left or "RIGHT JOIN" in left:
            return self.join_tables(left, scope, outer)
        if self.choices.likely(40):
            item, other = self.function(Scope(outer=scope.as_outer()))
        else:
            item, other = self.derived(scope.as_outer(), depth)
        both = scope.joined(other)
        both.outer = outer
        return self.choices.one(f"{left} CROSS JOIN LATERAL {item}", f"{left} LEFT JOIN LATERAL {item} ON true", f"{left} JOIN LATERAL {item} ON true"), both
