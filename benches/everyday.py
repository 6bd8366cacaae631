"""Everyday analytics beside DuckDB: statements that people write over a table of measurements, hosts and times drawn
anew in each run.

    python3 benches/everyday.py --keyspan target/release/keyspan [--before PROGRAM] [--hosts 1000] [--hours 48] [--keep DIR]

`--before` takes another Keyspan, over a copy of the data, in DuckDB's place: two commits in turn on the same
statements.
Data, loading and how it is measured are those of size.py; so are the packages that it needs. Windows are grown.
"""

import argparse
import math
import pathlib
import random
import shutil
import statistics
import tempfile

import size
from servers import stop, started

QUERIES = {
    "top hosts of a day": lambda d: f"SELECT hostname, avg(usage_user) AS mean FROM cpu WHERE {d.window(24)} GROUP BY hostname ORDER BY mean DESC, hostname LIMIT 10",
    "hosts of each region": lambda d: "SELECT region, count(DISTINCT hostname) FROM cpu GROUP BY region ORDER BY region",
    "95th percentiles by region": lambda d: f"SELECT region, percentile_cont(0.95) WITHIN GROUP (ORDER BY usage_system) FROM cpu WHERE {d.window(6)} GROUP BY region ORDER BY region",
    "by hour of the day": lambda d: "SELECT extract(hour FROM ts)::int AS hour, avg(usage_user), max(usage_idle) FROM cpu GROUP BY hour ORDER BY hour",
    "moving average of a host": lambda d: f"SELECT ts, avg(usage_user) OVER (ORDER BY ts ROWS BETWEEN 29 PRECEDING AND CURRENT ROW) FROM cpu WHERE {d.host()} AND {d.window(12)} ORDER BY ts",
    "largest jumps of a host": lambda d: f"""SELECT ts, jump FROM (SELECT ts, usage_user - lag(usage_user) OVER (ORDER BY ts) AS jump FROM cpu WHERE {d.host()}) AS j
        WHERE jump IS NOT NULL ORDER BY abs(jump) DESC, ts LIMIT 10""",
    "hosts that stayed below 95": lambda d: f"SELECT hostname, max(usage_system) FROM cpu WHERE {d.window(3)} GROUP BY hostname HAVING max(usage_system) < 95 ORDER BY hostname",
    "a day beside the day before": lambda d: """SELECT a.hostname, a.mean - b.mean AS change FROM
        (SELECT hostname, avg(usage_user) AS mean FROM cpu WHERE ts >= TIMESTAMPTZ '2016-01-02' AND ts < TIMESTAMPTZ '2016-01-03' GROUP BY hostname) AS a
        JOIN (SELECT hostname, avg(usage_user) AS mean FROM cpu WHERE ts >= TIMESTAMPTZ '2016-01-01' AND ts < TIMESTAMPTZ '2016-01-02' GROUP BY hostname) AS b
        ON a.hostname = b.hostname ORDER BY change DESC, a.hostname LIMIT 10""",
    "histogram": lambda d: f"SELECT floor(usage_user / 5) AS bucket, count(*) FROM cpu WHERE {d.window(12)} GROUP BY bucket ORDER BY bucket",
    "stretches above 90": lambda d: f"""SELECT min(ts), max(ts), count(*) FROM (SELECT ts, usage_user, row_number() OVER (ORDER BY ts)
        - row_number() OVER (PARTITION BY usage_user > 90 ORDER BY ts) AS island FROM cpu WHERE {d.host()}) AS i
        WHERE usage_user > 90 GROUP BY island ORDER BY 3 DESC, 1 LIMIT 10""",
    "correlation by region": lambda d: f"SELECT region, CAST(corr(usage_user, usage_system) * 1000000 AS bigint) FROM cpu WHERE {d.window(12)} GROUP BY region ORDER BY region",
    "the three busiest hosts of each region": lambda d: f"""SELECT region, hostname, mean FROM (SELECT region, hostname, avg(usage_user) AS mean,
        row_number() OVER (PARTITION BY region ORDER BY avg(usage_user) DESC, hostname) AS place FROM cpu WHERE {d.window(6)} GROUP BY region, hostname) AS r
        WHERE place <= 3 ORDER BY region, place""",
    "shares above 90 by rack": lambda d: f"SELECT rack, count(*) FILTER (WHERE usage_user > 90), count(*), max(ts) FROM cpu WHERE {d.window(12)} GROUP BY rack ORDER BY rack",
    "load classes": lambda d: f"""SELECT CASE WHEN usage_user < 30 THEN 'low' WHEN usage_user < 70 THEN 'middle' ELSE 'high' END AS class, count(*), avg(usage_idle)
        FROM cpu WHERE {d.window(12)} GROUP BY class ORDER BY class""",
    "hosts by a part of their name": lambda d: f"SELECT hostname, min(usage_idle) FROM cpu WHERE hostname LIKE 'host_{d.random.randrange(10, 99)}%' AND {d.window(12)} GROUP BY hostname ORDER BY hostname",
    "which regions and racks there are": lambda d: "SELECT DISTINCT region, rack FROM cpu ORDER BY region, rack",
    "hosts at their limit in a day": lambda d: f"SELECT count(DISTINCT hostname) FROM cpu WHERE usage_user >= 100 AND {d.window(24)}",
    "newest values beside means": lambda d: """SELECT n.hostname, n.usage_user, m.mean FROM (SELECT DISTINCT ON (hostname) hostname, usage_user FROM cpu ORDER BY hostname, ts DESC) AS n
        JOIN (SELECT hostname, avg(usage_user) AS mean FROM cpu GROUP BY hostname) AS m ON m.hostname = n.hostname WHERE n.usage_user > m.mean + 30 ORDER BY n.hostname""",
    "sums of regions and racks": lambda d: f"SELECT region, rack, count(*), avg(usage_user) FROM cpu WHERE {d.window(6)} GROUP BY ROLLUP (region, rack) ORDER BY region, rack",
    "a region by quarters of an hour": lambda d: f"""SELECT time_bucket(INTERVAL '15 minutes', ts) AS quarter, min(usage_user), avg(usage_user), max(usage_user)
        FROM cpu WHERE region = 'region-{d.random.randrange(5)}' AND {d.window(12)} GROUP BY quarter ORDER BY quarter""",
    "the least steady hosts": lambda d: f"SELECT hostname, stddev_samp(usage_user) AS spread FROM cpu WHERE {d.window(6)} GROUP BY hostname ORDER BY spread DESC, hostname LIMIT 5",
    "the highest values of a day": lambda d: f"SELECT hostname, ts, usage_guest FROM cpu WHERE {d.window(24)} ORDER BY usage_guest DESC, hostname, ts LIMIT 20",
    "means of all hosts at each moment": lambda d: f"SELECT ts, avg(usage_user), max(usage_user) FROM cpu WHERE {d.window(6)} GROUP BY ts ORDER BY ts",
    "rows of a list of keys": lambda d: f"SELECT hostname, ts, usage_user, usage_system FROM cpu WHERE (hostname, ts) IN ({d.keys(1000)})",
    "either of two conditions": lambda d: f"SELECT count(*), min(ts), max(ts) FROM cpu WHERE (usage_user > 98 AND usage_system > 98 OR usage_idle < 1) AND {d.window(24)}",
    "by day elsewhere": lambda d: "SELECT date_trunc('day', ts AT TIME ZONE 'Europe/Oslo') AS day, count(*), avg(usage_nice) FROM cpu GROUP BY day ORDER BY day",
    "the last hours by host, from a subquery": size.QUERIES["the last hours by host, from a subquery"],
    "the newest rows of all": lambda d: f"SELECT hostname, ts, usage_user FROM cpu ORDER BY ts DESC, hostname LIMIT {d.random.randrange(5, 30)}",
    "the newest rows above a value": lambda d: f"SELECT hostname, ts, usage_user FROM cpu WHERE usage_user > {d.random.randrange(90, 99)} ORDER BY ts DESC, hostname LIMIT 10",
    "the largest sums of two values": lambda d: f"SELECT hostname, ts, usage_user + usage_system AS load FROM cpu WHERE {d.window(6)} ORDER BY load DESC, hostname, ts LIMIT 10",
    "hosts by a part of their rack": lambda d: f"SELECT hostname, max(usage_user) FROM cpu WHERE rack LIKE '%{d.random.randrange(9)}' AND {d.window(6)} GROUP BY hostname ORDER BY 2 DESC, 1 LIMIT 10",
    "how many different values": lambda d: f"SELECT count(DISTINCT usage_user), count(DISTINCT rack) FROM cpu WHERE {d.window(12)}",
    "values beside those of a day before": lambda d: beside_a_day_before(d.random.randrange(22)),
}


def beside_a_day_before(hour):
    return f"""SELECT a.hostname, max(a.usage_user - b.usage_user) FROM cpu a JOIN cpu b ON a.hostname = b.hostname AND b.ts = a.ts - INTERVAL '1 day'
        WHERE a.ts >= TIMESTAMPTZ '2016-01-02 {hour:02}:00:00+00' AND a.ts < TIMESTAMPTZ '2016-01-02 {hour + 2:02}:00:00+00'
        GROUP BY a.hostname ORDER BY 2 DESC, 1 LIMIT 5"""


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--keyspan", required=True)
    arguments.add_argument("--hosts", type=int, default=1000)
    arguments.add_argument("--hours", type=int, default=48)
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--keep", type=pathlib.Path)
    arguments.add_argument("--memory", help="of each, such as 1GB")
    arguments.add_argument("--before", help="another Keyspan instead of DuckDB")
    arguments = arguments.parse_args()
    path = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="keyspan-everyday-"))
    try:
        size.prepared(path, arguments.keyspan, arguments.hosts, arguments.hours)
        server, connection = started(arguments.keyspan, path / "data", size.PORT)
        connection.execute("COMPACT")
        stop(server, connection)
        run(arguments, path)
    finally:
        if not arguments.keep:
            shutil.rmtree(path)


def run(arguments, path):
    drawn = size.Drawn(random.Random(arguments.seed), arguments.hosts, arguments.hours)
    if arguments.before:
        shutil.copytree(path / "data", path / "before")
        beside, db = started(arguments.before, path / "before", size.PORT + 1, arguments.memory)
    else:
        db = size.duck(path, arguments.memory)
    server, connection = started(arguments.keyspan, path / "data", size.PORT, arguments.memory)
    firsts, laters = [], []
    other = "before" if arguments.before else "DuckDB"
    print(f"| ms | first | {other} | ratio | others | {other} | ratio |\n|---|---|---|---|---|---|---|")
    try:
        for name, query in QUERIES.items():
            if arguments.only not in name:
                continue
            sqls = [query(drawn) for _ in range(arguments.runs)]
            (first, other_first), (later, other_later) = size.measured(connection, db, sqls)
            firsts.append(first / other_first)
            laters.append(later / other_later)
            print(f"| {name} | {first:.1f} | {other_first:.1f} | {firsts[-1]:.2f} | {later:.1f} | {other_later:.1f} | {laters[-1]:.2f} |", flush=True)
    finally:
        stop(server, connection)
        if arguments.before:
            stop(beside, db)
            shutil.rmtree(path / "before")
        else:
            db.close()
    mean = lambda ratios: math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"geometric means: {mean(firsts):.2f} of first runs, {mean(laters):.2f} of others")


if __name__ == "__main__":
    main()
