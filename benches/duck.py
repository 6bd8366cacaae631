"""Runs the same queries on the same rows in DuckDB: `duck.py ROWS.parquet QUERIES.json REPEAT`; prints JSON.

For each query: the median of the times in milliseconds, the number of rows, and the sum of all numbers in them.
"""

import json
import statistics
import sys
import time

import duckdb

rows, queries, repeat = sys.argv[1], json.load(open(sys.argv[2])), int(sys.argv[3])
db = duckdb.connect()
db.execute("SET threads = 2")
db.execute("SET TimeZone = 'UTC'")
start = time.perf_counter()
db.execute(f"CREATE TABLE cpu AS SELECT * FROM '{rows}' ORDER BY hostname, ts")
answer = {"version": duckdb.__version__, "load_s": time.perf_counter() - start, "queries": {}}
for name, sql in queries:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        table = db.sql(sql).to_arrow_table()
        times.append((time.perf_counter() - start) * 1000)
    total = 0.0
    for column in table.columns:
        if str(column.type) in ("double", "int64"):
            total += sum(value for value in column.to_pylist() if value is not None)
    answer["queries"][name] = {"ms": statistics.median(times), "rows": table.num_rows, "sum": total}
print(json.dumps(answer))
