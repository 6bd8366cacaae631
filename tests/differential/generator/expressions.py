"""Random expressions of a wanted type: templates whose holes name types, `{int}`, or say what else goes there.

Holes: a type of `tables.TYPES`; `{small}` a number that is no expression; `{any}` an expression of any plain type, the
`{any2}` of a template all of one; `{same}` and `{sametext}` one int and text in all places; `{T}` the wanted type. Everything a template can make must have one answer: no order of rows that nobody fixed.
"""

import re

import tables

PLAIN = ["int", "text", "numeric", "bool", "bigint", "date", "timestamp", "float", "interval", "instant", "ints", "texts"]

TEMPLATES = {
    "int": [
        "({int} + {int})", "({int} - {int})", "({int} * {small})", "(- {int})", "({int} / nullif({int}, 0))",
        "({int} % nullif({int}, 0))", "abs({int})", "length({text})", "char_length({text})", "octet_length({text})",
        "position({text} IN {text})", "strpos({text}, {text})", "ascii({text})", "({bigint} % 1000)::int", "{numeric}::int",
        "{bool}::int", "extract(year FROM {date})::int", "({date} - {date})", "cardinality({ints})", "array_length({ints}, 1)",
        "({ints})[{small}]", "array_position({texts}, {text})", "array_upper({texts}, 1)", "sign({int})::int",
        "({int} & {int})", "({int} | {small})", "({int} # {small})", "(~ {int})", "({small} << 2)", "bit_length({text})",
        "CASE {int} WHEN {int} THEN {int} WHEN {int} THEN {int} ELSE {int} END", "jsonb_array_length('[1,2]'::jsonb)",
        "date_part('dow', {date})::int", "extract(doy FROM {timestamp})::int", "round({numeric})::int", "mod({int}, 7)",
        "CASE WHEN {same} <> 0 THEN {int} / {same} ELSE 0 END", "floor({float})::int", "width_bucket({numeric}, 0, 10, 5)",
        "num_nulls({any}, {any})", "coalesce(nullif({same}, 0), 1, 1 / {same})", "gcd({int}, {small})", "lcm({small}, {small})",
        "scale({numeric})", "extract(epoch FROM {interval})::int", "div({int}, 3)::int", "ceil({numeric})::int",
    ],
    "bigint": [
        "({bigint} + {int})", "({bigint} - {bigint})", "({bigint} * {small})", "{int}::bigint", "abs({bigint})",
        "({bigint} / nullif({bigint}, 0))", "({bigint} % nullif({int}, 0))", "({int} + {bigint})", "factorial({small})::bigint",
    ],
    "numeric": [
        "({numeric} + {numeric})", "({numeric} - {int})", "({numeric} * {numeric})", "round({numeric}, 2)", "abs({numeric})",
        "round({numeric} / nullif({numeric}, 0), 3)", "({numeric} % nullif({numeric}, 0))", "trunc({numeric}, 1)",
        "ceil({numeric})", "floor({numeric})", "{int}::numeric", "{numeric}::numeric(20,1)", "({bigint} * {numeric})",
        "extract(epoch FROM {interval})", "extract(second FROM {timestamp})", "sign({numeric})", "power({numeric}, 2)",
        "extract(epoch FROM {timestamp})", "mod({numeric}, 3)", "round({numeric}, -1)", "(- {numeric})", "div({numeric}, 2)",
        "extract(month FROM {date})", "extract(quarter FROM {timestamp})", "extract(isodow FROM {instant})",
        "CASE WHEN {sametext} ~ '^[0-9]+$' THEN {sametext}::text::numeric END", "({numeric} / nullif({int}, 0))", "sqrt(abs({numeric}))", "round({float}::numeric, 2)",
    ],
    "float": [
        "({float} + {float})", "({float} * {int})", "({float} / nullif({float}, 0))", "{numeric}::float8", "sqrt(abs({float}))",
        "abs({float})", "floor({float})", "ceil({float})", "round({float})", "trunc({float})", "exp({float} / 100)",
        "date_part('hour', {timestamp})", "({float} - {numeric})", "sign({float})", "degrees({float})", "({int} ^ 2)",
        "ln(abs({float}) + 1)", "cbrt({float})", "atan2({float}, 2)", "power({float}, 2)",
    ],
    "text": [
        "({text} || {text})", "upper({text})", "lower({text})", "substr({text}, {small})", "substring({text} FROM {small} FOR {small})",
        "left({text}, {small})", "right({text}, -1)", "trim({text})", "replace({text}, {text}, {text})", "reverse({text})",
        "repeat({text}, 2)", "lpad({text}, 4, 'xy')", "rpad({text}, 3)", "split_part({text}, 'a', 1)", "initcap({text})",
        "{int}::text", "{numeric}::text", "{bool}::text", "{date}::text", "{interval}::text", "{timestamp}::text", "{ints}::text",
        "concat({text}, {int}, {bool})", "concat_ws('-', {text}, {int}, {text})", "md5({text})", "translate({text}, 'ab', 'x')",
        "to_char({date}, 'YYYY-MM-DD Dy')", "to_char({timestamp}, 'HH24:MI:SS.US')", "to_char({int}, '999')", "quote_literal({text})",
        "({texts})[{small}]", "array_to_string({texts}, ',')", "array_to_string({ints}, ',', '*')", "format('%s|%s', {text}, {int})",
        "({json} ->> 'a')", "({json} #>> '{{b,0}}')", "({json} ->> 0)", "{json}::text", "jsonb_typeof({json})", "overlay({text} PLACING 'q' FROM 1)",
        "coalesce({text}, 'none')", "btrim({text}, 'a')", "ltrim({text}, 'ab')", "regexp_replace({text}, '[a-z]', '#', 'g')",
        "CASE WHEN {bool} THEN {text} WHEN {bool} THEN 'k' END", "nullif({text}, {text})", "chr(65 + abs({small}))", "to_hex({small})",
        "({text} || {int})", "substring({text} FROM '[a-z]+')", "to_char({numeric}, 'FM990.00')", "quote_ident({text})", "starts_with({text}, 'a')::text",
        "greatest({text}, {text})", "(regexp_match({text}, '(.)'))[1]", "to_char({interval}, 'DD HH24:MI')", "{bigint}::text",
    ],
    "bool": [
        "({int} = {int})", "({int} < {int})", "({text} >= {text})", "({int} IS NULL)", "({text} IS NOT NULL)", "({bool} AND {bool})",
        "({bool} OR {bool})", "(NOT {bool})", "({text} LIKE 'a%')", "({text} ~ '^[a-z]+$')", "({int} BETWEEN {int} AND {int})",
        "({int} IN ({int}, {int}, {small}))", "({int} NOT IN ({small}, {int}))", "({any2} IS DISTINCT FROM {any2})",
        "({int} = ANY ({ints}))", "({int} > ALL ({ints}))", "({text} ILIKE '%A%')", "({date} <= {date})", "({timestamp} > {timestamp})",
        "({numeric} <> {int})", "({float} < {numeric})", "({bool} IS NOT TRUE)", "({bool} IS UNKNOWN)", "({ints} @> {ints})",
        "({ints} && {ints})", "({json} @> '[1]')", "({json} ? 'a')", "({texts} = {texts})", "({int}, {text}) = ({int}, {text})",
        "({int}, {int}) < ({int}, {int})", "({interval} < {interval})", "({json} = {json})", "({date} > {timestamp})", "({instant} < {instant})",
        "({text} NOT LIKE '_b')", "({text} SIMILAR TO '(a|b)%')", "({numeric} BETWEEN SYMMETRIC {int} AND {int})", "({text} = ANY ({texts}))",
        "(CASE WHEN {same} <> 0 THEN 6 / {same} > 1 END)", "(CASE WHEN {same} = 0 THEN false WHEN 6 / {same} > 1 THEN {bool} ELSE {bool} END)", "({bool} = {bool})", "(ROW({int}, {int}) IS NULL)", "(ROW({int}, {text}) IS DISTINCT FROM ROW({int}, {text}))",
        "({ints} < {ints})", "({bigint} = {int})", "isfinite({date})", "({json} <@ {json})",
    ],
    "date": [
        "({date} + {small})", "({date} - {int} % 1000)", "{timestamp}::date", "date_trunc('month', {date})::date", "({date} + {interval})::date",
        "make_date(2000 + {small}, 1 + abs({small}), 1)", "{instant}::date", "to_date('2024-05-1' || {small}, 'YYYY-MM-DD')",
    ],
    "timestamp": [
        "({timestamp} + {interval})", "({timestamp} - {interval})", "({date} + {interval})", "date_trunc('day', {timestamp})",
        "date_trunc('week', {timestamp})", "{date}::timestamp without time zone", "({instant} AT TIME ZONE 'UTC')",
        "({instant} AT TIME ZONE 'Europe/Berlin')", "date_trunc('quarter', {timestamp})", "({date} + time '01:02:03')",
        "date_bin('15 minutes', {timestamp}, '2000-01-01'::timestamp without time zone)", "({interval} + {timestamp})",
    ],
    "instant": [
        "({instant} + {interval})", "({instant} - {interval})", "({timestamp} AT TIME ZONE 'America/New_York')", "date_trunc('hour', {instant})",
        "({timestamp} AT TIME ZONE 'UTC')", "date_trunc('day', {instant}, 'Asia/Tokyo')", "to_timestamp({small} * 100000)",
    ],
    "interval": [
        "({interval} + {interval})", "({interval} - {interval})", "({interval} * {small})", "({timestamp} - {timestamp})", "justify_days({interval})",
        "({instant} - {instant})", "make_interval(days => {small}, hours => {small})", "age({timestamp}, {timestamp})", "(- {interval})",
        "({interval} / 2)", "justify_hours({interval})", "justify_interval({interval})", "({interval} * 1.5)", "date_trunc('hour', {interval})",
    ],
    "ints": [
        "ARRAY[{int}, {int}]", "({ints} || {int})", "({ints} || {ints})", "array_append({ints}, {int})", "array_remove({ints}, {int})",
        "({ints})[1:2]", "array_cat({ints}, {ints})", "array_prepend({int}, {ints})", "array_replace({ints}, {int}, {int})", "string_to_array('1,2', ',')::int[]",
        "ARRAY[]::int[]", "array_positions({ints}, {int})", "trim_array(ARRAY[1,2,3], 1)", "array_fill({int}, ARRAY[2])",
    ],
    "texts": [
        "ARRAY[{text}, {text}]::text[]", "string_to_array({text}, 'a')", "({texts} || {text}::text)", "array_remove({texts}, {text})", "{ints}::text[]",
        "regexp_split_to_array({text}, 'b')", "({texts})[{small}:2]", "regexp_match({text}, '([a-z])')",
    ],
    "json": [
        "jsonb_build_object('k', {int}, 'b', {bool})", "jsonb_build_array({int}, {text}::text, {json})", "to_jsonb({int})", "to_jsonb({texts})", "({json} -> 'b')",
        "({json} || {json})", "({json} #> '{{a}}')", "(jsonb_build_object('a', {int}, {text}::text || 'k', 1) - 'a')", "jsonb_set(jsonb_build_array({int}, {json}), '{{0}}', '5')", "to_jsonb({text}::text)", "({json} -> 0)",
        "jsonb_strip_nulls({json})", "to_jsonb({date})", "to_jsonb({numeric})", "({json} -> -1)",
    ],
}
GENERIC = [
    "coalesce({T}, {T})", "CASE WHEN {bool} THEN {T} ELSE {T} END", "nullif({T}, {T})", "CASE WHEN {bool} THEN {T} END",
    "greatest({T}, {T})", "least({T}, {T}, {T})", "CASE {int} WHEN {small} THEN {T} ELSE {T} END", "CAST({T} AS {type})",
]
# Aggregates whose answer does not depend on the order of rows.
AGGREGATES = {
    "bigint": ["count(*)", "count({any})", "count(DISTINCT {any})", "sum({int})", "sum(DISTINCT {int})", "regr_count({float}, {float})"],
    "int": ["max({int})", "min({int})", "bit_and({int})", "bit_or({int})", "mode() WITHIN GROUP (ORDER BY {bool}::int)", "bit_xor({int})"],
    "numeric": [
        "sum({numeric})", "avg({int})", "max({numeric})", "avg({numeric})", "sum({bigint})", "min({numeric})", "avg(DISTINCT {int})",
        "round(variance({int}), 6)", "round(stddev_pop({numeric}), 6)", "round(stddev_samp({int}), 6)", "round(var_pop({int}), 6)",
    ],
    "float": ["sum({float})", "avg({float})", "max({float})", "percentile_cont(0.5) WITHIN GROUP (ORDER BY {float})", "stddev_pop({float})", "corr({float}, {float})", "covar_pop({float}, {float})", "regr_slope({float}, {float})"],
    "text": ["max({text})", "min({text})", "string_agg({text}::text, ',' ORDER BY {text}::text)", "string_agg(DISTINCT {text}::text, '-')", "percentile_disc(0.5) WITHIN GROUP (ORDER BY {text}::text)"],
    "bool": ["bool_and({bool})", "bool_or({bool})", "every({bool})"],
    "date": ["max({date})", "min({date})"],
    "timestamp": ["max({timestamp})", "min({timestamp})"],
    "instant": ["max({instant})"],
    "interval": ["sum({interval})", "avg({interval})", "max({interval})"],
    "ints": ["array_agg({int} ORDER BY {int})", "array_agg(DISTINCT {int})", "array_agg({int} ORDER BY {int} DESC NULLS LAST)", "max({ints})"],
    "texts": ["array_agg({text}::text ORDER BY {text}::text)"],
    "json": ["jsonb_agg({int} ORDER BY {int})", "jsonb_object_agg(coalesce({text}, ''), 1)"],
}
HOLE = re.compile(r"\{(\w+)\}")


class Expressions:
    """Makes expressions over the columns of a scope. `queries` makes the subqueries in them."""

    def __init__(self, choices, queries):
        self.choices, self.queries = choices, queries

    def of(self, kind, scope, depth):
        """An expression of the type over the columns in scope; `depth` is how far it may nest."""
        if depth <= 0:
            return self.leaf(kind, scope)
        way = self.choices.below(12)
        if way < 4:
            return self.leaf(kind, scope)
        if way < 9:
            return self.filled(self.choices.one(*TEMPLATES[kind]), kind, scope, depth - 1)
        if way < 11 or scope.no_subqueries:
            return self.filled(self.choices.one(*GENERIC), kind, scope, depth - 1)
        return self.queries.subquery(kind, scope, depth - 1)

    def leaf(self, kind, scope):
        columns = scope.of(kind)
        if columns and not self.choices.likely(20):
            return self.choices.one(*columns)
        if self.choices.likely(8):
            return f"NULL::{tables.TYPES[kind]}"
        return tables.literal(self.choices, kind)

    def any(self, scope, depth):
        return self.of(self.choices.one(*PLAIN), scope, depth)

    def filled(self, template, kind, scope, depth):
        """The template with its holes filled. An aggregate's are filled the same way twice where it is to be sorted."""
        same = {}
        plain = template.replace("{{", "\x01").replace("}}", "\x02")

        def hole(found):
            name = found[1]
            if name == "small":
                return str(self.choices.below(4))
            if name == "type":
                return tables.TYPES[kind].split("(")[0]
            if name == "any":
                return self.any(scope, depth)
            if name == "any2":
                same[name] = same.get(name) or self.choices.one(*PLAIN)
                return self.of(same[name], scope, depth)
            if name in ("same", "sametext"):
                same[name] = same.get(name) or self.leaf(name[4:] or "int", scope)
                return same[name]
            return self.of(kind if name == "T" else name, scope, depth)

        return HOLE.sub(hole, plain).replace("\x01", "{").replace("\x02", "}")

    def aggregate(self, kind, scope, depth):
        """An aggregate of the type. What it is ordered by is what it collects, else its answer would be anyone's."""
        template = self.choices.one(*AGGREGATES[kind])
        if ordered := re.search(r"\{(\w+)\}(\S*?)(,.*?)? ORDER BY", template):
            if "WITHIN" not in template:
                inner = self.of(ordered[1], scope, depth)
                template = template.replace("{" + ordered[1] + "}", inner.replace("{", "{{").replace("}", "}}"))
        call = self.filled(template, kind, scope, depth)
        if self.choices.likely(15) and not call.startswith("round("):
            call += f" FILTER (WHERE {self.of('bool', scope, depth)})"
        return call
