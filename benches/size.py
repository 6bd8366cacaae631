"""How speed changes with size: a table loaded in time order, Keyspan over the wire and DuckDB on its file.

    python3 benches/size.py --keyspan target/release/keyspan --hosts 1000 --hours 120

cpu (hostname, region, rack, ts, ten gauges; key (hostname, ts)), all rows of a moment before those of the next, as they
come. Every run of a query draws other hosts and windows, the same for both; answers are compared. `first` is the first
run after a start of both programs, when nothing of the rows is decoded; `others` is the median of the runs after it.
Each has the memory that it takes by itself: Keyspan a quarter of the machine's, DuckDB four fifths; DuckDB has two
threads. --memory gives both the same. --keep leaves the rows and both databases in a folder, for another run. A server is
started for each query and ended before windows become quiet, so the slices stay as they were loaded; --compact lets them
grow first, as they would by themselves in a server that runs on. Prints milliseconds. Needs psycopg, duckdb and pytz.
"""

import argparse
import datetime
import math
import pathlib
import random
import shutil
import statistics
import subprocess
import tempfile

import duckdb

from servers import same, started, stop, timed

PORT = 5581
GAUGES = [f"usage_{name}" for name in "user system idle nice iowait irq softirq steal guest guest_nice".split()]
START = "2016-01-01 00:00:00+00"
STEP = 10


def at(second):
    return f"TIMESTAMPTZ '{START}' + INTERVAL '{second} seconds'"


class Drawn:
    """Hosts and stretches of time."""

    def __init__(self, random, hosts, hours):
        self.random, self.hosts, self.seconds = random, hosts, hours * 3600

    def host(self):
        return f"hostname = 'host_{self.random.randrange(self.hosts)}'"

    def moment(self):
        return f"ts = {at(self.random.randrange(self.seconds // STEP) * STEP)}"

    def keys(self, count):
        start = datetime.datetime.fromisoformat(START)
        moment = lambda: start + datetime.timedelta(seconds=self.random.randrange(self.seconds // STEP) * STEP)
        return ", ".join(f"('host_{self.random.randrange(self.hosts)}', TIMESTAMPTZ '{moment()}')" for _ in range(count))

    def window(self, hours):
        first = self.random.randrange(max(1, self.seconds - hours * 3600))
        return f"ts >= {at(first)} AND ts < {at(first + hours * 3600)}"

    def newest(self, hours):
        return f"ts >= {at(max(0, self.seconds - hours * 3600))}"


def means(count):
    return ", ".join(f"avg({gauge})" for gauge in GAUGES[:count])


QUERIES = {
    "a row by its key": lambda d: f"SELECT * FROM cpu WHERE {d.host()} AND {d.moment()}",
    "the newest 10 rows of a host": lambda d: f"SELECT * FROM cpu WHERE {d.host()} ORDER BY ts DESC LIMIT 10",
    "an hour of a host by minute": lambda d: f"""SELECT time_bucket(INTERVAL '1 minute', ts) AS minute, max(usage_user)
        FROM cpu WHERE {d.host()} AND {d.window(1)} GROUP BY 1 ORDER BY 1""",
    "12 hours of a host, rows above 90": lambda d: f"SELECT * FROM cpu WHERE {d.host()} AND {d.window(12)} AND usage_user > 90",
    "hourly means of a host over all time": lambda d: f"""SELECT date_trunc('hour', ts) AS hour, {means(5)}
        FROM cpu WHERE {d.host()} GROUP BY 1 ORDER BY 1""",
    "12 hours of all hosts by hour and host": lambda d: f"""SELECT hostname, date_trunc('hour', ts) AS hour, {means(5)}
        FROM cpu WHERE {d.window(12)} GROUP BY 1, 2 ORDER BY 1, 2""",
    "the newest hour by region": lambda d: f"SELECT region, count(*), {means(2)} FROM cpu WHERE {d.newest(1)} GROUP BY 1 ORDER BY 1",
    "the newest row of each host": lambda d: "SELECT DISTINCT ON (hostname) hostname, ts, usage_user FROM cpu ORDER BY hostname, ts DESC",
    "means of all rows": lambda d: f"SELECT count(*), {means(5)} FROM cpu",
    "the last hours by host, from a subquery": lambda d: f"""SELECT hostname, max(usage_user) FROM cpu
        WHERE ts > (SELECT max(ts) - INTERVAL '{d.random.randrange(1, 4)} hours' FROM cpu) GROUP BY 1 ORDER BY 1""",
    "rows of a host above its mean": lambda d: (lambda host: f"""SELECT count(*), max(ts) FROM cpu,
        (SELECT avg(usage_user) AS mean FROM cpu WHERE {host}) AS m WHERE {host} AND usage_user > mean""")(d.host()),
    "an hour's rows above 99": lambda d: f"SELECT count(*), max(usage_idle) FROM cpu WHERE usage_user > 99 AND {d.window(1)}",
}


def duck(path, memory=None):
    db = duckdb.connect(str(path / "rows.duckdb"))
    db.execute("SET threads = 2; SET TimeZone = 'UTC'")
    if memory:
        db.execute(f"SET memory_limit = '{memory}'")
    return db


def generated(path, hosts, hours):
    """The rows in both databases' own form and as Parquet files of an hour each."""
    db = duck(path)
    db.execute("SELECT setseed(0.5)")
    gauges = ", ".join(f"round(50 + 49.9 * sin(s * {0.001 * (n + 1)} + h * {n + 3}.7) + random() * 0.2, {n % 3}) AS {gauge}" for n, gauge in enumerate(GAUGES))
    for hour in range(hours):
        rows = f"""SELECT 'host_' || h AS hostname, TIMESTAMPTZ '{START}' + to_seconds(s * {STEP}) AS ts, 'region-' || h % 9 AS region,
            'rack-' || h % 97 AS rack, {gauges} FROM range({hosts}) a(h), range({hour * 360}, {(hour + 1) * 360}) b(s) ORDER BY s, h"""
        db.execute(f"COPY ({rows}) TO '{path / f'{hour:05}.parquet'}' (FORMAT parquet)")
    db.execute(f"CREATE TABLE cpu AS SELECT * FROM read_parquet('{path}/*.parquet')")
    db.close()


def load(program, path):
    first, *others = sorted(path.glob("*.parquet"))
    command = [program, "import", "--data", path / "data", "--into", "cpu"]
    subprocess.run([*command, "--create", "--key", "(hostname),ts", first], check=True, stdout=subprocess.DEVNULL)
    for file in others:
        subprocess.run([*command, file], check=True, stdout=subprocess.DEVNULL)


def prepared(path, program, hosts, hours):
    """A directory with the rows in both engines, as far as it has not got them."""
    path.mkdir(parents=True, exist_ok=True)
    if not (path / "rows.duckdb").exists():
        generated(path, hosts, hours)
    if not (path / "data").exists():
        print(f"loaded in {timed(lambda: load(program, path))[0] / 1000:.0f} s")


def measured(connection, db, sqls):
    """First times and medians of the later ones, of both."""
    pairs = []
    for sql in sqls:
        own, found = timed(lambda: connection.execute(sql).fetchall())
        other, expected = timed(lambda: db.execute(sql).fetchall())
        if not same(found, expected):
            raise SystemExit(f"other rows: {sql}")
        pairs.append((own, other))
    later = [statistics.median(side) for side in zip(*pairs[1:])]
    return pairs[0], later


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--keyspan", required=True)
    arguments.add_argument("--hosts", type=int, default=1000)
    arguments.add_argument("--hours", type=int, default=12)
    arguments.add_argument("--runs", type=int, default=8)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--keep", type=pathlib.Path)
    arguments.add_argument("--compact", action="store_true")
    arguments.add_argument("--memory", help="of each, such as 1GB")
    arguments = arguments.parse_args()
    path = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="keyspan-size-"))
    try:
        prepared(path, arguments.keyspan, arguments.hosts, arguments.hours)
        run(arguments, path)
    finally:
        if not arguments.keep:
            shutil.rmtree(path)


def run(arguments, path):
    drawn = Drawn(random.Random(arguments.seed), arguments.hosts, arguments.hours)
    if arguments.compact:
        server, connection = started(arguments.keyspan, path / "data", PORT)
        print(f"compacted in {timed(lambda: connection.execute('COMPACT'))[0] / 1000:.0f} s")
        stop(server, connection)
    ratios = []
    print("| ms | first | DuckDB | others | DuckDB | ratio of others |\n|---|---|---|---|---|---|")
    for name, query in QUERIES.items():
        if arguments.only not in name:
            continue
        # A start for each, or the first run of one would find decoded what another has read.
        server, connection = started(arguments.keyspan, path / "data", PORT, arguments.memory)
        db = duck(path, arguments.memory)
        try:
            sqls = [query(drawn) for _ in range(arguments.runs)]
            (first, other_first), (later, other_later) = measured(connection, db, sqls)
        finally:
            db.close()
            stop(server, connection)
        ratios.append(later / other_later)
        print(f"| {name} | {first:.1f} | {other_first:.1f} | {later:.2f} | {other_later:.2f} | {ratios[-1]:.2f} |", flush=True)
    print(f"geometric mean of others: {math.exp(statistics.fmean(map(math.log, ratios))):.2f}")


if __name__ == "__main__":
    main()
