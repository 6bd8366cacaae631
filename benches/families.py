"""What an index on a family saves: conditions on cells by a scan, then by an index.

    python3 benches/families.py --keyspan target/release/keyspan [--rows 500000]

Rows are loaded in five parts and compacted; some have three versions of a cell. Each statement runs seven times, warm,
over the wire; medians in ms are printed. Answers with and without the index are compared. Needs psycopg.
"""

import argparse
import statistics
import tempfile

from servers import same, started, stop, timed

PORT = 5717
PARTS = 5
TABLE = "CREATE TABLE p (k int PRIMARY KEY, f family<text, bigint>, h family<text, bigint> GC max_versions = 3)"
LOAD = """INSERT INTO p (k, f, h) SELECT i, jsonb_build_object('own', i, 'mod', i % 1000), jsonb_build_object('own', i)
    FROM generate_series({}, {}) AS s(i)"""


def queries(rows):
    some = rows // 4
    return [
        f"SELECT k FROM p WHERE f['own'] = {some}",
        f"SELECT count(*) FROM p WHERE f['own'] BETWEEN {some} AND {some + 100}",
        "SELECT k FROM p WHERE h['own'] = 3000077",
        f"SELECT k, qualifier FROM cells('p', 'f') WHERE value = {some}",
        "SELECT count(*) FROM cells('p', 'h') WHERE value = 2000077",
        "SELECT count(*) FROM p WHERE f CONTAINS KEY 'own'",
    ]


def measured(connection, statements):
    """The median and the rows of each."""
    for sql in statements:
        runs = [timed(lambda: connection.execute(sql).fetchall()) for _ in range(7)]
        yield statistics.median(taken for taken, _ in runs), runs[0][1]


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--keyspan", required=True)
    arguments.add_argument("--rows", type=int, default=500_000)
    arguments = arguments.parse_args()
    statements = queries(arguments.rows)
    with tempfile.TemporaryDirectory(prefix="keyspan-families-") as path:
        server, connection = started(arguments.keyspan, f"{path}/data", PORT)
        try:
            connection.execute(TABLE)
            part = arguments.rows // PARTS
            for first in range(0, part * PARTS, part):
                connection.execute(LOAD.format(first, first + part - 1))
            for _ in range(3):
                connection.execute(f"UPDATE p SET h['own'] = h['own'] + 1000000 WHERE k < {arguments.rows // 25}")
            connection.execute("COMPACT")
            scans = list(measured(connection, statements))
            connection.execute("CREATE INDEX ON p (f); CREATE INDEX ON p (KEYS(f)); CREATE INDEX ON p (ENTRIES(h))")
            connection.execute("COMPACT")
            found = list(measured(connection, statements))
        finally:
            stop(server, connection)
    print("| | scan | index |\n|---|---|---|")
    for sql, (scan, rows), (index, others) in zip(statements, scans, found, strict=True):
        if not same(rows, others):
            raise SystemExit(f"other rows: {sql}")
        print(f"| `{sql}` | {scan:.1f} | {index:.2f} |")


if __name__ == "__main__":
    main()
