"""Calls with OVER. Where a call depends on the order of rows, the order has the keys of the query at its end."""

import expressions

BY_PEERS = {
    "bigint": ["rank()", "dense_rank()", "count(*)", "count({any})", "sum({int})"],
    "float": ["percent_rank()", "cume_dist()"],
    "int": ["max({int})", "min({int})"],
    "numeric": ["sum({numeric})", "avg({int})", "max({numeric})", "avg({numeric})"],
    "text": ["max({text}::text)", "min({text}::text)"],
    "bool": ["bool_or({bool})", "bool_and({bool})"],
    "date": ["max({date})"],
    "timestamp": ["min({timestamp})"],
}
BY_ROWS = {
    "bigint": ["row_number()", "count(*)", "sum({int})"],
    "int": ["ntile(3)", "lag({int})", "lead({int}, 2)", "lag({int}, 1, {int})", "first_value({int})", "last_value({int})", "nth_value({int}, 2)"],
    "text": ["lag({text}::text)", "first_value({text}::text)", "string_agg({text}::text, ',')", "nth_value({text}::text, 3)"],
    "ints": ["array_agg({int})"],
    "date": ["lead({date})", "last_value({date})"],
    "numeric": ["sum({numeric})", "lag({numeric}, 2)", "avg({numeric})"],
}
# What RANGE may add to a column of the type.
STEPS = {"int": ["1", "2", "10"], "date": ["interval '1 day'", "interval '1 mon'"], "timestamp": ["interval '1 hour'", "interval '40 days'"], "numeric": ["0.5", "3"]}


class Windows:
    def __init__(self, choices, make):
        self.choices, self.make = choices, make
        self.named = []

    def call(self, scope):
        """A call and its type."""
        scope = scope.alone()
        by_rows = self.choices.likely(45)
        kind, templates = self.choices.one(*(BY_ROWS if by_rows else BY_PEERS).items())
        template = self.choices.one(*templates)
        call = self.make.filled(template, kind, scope, 1)
        plain = template.split("(")[0] in ("count", "sum", "avg", "max", "min", "bool_or", "array_agg")
        if plain and self.choices.likely(15):
            call += f" FILTER (WHERE {self.make.of('bool', scope, 1)})"
        return f"{call} OVER {self.window(scope, by_rows)}", kind

    def partition(self, scope):
        if not self.choices.likely(55):
            return ""
        kinds = [kind for kind in scope.kinds() if kind in expressions.PLAIN and kind != "interval"]
        return f"PARTITION BY {self.make.of(self.choices.one(*kinds), scope, self.choices.below(2))}" if kinds else ""

    def window(self, scope, by_rows):
        partition = self.partition(scope)
        if by_rows:
            parts = [partition, self.order(scope, scope.keys), self.choices.one("", *self.frames("ROWS"), *self.frames("GROUPS"))]
        else:
            parts = [partition, *self.ordered_by_peers(scope)]
        text = " ".join(part for part in parts if part)
        if text and self.choices.likely(25):
            return self.name(partition, text)
        return f"({text})"

    def name(self, partition, text):
        """The window after WINDOW; what is called for is its name, or its name and what comes after the partitions."""
        name = f"w{len(self.named) + 1}"
        rest = text.removeprefix(partition).strip()
        if partition and rest and self.choices.likely(50):
            self.named.append(f"{name} AS ({partition})")
            return f"({name} {rest})"
        self.named.append(f"{name} AS ({text})")
        return name

    def order(self, scope, keys=()):
        kinds = [kind for kind in scope.kinds() if kind in expressions.PLAIN and kind != "interval"]
        parts = [f"{self.make.of(self.choices.one(*kinds), scope, self.choices.below(2))}{self.direction()}" for _ in range(1 if kinds else 0)]
        return "ORDER BY " + ", ".join(parts + list(keys)) if parts or keys else ""

    def direction(self):
        return self.choices.one("", "", " DESC", " NULLS FIRST", " DESC NULLS LAST")

    def ordered_by_peers(self, scope):
        """An order that may have ties, and a frame of whole groups of peers."""
        if not self.choices.likely(75):
            return []
        steps = [(text, kind) for text, kind in scope.columns if kind in STEPS]
        if steps and self.choices.likely(40):
            column, kind = self.choices.one(*steps)
            step = lambda: self.choices.one(*STEPS[kind])
            bounds = self.choices.one(f"{step()} PRECEDING AND CURRENT ROW", f"{step()} PRECEDING AND {step()} FOLLOWING", f"CURRENT ROW AND {step()} FOLLOWING", f"UNBOUNDED PRECEDING AND {step()} PRECEDING")
            return [f"ORDER BY {column}{self.direction()}", f"RANGE BETWEEN {bounds}"]
        order = self.order(scope)
        return [order, self.choices.one("", *(self.frames("GROUPS") + ["RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"]))] if order else []

    def frames(self, unit):
        return [
            f"{unit} {bounds}"
            for bounds in ["UNBOUNDED PRECEDING", "BETWEEN 1 PRECEDING AND 1 FOLLOWING", "BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "BETWEEN 2 PRECEDING AND 1 PRECEDING", "BETWEEN 1 FOLLOWING AND 2 FOLLOWING", "2 PRECEDING"]
        ]
