"""TPC-DS beside DuckDB, whose extension makes the rows and the texts of the 99 queries.

    pip install duckdb==1.5.5 duckdb-extension-tpcds==1.5.5 'psycopg[binary]' pytz
    python3 benches/tpcds.py --keyspan target/release/keyspan [--scale 0.3] [--only NN] [--keep DIR] [--plan]

Each query runs five times, the first after a start; rows are compared. The keys of the tables are TPC-DS's own. With
--plan they are not run: it tells how long EXPLAIN takes, the second time, which runs subqueries that come first.
"""

import argparse
import pathlib
import shutil
import statistics
import tempfile
import time

import duckdb
import duckdb_extension_tpcds
from servers import compare, loaded, started, stop

PORT = 5716
# The key of others is their first column.
KEYS = {
    "store_sales": "ss_item_sk, ss_ticket_number",
    "catalog_sales": "cs_item_sk, cs_order_number",
    "web_sales": "ws_item_sk, ws_order_number",
    "store_returns": "sr_item_sk, sr_ticket_number",
    "catalog_returns": "cr_item_sk, cr_order_number",
    "web_returns": "wr_item_sk, wr_order_number",
    "inventory": "inv_date_sk, inv_item_sk, inv_warehouse_sk",
}


def opened(path):
    """DuckDB's file of the rows."""
    db = duckdb.connect(str(path / "rows.duckdb"), config={"allow_unsigned_extensions": "true"})
    extension = next(pathlib.Path(duckdb_extension_tpcds.__file__).parent.rglob("tpcds.duckdb_extension"))
    db.execute(f"LOAD '{extension}'")
    db.execute("SET threads = 2; SET TimeZone = 'UTC'")
    return db


def prepared(path, program, scale):
    """A directory with the tables in both engines, as far as it has not got them."""
    path.mkdir(parents=True, exist_ok=True)
    if (path / "data").exists():
        return
    db = opened(path)
    db.execute(f"CALL dsdgen(sf = {scale})")
    firsts = db.execute("SELECT table_name, column_name FROM duckdb_columns() WHERE column_index = 1 AND schema_name = 'main' AND NOT internal ORDER BY ALL").fetchall()
    loaded(db, path, program, PORT, {name: KEYS.get(name, first) for name, first in firsts})
    db.close()


def explained(connection, queries):
    """Prints the milliseconds of planning each query, the longest first."""
    times = []
    for name, text in queries.items():
        for _ in range(2):
            began = time.perf_counter()
            connection.execute("EXPLAIN " + text.strip().rstrip(";")).fetchall()
            spent = (time.perf_counter() - began) * 1000
        times.append((spent, name))
    for spent, name in sorted(times, reverse=True):
        print(f"| {name} | {spent:.1f} |")
    print(f"median: {statistics.median(spent for spent, _ in times):.1f} ms")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--keyspan", required=True)
    arguments.add_argument("--scale", type=float, default=0.3)
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--keep", type=pathlib.Path)
    arguments.add_argument("--plan", action="store_true")
    arguments = arguments.parse_args()
    path = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="keyspan-tpcds-"))
    try:
        prepared(path, arguments.keyspan, arguments.scale)
        db = opened(path)
        queries = db.execute("SELECT query_nr, query FROM tpcds_queries() ORDER BY query_nr").fetchall()
        wanted = {f"{number:02}": text for number, text in queries if arguments.only in f"{number:02}"}
        server, connection = started(arguments.keyspan, path / "data", PORT)
        try:
            if arguments.plan:
                explained(connection, wanted)
            else:
                compare(connection, db, wanted, arguments.runs)
        finally:
            stop(server, connection)
            db.close()
    finally:
        if not arguments.keep:
            shutil.rmtree(path)


if __name__ == "__main__":
    main()
