"""Prints random statements with subqueries that refer to the outer query: the input of `compare.py`.

    random_statements.py SEED COUNT > random.sql && compare.py random.sql
"""

import random
import sys

TABLES = """
DROP TABLE IF EXISTS fa;
DROP TABLE IF EXISTS fb;
DROP TABLE IF EXISTS fc;
CREATE TABLE fa (id int PRIMARY KEY, a int, b int, t text);
CREATE TABLE fb (id int PRIMARY KEY, k int, v int, t text);
CREATE TABLE fc (id int PRIMARY KEY, k int, w int);
"""

JOINS = [
    "fb", "fb", "fb", "fb", "fb JOIN fc ON fc.k = fb.k", "fb LEFT JOIN fc ON fc.k = fb.k AND fc.w > fa.b",
    "fb LEFT JOIN fc ON fc.id = fb.id", "fb JOIN fc ON fc.w >= fb.v AND fc.k = fa.a",
]
AGGREGATES = [
    "count(*)", "count(fb.v)", "sum(fb.v)", "max(fb.v)", "min(fb.k)", "count(DISTINCT fb.k)", "sum(fb.v + fa.a)",
    "max(fb.v) - min(fb.v)", "count(*) + fa.a", "bool_or(fb.v > 3)::int",
]


class Statements:
    """Statements over the three tables, the same for the same seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def one(self, *choices):
        return self.random.choice(choices)

    def likely(self, part):
        return self.random.random() < part

    def rows(self):
        number = lambda most: "NULL" if self.likely(0.2) else str(self.random.randrange(most))
        text = lambda: "NULL" if self.likely(0.2) else f"'{self.one('x', 'y', 'z')}'"
        values = lambda count, row: ", ".join(f"({at}, {row()})" for at in range(count))
        yield f"INSERT INTO fa VALUES {values(10, lambda: f'{number(6)}, {number(6)}, {text()}')};"
        yield f"INSERT INTO fb VALUES {values(14, lambda: f'{number(6)}, {number(9)}, {text()}')};"
        yield f"INSERT INTO fc VALUES {values(7, lambda: f'{number(6)}, {number(9)}')};"

    def comparison(self):
        return self.one("=", "=", "<", ">", "<=", ">=", "<>")

    def correlation(self):
        return self.one(
            f"fb.k {self.comparison()} fa.a", f"fb.v {self.comparison()} fa.b", "fb.t = fa.t",
            f"fb.v + fa.a {self.comparison()} {self.random.randrange(9)}", "fb.k IS NOT DISTINCT FROM fa.a",
            "(fb.k = fa.a OR fb.v = fa.b)", f"fb.id > fa.id - {self.random.randrange(9)}",
            "coalesce(fb.k, 1) = coalesce(fa.a, 1)",
        )

    def where(self):
        parts = [self.correlation()]
        if self.likely(0.4):
            parts.append(self.correlation())
        if self.likely(0.4):
            parts.append(self.one(f"fb.v > {self.random.randrange(6)}", "fb.t = 'x'", "fb.k IS NOT NULL"))
        self.random.shuffle(parts)
        return " AND ".join(parts)

    def scalar(self):
        aggregate, source, where = self.one(*AGGREGATES), self.one(*JOINS), self.where()
        first = self.one("fb.v", "fb.k + fa.b", "fb.id")
        order = f"fb.v {self.one('', 'DESC')} NULLS LAST, fb.k NULLS LAST, fb.id, 1"
        return self.one(
            f"(SELECT {aggregate} FROM {source} WHERE {where})",
            f"(SELECT {first} FROM {source} WHERE {where} ORDER BY {order} LIMIT 1{self.one('', ' OFFSET 1')})",
            f"(SELECT {aggregate} FROM {source} WHERE {where} HAVING count(*) > {self.random.randrange(3)})",
            f"(SELECT sum(s) FROM (SELECT DISTINCT fb.v AS s FROM fb WHERE {where}) q)",
            f"(SELECT max(c) FROM (SELECT fb.k, count(*) AS c FROM fb WHERE {where} GROUP BY fb.k) q)",
        )

    def predicate(self):
        no, source, where = self.one("", "NOT "), self.one(*JOINS), self.where()
        return self.one(
            f"{no}EXISTS (SELECT 1 FROM {source} WHERE {where})",
            f"{no}EXISTS (SELECT 1 FROM {source} WHERE {where} LIMIT {self.random.randrange(2)})",
            f"fa.{self.one('a', 'b')} {no}IN (SELECT fb.{self.one('k', 'v')} FROM {source} WHERE {where})",
            f"fa.a {no}IN (SELECT fb.k FROM fb WHERE {where} ORDER BY fb.id LIMIT 2)",
            f"(fa.a, fa.b) {no}IN (SELECT fb.k, fb.v FROM {source} WHERE {where})",
            f"{self.scalar()} {self.comparison()} {self.one('fa.a', 'fa.b', '2')}",
        )

    def statement(self):
        source, where = self.one(*JOINS), self.where()
        first = f"SELECT fb.id AS i, fb.v FROM {source} WHERE {where} ORDER BY fb.id, 2 LIMIT {self.one(1, 2, 3)}"
        numbered = f"SELECT fb.id, fb.v, row_number() OVER (ORDER BY fb.v, fb.id) AS n FROM fb WHERE {where}"
        total = f"SELECT {self.one(*AGGREGATES)} AS x FROM {source} WHERE {where}"
        return self.one(
            f"SELECT fa.id, {self.scalar()} FROM fa ORDER BY 1",
            f"SELECT fa.id FROM fa WHERE {self.predicate()} ORDER BY 1",
            f"SELECT fa.id FROM fa WHERE {self.predicate()} {self.one('AND', 'OR')} {self.predicate()} ORDER BY 1",
            f"SELECT fa.id, CASE WHEN {self.predicate()} THEN {self.scalar()} ELSE -1 END FROM fa ORDER BY 1",
            f"SELECT fa.id, q.* FROM fa, LATERAL ({first}) q ORDER BY 1, 2, 3",
            f"SELECT fa.id, q.* FROM fa LEFT JOIN LATERAL ({total}) q ON {self.one('true', 'q.x > 1')} ORDER BY 1, 2",
            f"SELECT fa.id, q.* FROM fa LEFT JOIN LATERAL ({numbered}) q ON q.n <= 2 ORDER BY 1, 2, 3",
            f"SELECT fa.a, count(*), max({self.scalar()}) FROM fa GROUP BY fa.a ORDER BY 1",
            f"SELECT fa.id FROM fa ORDER BY {self.scalar()} NULLS FIRST, 1",
            f"SELECT fa.id, {self.predicate()} FROM fa JOIN fc ON fc.id = fa.id ORDER BY 1",
        )


def main():
    statements = Statements(int(sys.argv[1]))
    print(TABLES.strip(), *statements.rows(), sep="\n")
    for _ in range(int(sys.argv[2])):
        print(f"{statements.statement()};")


if __name__ == "__main__":
    main()
