"""Tables of other kinds beside DuckDB, which nobody has tuned for: clicks with texts, sales grouped by up to six columns
and joined, taxi trips. The statements are those of ClickBench, of H2O's db-benchmark and of the taxi data, in their own
words.

    python3 benches/tables.py --keyspan target/release/keyspan [--scale 1] [--only NAME] [--keep DIR]

Each statement runs five times, the first after a start; rows are compared. It needs the packages of size.py.
"""

import argparse
import pathlib
import shutil
import tempfile

import duckdb
from servers import compare, loaded, started, stop

PORT = 5715
TYPES = {"VARCHAR": "text", "TIMESTAMP WITH TIME ZONE": "timestamptz"}
# Name, rows at scale 1, primary key, rows as a query of `i`.
TABLES = [
    ("clicks", 2_000_000, "watch_id", """SELECT i AS watch_id, TIMESTAMPTZ '2024-07-01 00:00:00+00' + to_seconds((i * 2592000.0 / {rows})::BIGINT) AS event_time,
        (pow(random(), 2) * 200000)::BIGINT * 7919 AS user_id, (pow(random(), 3) * 5000)::INT AS region_id,
        'http://example' || (pow(random(), 4) * 900)::INT || '.com/path/' || (pow(random(), 3) * 40000)::INT || '?q=' || (pow(random(), 2) * 30)::INT AS url,
        'Title of the page number ' || (pow(random(), 3) * 20000)::INT || CASE WHEN random() < 0.02 THEN ' - Google' ELSE '' END AS title,
        CASE WHEN random() < 0.88 THEN '' ELSE 'phrase ' || (pow(random(), 3) * 30000)::INT || ' word' || (random() * 50)::INT END AS search_phrase,
        CASE WHEN random() < 0.94 THEN 0 ELSE (random() * 18)::INT END AS adv_engine_id, 1000 + (random() * 20)::INT * 40 AS resolution_width,
        CASE WHEN random() < 0.9 THEN '' ELSE 'model ' || (pow(random(), 2) * 160)::INT END AS mobile_model, (random() < 0.3)::INT AS is_refresh,
        (pow(random(), 3) * 6000)::INT AS counter_id,
        CASE WHEN random() < 0.4 THEN '' ELSE 'https://ref' || (pow(random(), 3) * 3000)::INT || '.org/' || (random() * 10)::INT END AS referer"""),
    ("sales", 4_000_000, "id", """SELECT i AS id, 'id' || lpad(((random() * 99)::INT + 1)::VARCHAR, 3, '0') AS id1, 'id' || lpad(((random() * 99)::INT + 1)::VARCHAR, 3, '0') AS id2,
        'id' || lpad(((random() * 49999)::INT + 1)::VARCHAR, 10, '0') AS id3, (random() * 99)::INT + 1 AS id4, (random() * 99)::INT + 1 AS id5,
        (random() * 49999)::INT + 1 AS id6, (random() * 4)::INT + 1 AS v1, (random() * 14)::INT + 1 AS v2, round(random() * 100, 6) AS v3"""),
    ("kinds", 100, "id4", "SELECT i + 1 AS id4, 'id' || (i + 1) AS name, random() * 100 AS v4"),
    ("goods", 50_000, "id6", "SELECT i + 1 AS id6, 'g' || (i % 500) AS grp, random() * 100 AS v5"),
    ("trips", 3_000_000, "pickup, id", """SELECT i AS id, TIMESTAMPTZ '2023-01-01 00:00:00+00' + to_seconds((i * 31536000.0 / {rows})::BIGINT) AS pickup,
        (random() * 2)::INT + 1 AS vendor, (pow(random(), 2) * 6)::INT AS passengers, round(pow(random(), 3) * 30, 2) AS distance,
        round(3 + pow(random(), 2) * 80, 2) AS fare, CASE WHEN random() < 0.3 THEN 0 ELSE round(random() * 15, 2) END AS tip,
        (pow(random(), 2) * 262)::INT + 1 AS from_zone, (pow(random(), 2) * 262)::INT + 1 AS to_zone,
        ['card', 'cash', 'none', 'dispute'][(pow(random(), 2) * 3)::INT + 1] AS payment, (5 + random() * 60)::INT AS minutes"""),
    ("zones", 263, "id", "SELECT i + 1 AS id, 'Zone ' || (i + 1) AS name, ['Manhattan', 'Queens', 'Bronx', 'Brooklyn', 'Staten Island', 'EWR'][i % 6 + 1] AS borough"),
]
QUERIES = {
    "all clicks": "SELECT count(*) FROM clicks",
    "clicks from an engine": "SELECT count(*) FROM clicks WHERE adv_engine_id <> 0",
    "sums of small numbers": "SELECT sum(adv_engine_id), count(*), avg(resolution_width) FROM clicks",
    "mean of a bigint": "SELECT avg(user_id) FROM clicks",
    "different users": "SELECT count(DISTINCT user_id) FROM clicks",
    "different phrases": "SELECT count(DISTINCT search_phrase) FROM clicks",
    "first and last click": "SELECT min(event_time), max(event_time) FROM clicks",
    "clicks by engine": "SELECT adv_engine_id, count(*) FROM clicks WHERE adv_engine_id <> 0 GROUP BY adv_engine_id ORDER BY count(*) DESC",
    "users by region": "SELECT region_id, count(DISTINCT user_id) AS u FROM clicks GROUP BY region_id ORDER BY u DESC, region_id LIMIT 10",
    "users, sums and means by region": "SELECT region_id, sum(adv_engine_id), count(*) AS c, avg(resolution_width), count(DISTINCT user_id) FROM clicks GROUP BY region_id ORDER BY c DESC, region_id LIMIT 10",
    "users by model": "SELECT mobile_model, count(DISTINCT user_id) AS u FROM clicks WHERE mobile_model <> '' GROUP BY mobile_model ORDER BY u DESC, mobile_model LIMIT 10",
    "phrases": "SELECT search_phrase, count(*) AS c FROM clicks WHERE search_phrase <> '' GROUP BY search_phrase ORDER BY c DESC, search_phrase LIMIT 10",
    "phrases by engine": "SELECT adv_engine_id, search_phrase, count(*) AS c FROM clicks WHERE search_phrase <> '' GROUP BY adv_engine_id, search_phrase ORDER BY c DESC, 1, 2 LIMIT 10",
    "users with most clicks": "SELECT user_id, count(*) FROM clicks GROUP BY user_id ORDER BY count(*) DESC, user_id LIMIT 10",
    "users and phrases": "SELECT user_id, search_phrase, count(*) FROM clicks GROUP BY user_id, search_phrase ORDER BY count(*) DESC, 1, 2 LIMIT 10",
    "users, minutes and phrases": "SELECT user_id, extract(minute FROM event_time) AS m, search_phrase, count(*) FROM clicks GROUP BY user_id, m, search_phrase ORDER BY count(*) DESC, 1, 2, 3 LIMIT 10",
    "clicks of a user": "SELECT user_id FROM clicks WHERE user_id = 435290661",
    "addresses like": "SELECT count(*) FROM clicks WHERE url LIKE '%example77%'",
    "phrases at addresses like": "SELECT search_phrase, min(url), count(*) AS c FROM clicks WHERE url LIKE '%example77%' AND search_phrase <> '' GROUP BY search_phrase ORDER BY c DESC, 1 LIMIT 10",
    "phrases at titles like": "SELECT search_phrase, min(url), min(title), count(*) AS c, count(DISTINCT user_id) FROM clicks WHERE title LIKE '%Google%' AND url NOT LIKE '%example1.%' AND search_phrase <> '' GROUP BY search_phrase ORDER BY c DESC, 1 LIMIT 10",
    "first whole rows like": "SELECT * FROM clicks WHERE url LIKE '%example5%' ORDER BY event_time, watch_id LIMIT 10",
    "first phrases": "SELECT search_phrase FROM clicks WHERE search_phrase <> '' ORDER BY event_time, watch_id LIMIT 10",
    "phrases sorted": "SELECT search_phrase FROM clicks WHERE search_phrase <> '' ORDER BY search_phrase LIMIT 10",
    "lengths of addresses": "SELECT counter_id, avg(length(url)) AS l, count(*) AS c FROM clicks WHERE url <> '' GROUP BY counter_id HAVING count(*) > 1000 ORDER BY l DESC, 1 LIMIT 25",
    "domains by a regular expression": r"SELECT regexp_replace(referer, '^https?://(?:www\.)?([^/]+)/.*$', '\1') AS k, avg(length(referer)) AS l, count(*) AS c, min(referer) FROM clicks WHERE referer <> '' GROUP BY k HAVING count(*) > 1000 ORDER BY c DESC, k LIMIT 25",
    "six sums of one column": "SELECT sum(resolution_width), sum(resolution_width + 1), sum(resolution_width + 2), sum(resolution_width + 3), sum(resolution_width + 4), sum(resolution_width + 5) FROM clicks",
    "addresses": "SELECT url, count(*) AS c FROM clicks GROUP BY url ORDER BY c DESC, url LIMIT 10",
    "titles": "SELECT 1, title, count(*) AS c FROM clicks GROUP BY 1, title ORDER BY c DESC, title LIMIT 10",
    "addresses of a counter in some weeks": "SELECT url, count(*) AS v FROM clicks WHERE counter_id = 62 AND event_time >= '2024-07-05' AND event_time < '2024-07-25' AND is_refresh = 0 GROUP BY url ORDER BY v DESC, url LIMIT 10",
    "clicks by minute": "SELECT date_trunc('minute', event_time) AS m, count(*) FROM clicks WHERE event_time >= '2024-07-14' AND event_time < '2024-07-15' AND is_refresh = 0 GROUP BY m ORDER BY m LIMIT 10 OFFSET 1000",
    "sources by CASE": "SELECT CASE WHEN search_phrase = '' AND adv_engine_id = 0 THEN referer ELSE '' END AS src, count(*) AS c FROM clicks GROUP BY src ORDER BY c DESC, src LIMIT 10",
    "sales by one text": "SELECT id1, sum(v1) AS v1 FROM sales GROUP BY id1",
    "sales by two texts": "SELECT id1, id2, sum(v1) AS v1 FROM sales GROUP BY id1, id2",
    "sales by a text of many values": "SELECT id3, sum(v1) AS v1, avg(v3) AS v3 FROM sales GROUP BY id3",
    "means by a number": "SELECT id4, avg(v1) AS v1, avg(v2) AS v2, avg(v3) AS v3 FROM sales GROUP BY id4",
    "sums by a number of many values": "SELECT id6, sum(v1) AS v1, sum(v2) AS v2, sum(v3) AS v3 FROM sales GROUP BY id6",
    "medians by two numbers": "SELECT id4, id5, percentile_cont(0.5) WITHIN GROUP (ORDER BY v3) AS median_v3, stddev(v3) AS sd_v3 FROM sales GROUP BY id4, id5",
    "ranges by a text of many values": "SELECT id3, max(v1) - min(v2) AS range_v1_v2 FROM sales GROUP BY id3",
    "the two best of each": "SELECT id6, v3 FROM (SELECT id6, v3, row_number() OVER (PARTITION BY id6 ORDER BY v3 DESC) AS o FROM sales) q WHERE o <= 2",
    "correlations by a text and a number": "SELECT id2, id4, power(corr(v1, v2), 2) AS r2 FROM sales GROUP BY id2, id4",
    "groups of six columns": "SELECT id1, id2, id3, id4, id5, id6, sum(v3) AS v3, count(*) AS n FROM sales GROUP BY id1, id2, id3, id4, id5, id6 ORDER BY v3 DESC LIMIT 5",
    "joined with a hundred kinds": "SELECT sum(v1), sum(v4), count(*) FROM sales JOIN kinds USING (id4)",
    "joined with goods": "SELECT sum(v1), sum(v5), count(*) FROM sales JOIN goods USING (id6)",
    "groups of joined goods": "SELECT grp, sum(v3), count(*) FROM sales JOIN goods USING (id6) GROUP BY grp ORDER BY grp",
    "left join with some goods": "SELECT count(*), count(v5) FROM sales LEFT JOIN (SELECT * FROM goods WHERE v5 > 50) m USING (id6)",
    "trips by payment": "SELECT payment, count(*), avg(tip), avg(fare) FROM trips GROUP BY payment ORDER BY payment",
    "trips by month": "SELECT date_trunc('month', pickup) AS m, vendor, count(*), sum(fare) FROM trips GROUP BY m, vendor ORDER BY m, vendor",
    "speed by hour": "SELECT extract(hour FROM pickup) AS h, avg(distance / minutes * 60) AS speed FROM trips GROUP BY h ORDER BY h",
    "pairs of zones": "SELECT from_zone, to_zone, count(*) AS c, avg(fare) FROM trips GROUP BY from_zone, to_zone ORDER BY c DESC, 1, 2 LIMIT 20",
    "tips by borough": "SELECT z.borough, count(*), avg(t.tip / nullif(t.fare, 0)) FROM trips t JOIN zones z ON z.id = t.from_zone GROUP BY z.borough ORDER BY 1",
    "fares between boroughs": "SELECT a.borough AS f, b.borough AS t, sum(fare), count(*) FROM trips JOIN zones a ON a.id = from_zone JOIN zones b ON b.id = to_zone WHERE pickup >= '2023-06-01' AND pickup < '2023-07-01' GROUP BY 1, 2 ORDER BY 1, 2",
    "shares with a tip": "SELECT payment, sum(CASE WHEN tip > 0 THEN 1 ELSE 0 END) * 100.0 / count(*) AS share FROM trips GROUP BY payment ORDER BY payment",
    "quantiles": "SELECT vendor, percentile_cont(0.5) WITHIN GROUP (ORDER BY distance), percentile_cont(0.99) WITHIN GROUP (ORDER BY fare) FROM trips GROUP BY vendor ORDER BY vendor",
    "highest fares": "SELECT id, fare FROM trips ORDER BY fare DESC, id LIMIT 20",
    "longest trip of each day": "SELECT d, id, distance FROM (SELECT pickup::date AS d, id, distance, row_number() OVER (PARTITION BY pickup::date ORDER BY distance DESC, id) AS n FROM trips) q WHERE n = 1 ORDER BY d",
    "moving average of days": "SELECT d, c, avg(c) OVER (ORDER BY d ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) FROM (SELECT pickup::date AS d, count(*) AS c FROM trips GROUP BY d) q ORDER BY d",
    "trips by day of the week": "SELECT extract(dow FROM pickup) AS wd, count(*) FROM trips GROUP BY wd ORDER BY wd",
    "a day of trips": "SELECT count(*), sum(fare) FROM trips WHERE pickup >= '2023-03-03' AND pickup < '2023-03-04' AND passengers > 2",
    "steps of distance": "SELECT floor(distance / 3) AS b, count(*), avg(fare) FROM trips GROUP BY b ORDER BY b",
}


def prepared(path, program, scale):
    """A directory with the tables in both engines, as far as it has not got them."""
    path.mkdir(parents=True, exist_ok=True)
    if (path / "data").exists():
        return
    db = duckdb.connect(str(path / "rows.duckdb"))
    db.execute("SET threads = 2; SET TimeZone = 'UTC'; SELECT setseed(0.42)")
    for name, rows, _, query in TABLES:
        rows = rows if rows < 100_000 else int(rows * scale)
        db.execute(f"CREATE TABLE {name} AS {query.format(rows=rows)} FROM range({rows}) AS t(i)")
    loaded(db, path, program, PORT, {name: key for name, _, key, _ in TABLES}, TYPES)
    db.close()


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--keyspan", required=True)
    arguments.add_argument("--scale", type=float, default=1)
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--keep", type=pathlib.Path)
    arguments = arguments.parse_args()
    path = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="keyspan-tables-"))
    try:
        prepared(path, arguments.keyspan, arguments.scale)
        run(arguments, path)
    finally:
        if not arguments.keep:
            shutil.rmtree(path)


def run(arguments, path):
    db = duckdb.connect(str(path / "rows.duckdb"))
    db.execute("SET threads = 2; SET TimeZone = 'UTC'")
    server, connection = started(arguments.keyspan, path / "data", PORT)
    wanted = {name: sql for name, sql in QUERIES.items() if arguments.only in name}
    try:
        compare(connection, db, wanted, arguments.runs)
    finally:
        stop(server, connection)
        db.close()


if __name__ == "__main__":
    main()
