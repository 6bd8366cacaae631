"""Conditions of a query, each with the rows or the filters of Bigtable that say the same."""

import values
from reading_writes import column_filter
from values import time_literal


class Conditions:
    """Of a run's table: `at` is the run, `table` its table."""

    def likely(self, percent):
        return self.draw.random() * 100 < percent

    def row_condition(self, percent):
        """Conditions on the first part of the key, and the rows that they name."""
        if not self.likely(percent):
            return [], {}
        part = self.table.key.parts[0]
        first, last = sorted(self.draw.sample(self.table.keys, 2), key=self.table.key.bytes)
        literal = part.type.literal
        kind = self.draw.choice(("one", "some", "range", "prefix"))
        if kind == "one":
            return [self.table.key.equal(first)], {"row_keys": [self.table.key.bytes(first)]}
        if kind == "some" and len(self.table.key.parts) == 1:
            listed = f"{part.name} IN ({literal(first[0])}, {literal(last[0])})"
            return [listed], {"row_keys": [self.table.key.bytes(key) for key in (first, last)]}
        if kind == "prefix" and part.type is values.TEXT and first[0]:
            prefix = first[0][:1]
            forms = [f"starts_with({part.name}, {literal(prefix)})"]
            # A letter of a pattern that stands for itself.
            forms += [f"{part.name} LIKE {literal(prefix + '%')}"] if prefix not in "_%" else []
            forms += [f"starts_with(row_key, {literal(prefix)})"]
            where = self.draw.choice(forms[:2])
            start = prefix.encode()
            return [where], {"row_ranges": [{"start_key_closed": start, "end_key_open": next_prefix(start)}]}
        named = [f"{part.name} >= {literal(first[0])}", f"{part.name} < {literal(last[0])}"]
        if len(self.table.key.parts) == 1:
            return named, {"row_ranges": [self.span(part.type.bytes(first[0]), part.type.bytes(last[0]))]}
        return named, {"row_ranges": [self.span(part.bytes(first[0]), part.bytes(last[0]))]}

    def span(self, first, last):
        """From one key to before another; none if they are the same, which Bigtable refuses."""
        if first >= last:
            return {"start_key_closed": b"\xff" * 9, "end_key_open": b"\xff" * 10}
        return {"start_key_closed": first, "end_key_open": last} if first else {"end_key_open": last}

    def qualifier_condition(self, family):
        parts, pool = family.qualifier.parts, family.pool
        literal, name = parts[0].type.literal, parts[0].name
        first, last = sorted(self.draw.sample(pool, 2), key=family.qualifier.bytes)
        within = lambda **ends: [{"column_range_filter": {"family_name": family.name} | ends}]
        if len(parts) > 1:
            # Of two parts a condition on the first one is a range of bytes.
            start = parts[0].bytes(first[0])
            if self.likely(50):
                return family.qualifier.equal(first), column_filter(family, first)
            return f"{name} = {literal(first[0])}", within(start_qualifier_closed=start, end_qualifier_open=next_prefix(start))
        low, high = (parts[0].type.bytes(each[0]) for each in (first, last))
        kind = self.draw.choice(("one", "range", "open", "from", "to", "prefix"))
        if kind == "range":
            return f"{name} >= {literal(first[0])} AND {name} < {literal(last[0])}", within(
                start_qualifier_closed=low, end_qualifier_open=high
            )
        if kind == "open":
            return f"{name} > {literal(first[0])} AND {name} <= {literal(last[0])}", within(
                start_qualifier_open=low, end_qualifier_closed=high
            )
        if kind == "from":
            return f"{name} >= {literal(first[0])}", within(start_qualifier_closed=low)
        if kind == "to":
            return f"{name} <= {literal(last[0])}", within(end_qualifier_closed=high)
        if kind == "prefix" and parts[0].type is values.TEXT:
            start = self.draw.choice(("a", "z", "é", "c'"))
            return f"{name} LIKE {literal(start + '%')}", [{"column_qualifier_regex_filter": start.encode() + rb"\C*"}]
        return f"{name} = {literal(first[0])}", column_filter(family, first)

    def time_condition(self, family):
        first, last = sorted(self.draw.sample(self.at.stamps, 2))
        kind = self.draw.choice(("both", "from", "to"))
        ends = {}
        conditions = []
        if kind != "to":
            conditions.append(f"written_at >= {time_literal(first)}")
            ends["start_timestamp_micros"] = first
        if kind != "from":
            conditions.append(f"written_at < {time_literal(last)}")
            ends["end_timestamp_micros"] = last
        return " AND ".join(conditions), [{"timestamp_range_filter": ends}]

    def value_condition(self, family):
        value = self.draw.choice(family.value.pool)
        literal, found = family.value.literal(value), family.value.bytes(value)
        if family.value is values.VARIANT:
            kind, plain = value
            return f"variant_type(value) = '{kind}'", [{"value_regex_filter": kind.encode() + rb":\C*"}]
        if family.value is values.TEXT and self.likely(40):
            return "value LIKE '%a%'", [{"value_regex_filter": rb"\C*a\C*"}]
        equal = {"start_value_closed": found, "end_value_closed": found}
        # Others are not compared as their bytes are.
        sorts = family.value in (values.TEXT, values.BIGINT, values.BLOB)
        kinds = {"=": equal}
        if sorts:
            kinds |= {">": {"start_value_open": found}, "<": {"end_value_open": found}, "<=": {"end_value_closed": found}}
        if not found:
            kinds = {"=": equal}
        sign = self.draw.choice(list(kinds))
        return f"value {sign} {literal}", [{"value_range_filter": kinds[sign]}]


def family_filter(family):
    return {"family_name_regex_filter": family.name}


def within(key, rows):
    """Whether a key is one of these rows."""
    if not rows:
        return True
    inside = lambda span: (
        span.get("start_key_closed", b"") <= key and ("end_key_open" not in span or key < span["end_key_open"])
    )
    return key in rows.get("row_keys", ()) or any(map(inside, rows.get("row_ranges", ())))


def next_prefix(start):
    """The first bytes behind all that begin with these."""
    start = start.rstrip(b"\xff")
    return start[:-1] + bytes([start[-1] + 1])
