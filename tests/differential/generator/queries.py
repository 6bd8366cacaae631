"""Random queries: SELECT with all its clauses, set operations, WITH, and subqueries where an expression may stand."""

from expressions import AGGREGATES, Expressions
from scope import Scope
from sources import Sources
from windows import Windows

# Types whose equal values look alike, so that DISTINCT, GROUP BY and UNION have one answer.
GROUPED = ["int", "text", "bigint", "numeric", "bool", "date", "timestamp", "instant", "ints", "texts"]
SHOWN = GROUPED + ["float", "interval", "json"]


class Queries:
    """Makes queries; `common` are the names that WITH gave, with the types of their columns."""

    def __init__(self, choices):
        self.choices = choices
        self.expressions = Expressions(choices, self)
        self.sources = Sources(choices, self)
        self.common, self.names = [], 0

    def name(self, letter):
        self.names += 1
        return f"{letter}{self.names}"

    def statement(self):
        """A whole query, and whether the order of its rows is fixed."""
        prefix = self.with_clause() if self.choices.likely(20) else ""
        depth = self.choices.one(1, 2, 2, 3)
        if self.choices.likely(18):
            query, kinds = self.operation([], depth)
        else:
            query, kinds = self.select([], depth, named=self.choices.likely(50))
        tail, ordered = self.tail(kinds, query) if self.choices.likely(50) else ("", False)
        return f"{prefix}{query}{tail}", ordered

    def query(self, outer, depth, kinds=None, named=False):
        """A query within another one, and the types of its columns."""
        if depth > 0 and self.choices.likely(12):
            query, kinds = self.operation(outer, depth, kinds)
        else:
            query, kinds = self.select(outer, depth, kinds, named)
        if self.choices.likely(15):
            query += self.tail(kinds, query)[0]
        return query, kinds

    def tail(self, kinds, query):
        """ORDER BY all columns, so that LIMIT has one answer; or WITH TIES, which has one for any order."""
        if "DISTINCT ON" in query and "UNION" not in query:
            return "", False
        parts = [f"{at}{self.choices.one('', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST')}" for at in range(1, len(kinds) + 1)]
        limit = self.choices.one("", " LIMIT 3", " LIMIT 2 OFFSET 1", " OFFSET 2", " FETCH FIRST 2 ROWS ONLY", " LIMIT ALL", " LIMIT 0")
        if not set(kinds) <= set(GROUPED):
            limit = ""
        if limit and "DISTINCT" not in query and " UNION" not in query and self.choices.likely(10):
            return f" ORDER BY {parts[0]} FETCH FIRST 2 ROWS WITH TIES", False
        return f" ORDER BY {', '.join(parts)}{limit}", set(kinds) <= set(GROUPED)

    def wanted(self, among=SHOWN):
        return [self.choices.one(*among) for _ in range(self.choices.one(1, 2, 2, 3, 4))]

    def select(self, outer, depth, kinds=None, named=False):
        source, scope = self.sources.source(outer, depth)
        where = f" WHERE {self.expressions.of('bool', scope, depth)}" if self.choices.likely(45) else ""
        way = self.choices.below(10)
        if way < 5:
            return self.plain(source + where, scope, depth, kinds, named)
        if way < 8:
            return self.grouped(source + where, scope, depth, kinds, named)
        if way == 8:
            return self.windowed(source + where, scope, depth, kinds, named)
        return self.distinct(source + where, scope, depth, kinds, named)

    def outputs(self, scope, depth, kinds, named):
        own = [kind for kind in scope.kinds() if kind in SHOWN]
        kinds = kinds or [self.choices.one(*own) if own and self.choices.likely(60) else kind for kind in self.wanted()]
        texts = [self.expressions.of(kind, scope, depth) for kind in kinds]
        return ", ".join(f"{text} AS c{at}" if named else text for at, text in enumerate(texts, 1)), kinds

    def plain(self, source, scope, depth, kinds, named):
        shown, kinds = self.outputs(scope, depth, kinds, named)
        return f"SELECT {shown} FROM {source}", kinds

    def windowed(self, source, scope, depth, kinds, named):
        windows = Windows(self.choices, self.expressions)
        wide = Scope(scope.columns, [windows.call(scope) for _ in range(1 + self.choices.below(2))], scope.outer, scope.keys)
        if kinds is None:
            kinds = [kind for _, kind in wide.made] + self.wanted()
        shown, kinds = self.outputs(wide, min(depth, 1), kinds, named)
        named_windows = f" WINDOW {', '.join(windows.named)}" if windows.named else ""
        return f"SELECT {shown} FROM {source}{named_windows}", kinds

    def grouped(self, source, scope, depth, kinds, named):
        keys = self.group_keys(scope)
        clause = self.group_by([text for text, _ in keys])
        columns = [key for key in keys if key in scope.columns]
        inner = Scope(scope.columns, no_subqueries=True)
        calls = []
        for kind in kinds or self.wanted():
            kind = kind if kind in AGGREGATES else "bigint"
            calls.append((self.expressions.aggregate(kind, inner, 1), kind))
        if "(" in clause and keys:
            calls.append((f"grouping({keys[0][0]})", "int"))
        wide = Scope(columns, [key for key in keys if key not in columns] + calls, scope.outer)
        if not keys and scope.outer:
            wide.outer = []
        having = f" HAVING {self.expressions.of('bool', wide, 1)}" if self.choices.likely(20) else ""
        shown, kinds = self.outputs(wide, min(depth, 1), kinds or [kind for _, kind in keys + calls], named)
        return f"SELECT {shown} FROM {source}{clause}{having}", kinds

    def group_keys(self, scope):
        """Columns, and now and then an expression, that are grouped by."""
        among = [column for column in scope.columns if column[1] in GROUPED]
        keys = self.choices.some(among, most=3) if among else []
        if keys and self.choices.likely(15):
            text, kind = keys[-1]
            keys[-1] = (f"coalesce({text}, {text})", kind)
        return keys

    def group_by(self, keys):
        if not keys:
            return ""
        listed = ", ".join(keys)
        if len(keys) < 2 or self.choices.likely(70):
            return f" GROUP BY {listed}"
        rest = ", ".join(keys[1:])
        return " GROUP BY " + self.choices.one(
            f"ROLLUP ({listed})", f"CUBE ({listed})", f"GROUPING SETS (({listed}), ({keys[0]}), ())",
            f"{keys[0]}, ROLLUP ({rest})", f"GROUPING SETS ({keys[0]}, ROLLUP ({listed}))",
        )

    def distinct(self, source, scope, depth, kinds, named):
        if kinds is None:
            kinds = self.wanted(GROUPED)
        if not set(kinds) <= set(GROUPED) or (self.choices.likely(65) or not scope.keys):
            shown, kinds = self.outputs(scope, depth, kinds, named)
            return f"SELECT {'DISTINCT ' if set(kinds) <= set(GROUPED) else ''}{shown} FROM {source}", kinds
        on = self.choices.some([text for text, kind in scope.columns if kind in GROUPED] or scope.keys, least=1, most=2)
        order = ", ".join(f"{text}{self.choices.one('', ' DESC', ' NULLS FIRST')}" for text in on + scope.keys)
        shown, kinds = self.outputs(scope, depth, kinds, named)
        return f"SELECT DISTINCT ON ({', '.join(on)}) {shown} FROM {source} ORDER BY {order}", kinds

    def operation(self, outer, depth, kinds=None):
        kinds = kinds or self.wanted(GROUPED)
        operator = self.choices.one("UNION ALL", "UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL")
        if not set(kinds) <= set(GROUPED):
            operator = "UNION ALL"
        sides = []
        for _ in range(self.choices.one(2, 2, 3)):
            side, _ = self.select(outer, depth - 1, kinds, named=True)
            sides.append(f"({side})" if "DISTINCT ON" in side or self.choices.likely(20) else side)
        return f" {operator} ".join(sides), kinds

    def with_clause(self):
        """One or two names, one of them recursive now and then."""
        parts, recursive = [], self.choices.likely(35)
        for _ in range(1 + self.choices.below(2)):
            name = self.name("x")
            query, kinds = self.recursive(name) if recursive and not parts else self.query([], 1, named=True)
            names = ", ".join(f"c{at}" for at in range(1, len(kinds) + 1))
            hint = self.choices.one("", "", " MATERIALIZED", " NOT MATERIALIZED")
            parts.append(f"{name}({names}) AS{hint} ({query})")
            self.common.append((name, kinds))
        return f"WITH {'RECURSIVE ' if recursive else ''}{', '.join(parts)} "

    def recursive(self, name):
        """Counts up from a number, with something beside it; or walks along rows of a table."""
        beside = self.choices.one("int", "text", "bigint", "ints")
        scope = Scope([("x.c1", "int"), ("x.c2", beside)], no_subqueries=True)
        cast = {"int": "int", "text": "text", "bigint": "bigint", "ints": "int[]"}[beside]
        first = f"{self.expressions.of(beside, Scope(no_subqueries=True), 1)}::{cast}"
        small = {"int": "(x.c2 % 10 + x.c1)", "text": "left(x.c2 || x.c1, 8)", "bigint": "(x.c2 % 100 + 1)", "ints": "(x.c2 || x.c1)[1:5]"}[beside]
        union = self.choices.one("UNION ALL", "UNION")
        walk = self.choices.one(
            f"SELECT x.c1 + 1, {small}::{cast} FROM {name} x WHERE x.c1 < {2 + self.choices.below(4)}",
            f"SELECT x.c1 + 1, {small}::{cast} FROM {name} x WHERE x.c1 < 4 AND {self.expressions.of('bool', scope, 1)}",
            f"SELECT r.id, {small}::{cast} FROM r JOIN {name} x ON r.id = x.c1 + 1 WHERE r.id < 6",
        )
        return f"SELECT 1, {first} {union} {walk}", ["int", beside]

    def subquery(self, kind, scope, depth):
        """A subquery in an expression's place; it may name columns of the query around it."""
        outer = scope.as_outer() if self.choices.likely(65) else []
        if kind == "bool" and not self.choices.likely(20):
            return self.predicate(scope, outer, depth)
        if kind in ("ints", "texts"):
            query, _ = self.select(outer, depth - 1, [kind[:-1].replace("int", "int")], named=True)
            if "DISTINCT ON" not in query:
                return f"ARRAY({query} ORDER BY 1)"
        return f"({self.one_row(kind, outer, depth)})"

    def one_row(self, kind, outer, depth):
        source, scope = self.sources.source(outer, depth - 1)
        where = f" WHERE {self.expressions.of('bool', scope, 1)}" if self.choices.likely(70) else ""
        if kind in AGGREGATES and self.choices.likely(60):
            inner = Scope(scope.columns, no_subqueries=True)
            return f"SELECT {self.expressions.aggregate(kind, inner, 1)} FROM {source}{where}"
        value = self.expressions.of(kind, scope.alone(), 1)
        return f"SELECT {value} FROM {source}{where} ORDER BY 1{self.choices.one('', ' DESC', ' NULLS FIRST')} LIMIT 1{self.choices.one('', ' OFFSET 1')}"

    def predicate(self, scope, outer, depth):
        way, no = self.choices.below(4), self.choices.one("", "NOT ")
        if way == 0:
            return f"{no}EXISTS ({self.select(outer, depth - 1)[0]})"
        kind = self.choices.one("int", "text", "numeric", "date", "bigint")
        value = self.expressions.of(kind, scope, min(depth, 1))
        if way == 1 and self.choices.likely(30):
            second = self.expressions.of("int", scope, 0)
            return f"({value}, {second}) {no}IN ({self.query(outer, depth - 1, [kind, 'int'])[0]})"
        inner, _ = self.query(outer, depth - 1, [kind])
        if way < 3:
            return f"{value} {no}IN ({inner})"
        return f"{value} {self.choices.one('=', '<', '>=', '<>')} {self.choices.one('ANY', 'ALL', 'SOME')} ({inner})"
