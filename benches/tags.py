"""Series named in a table of their own, as TimescaleDB's form of TSBS has it: Keyspan over the wire and DuckDB on its file.

    python3 benches/tags.py --keyspan target/release/keyspan --hosts 1000 --hours 12

tags (id, hostname, region, …) and cpu (tags_id, ts, ten gauges; key (tags_id, ts)), random walks. Hosts, regions and windows
are drawn anew for each run of a query, and are the same for both; answers are compared. Both have two threads. Prints medians
in milliseconds, rows of Python's here and of Arrow's there, and their ratios. Needs psycopg, duckdb and pyarrow.
"""

import argparse
import math
import pathlib
import random
import shutil
import statistics
import subprocess
import tempfile

import duckdb

from servers import same, started, stop, timed

PORT = 5579
GAUGES = [f"usage_{name}" for name in "user system idle nice iowait irq softirq steal guest guest_nice".split()]
REGIONS = [f"region-{n}" for n in range(9)]
START = "2016-01-01 00:00:00+00"

LATEST = """SELECT t.hostname, b.ts, b.usage_user FROM tags t INNER JOIN LATERAL
    (SELECT * FROM cpu c WHERE c.tags_id = t.id ORDER BY ts DESC LIMIT 1) b ON true"""


def maxima(count):
    return ", ".join(f"max({gauge})" for gauge in GAUGES[:count])


def by_minute(gauges, where):
    bucket = "time_bucket(INTERVAL '1 minute', ts)"
    return f"SELECT {bucket} AS minute, {maxima(gauges)} FROM cpu WHERE {where} GROUP BY minute ORDER BY minute"


class Drawn:
    """Hosts, a region and a window of time."""

    def __init__(self, random, hosts, hours):
        self.random, self.hosts, self.hours = random, hosts, hours

    def of(self, count):
        names = ", ".join(f"'host_{host}'" for host in self.random.sample(range(self.hosts), min(count, self.hosts)))
        return f"tags_id IN (SELECT id FROM tags WHERE hostname IN ({names}))"

    def region(self):
        return f"t.region = '{self.random.choice(REGIONS)}'"

    def window(self, hours):
        first = self.random.randrange(max(1, (self.hours - hours) * 3600))
        at = lambda second: f"TIMESTAMPTZ '{START}' + INTERVAL '{second} seconds'"
        return f"ts >= {at(first)} AND ts < {at(first + hours * 3600)}"


QUERIES = {
    "single-groupby-1-1-1": lambda d: by_minute(1, f"{d.of(1)} AND {d.window(1)}"),
    "single-groupby-1-1-12": lambda d: by_minute(1, f"{d.of(1)} AND {d.window(12)}"),
    "single-groupby-5-8-1": lambda d: by_minute(5, f"{d.of(8)} AND {d.window(1)}"),
    "cpu-max-all-1": lambda d: by_minute(10, f"{d.of(1)} AND {d.window(8)}"),
    "cpu-max-all-8": lambda d: by_minute(10, f"{d.of(8)} AND {d.window(8)}"),
    "high-cpu-1": lambda d: f"SELECT * FROM cpu WHERE usage_user > 90 AND {d.of(1)} AND {d.window(12)}",
    "one host by name": lambda d: f"""SELECT t.hostname, max(usage_user), count(*) FROM cpu c JOIN tags t ON t.id = c.tags_id
        WHERE t.hostname = 'host_{d.random.randrange(d.hosts)}' GROUP BY t.hostname""",
    "hourly of a region's hosts": lambda d: f"""SELECT t.hostname, date_trunc('hour', ts) AS hour, avg(usage_user)
        FROM cpu c JOIN tags t ON t.id = c.tags_id WHERE {d.region()} AND {d.window(6)} GROUP BY 1, 2 ORDER BY 1, 2""",
    "double-groupby-1": lambda d: f"""SELECT date_trunc('hour', ts) AS hour, t.hostname, avg(usage_user)
        FROM cpu c JOIN tags t ON t.id = c.tags_id WHERE {d.window(12)} GROUP BY 1, 2 ORDER BY 1, 2""",
    "means of regions": lambda d: f"""SELECT t.region, avg(usage_user) FROM cpu c JOIN tags t ON t.id = c.tags_id
        WHERE {d.window(6)} GROUP BY 1 ORDER BY 1""",
    "lastpoint": lambda d: LATEST,
    "lastpoint of a region": lambda d: f"{LATEST} WHERE {d.region()}",
}


def generated(path, hosts, hours):
    db = duckdb.connect(str(path / "rows.duckdb"))
    db.execute("SET threads = 2; SET TimeZone = 'UTC'; SELECT setseed(0.5)")
    regions = ", ".join(f"'{region}'" for region in REGIONS)
    db.execute(f"""CREATE TABLE tags AS SELECT i::int AS id, 'host_' || i AS hostname, [{regions}][1 + i % {len(REGIONS)}] AS region,
        'rack-' || i % 97 AS rack, ['x64', 'x86'][1 + i % 2] AS arch FROM range({hosts}) r(i)""")
    gauges = ", ".join(f"round(50 + 49.9 * sin(s * {0.001 * (n + 1)} + h * {n + 3}.7) + random() * 0.2, {n % 3}) AS {gauge}" for n, gauge in enumerate(GAUGES))
    db.execute(f"""CREATE TABLE cpu AS SELECT h::int AS tags_id, TIMESTAMPTZ '{START}' + to_seconds(s * 10) AS ts, {gauges}
        FROM range({hosts}) a(h), range({hours * 360}) b(s) ORDER BY tags_id, ts""")
    for table in ["tags", "cpu"]:
        db.execute(f"COPY {table} TO '{path / table}.parquet' (FORMAT parquet)")
    return db


def load(program, path):
    for table, key in [("tags", "id"), ("cpu", "(tags_id),ts")]:
        command = [program, "import", "--data", path / "data", "--into", table, "--create", "--key", key, path / f"{table}.parquet"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--keyspan", required=True)
    arguments.add_argument("--hosts", type=int, default=1000)
    arguments.add_argument("--hours", type=int, default=12)
    arguments.add_argument("--runs", type=int, default=9)
    arguments.add_argument("--seed", type=int, default=1)
    arguments = arguments.parse_args()
    path = pathlib.Path(tempfile.mkdtemp(prefix="keyspan-tags-"))
    try:
        db = generated(path, arguments.hosts, arguments.hours)
        load(arguments.keyspan, path)
        server, connection = started(arguments.keyspan, path / "data", PORT)
        drawn = Drawn(random.Random(arguments.seed), arguments.hosts, arguments.hours)
        ratios = []
        print("| ms | Keyspan | DuckDB | ratio |\n|---|---|---|---|")
        for name, query in QUERIES.items():
            pairs = []
            for _ in range(arguments.runs):
                sql = query(drawn)
                own, found = timed(lambda: connection.execute(sql).fetchall())
                other, expected = timed(lambda: db.sql(sql).to_arrow_table())
                expected = [tuple(row.values()) for row in expected.to_pylist()]
                if not same(found, expected):
                    print(f"{name}: the answers differ: {sql}")
                pairs.append((own, other))
            own, other = (statistics.median(each) for each in zip(*pairs))
            ratios.append(own / other)
            print(f"| {name} | {own:.2f} | {other:.2f} | {own / other:.2f} |", flush=True)
        mean = math.exp(statistics.mean(math.log(ratio) for ratio in ratios))
        print(f"| geometric mean | | | **{mean:.2f}** |")
        stop(server, connection)
    finally:
        shutil.rmtree(path)


if __name__ == "__main__":
    main()
