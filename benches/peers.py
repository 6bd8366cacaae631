"""Runs the same queries on the same rows in another engine: `peers.py ENGINE ROWS.parquet QUERIES.json REPEAT [WHERE]`.

ENGINE is one of duckdb, chdb, datafusion, postgres, questdb, or wire: any server that speaks Postgres' protocol at WHERE and
has the rows. Prints JSON: the version, seconds of loading, and for each query the median of the times in milliseconds, the
number of rows and the sum of all numbers in them. An engine that is not there is an error of one line.

Every engine has two threads and the key (hostname, ts), or what comes next to it. PostgreSQL is looked for in Debian's places (it
runs as the user `postgres` if this is root), QuestDB in Maven's repository:
`mvn dependency:get -Dartifact=org.questdb:questdb:9.3.4`.
"""

import decimal
import glob
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

PORT = 54398
INSTANT = re.compile(r"'([0-9-]+) ([0-9:]+)\+00'::timestamptz")


class DuckDb:
    def __init__(self, folder):
        import duckdb

        self.version = f"DuckDB {duckdb.__version__}"
        self.db = duckdb.connect()
        self.db.execute("SET threads = 2")
        self.db.execute("SET TimeZone = 'UTC'")

    def load(self, rows):
        self.db.execute(f"CREATE TABLE cpu AS SELECT * FROM '{rows}' ORDER BY hostname, ts")

    def run(self, sql):
        return self.db.sql(sql).to_arrow_table()


class ChDb:
    def __init__(self, folder):
        import chdb.session

        self.session = chdb.session.Session(str(folder / "chdb"))
        self.version = "chDB " + self.session.query("SELECT version()", "TabSeparated").bytes().decode().strip()
        self.session.query("SET max_threads = 2")

    def load(self, rows):
        self.session.query("CREATE DATABASE IF NOT EXISTS d")
        kinds = "SELECT * FROM file('{}', 'Parquet')".format(rows)
        self.session.query(f"CREATE TABLE d.cpu ENGINE = MergeTree ORDER BY (hostname, ts) AS {kinds} SETTINGS schema_inference_make_columns_nullable = 0")
        self.session.query("OPTIMIZE TABLE d.cpu FINAL")

    def dialect(self, sql):
        return INSTANT.sub(r"toDateTime64('\1 \2', 6, 'UTC')", sql).replace("FROM cpu", "FROM d.cpu")

    def run(self, sql):
        import pyarrow.ipc

        return pyarrow.ipc.open_file(self.session.query(sql, "Arrow").bytes()).read_all()


class DataFusion:
    """Stock DataFusion over one Parquet file in the key's order."""

    def __init__(self, folder):
        import datafusion

        self.version = f"DataFusion {datafusion.__version__}"
        self.file = folder / "sorted.parquet"
        config = datafusion.SessionConfig().with_target_partitions(2)
        self.context = datafusion.SessionContext(config)

    def load(self, rows):
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(rows).sort_by([("hostname", "ascending"), ("ts", "ascending")])
        pyarrow.parquet.write_table(table, self.file, compression="zstd")
        self.version += f" ({self.file.stat().st_size / table.num_rows:.2f} B/row of ZSTD Parquet)"
        self.context.register_parquet("cpu", str(self.file))

    def dialect(self, sql):
        return INSTANT.sub(r"TIMESTAMP '\1T\2Z'", sql)

    def run(self, sql):
        return self.context.sql(sql).to_arrow_table()


class Wire:
    """Whoever listens at a port and speaks Postgres' protocol; rows as psycopg gives them, in binary."""

    def __init__(self, folder, where):
        import psycopg

        self.connection = psycopg.connect(where, autocommit=True)
        self.version = self.connection.execute("SELECT version()").fetchone()[0].split(",")[0]

    def load(self, rows):
        pass

    def run(self, sql):
        return self.connection.execute(sql, binary=True).fetchall()


class Postgres(Wire):
    def __init__(self, folder):
        programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
        if not programs:
            raise RuntimeError("PostgreSQL is not installed (apt-get install postgresql)")
        self.programs, self.data = pathlib.Path(programs[-1]), folder / "postgres"
        self.user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        folder.chmod(0o777)
        self.control("initdb", "-D", self.data, "-U", "postgres")
        options = f"-p {PORT} -c max_wal_size=4GB -c shared_buffers=2GB -c max_worker_processes=4 -c listen_addresses=127.0.0.1 -k {folder}"
        self.control("pg_ctl", "-D", self.data, "-w", "-l", folder / "log", "-o", options, "start")
        super().__init__(folder, f"postgresql://postgres@127.0.0.1:{PORT}/postgres")

    def control(self, program, *arguments):
        subprocess.run([*self.user, self.programs / program, *arguments], check=True, capture_output=True)

    def load(self, rows):
        import pyarrow.csv
        import pyarrow.parquet

        file = pyarrow.parquet.ParquetFile(rows)
        kinds = {"string": "text", "large_string": "text", "string_view": "text", "double": "double precision"}
        columns = ", ".join(f"{field.name} {kinds.get(str(field.type), 'timestamptz')}" for field in file.schema_arrow)
        self.connection.execute(f"CREATE TABLE cpu ({columns}, PRIMARY KEY (hostname, ts))")
        with self.connection.cursor().copy("COPY cpu FROM STDIN WITH (FORMAT csv)") as copy:
            for batch in file.iter_batches(20_000):
                sink = pyarrow.BufferOutputStream()
                pyarrow.csv.write_csv(batch, sink, pyarrow.csv.WriteOptions(include_header=False))
                copy.write(sink.getvalue().to_pybytes())
        self.connection.execute("VACUUM ANALYZE cpu")

    def close(self):
        self.control("pg_ctl", "-D", self.data, "-m", "fast", "stop")


class QuestDb(Wire):
    """Over its Postgres port, tags as symbols, a partition an hour, as its documentation has it for TSBS."""

    def __init__(self, folder):
        found = sorted(pathlib.Path.home().glob(".m2/repository/org/questdb/questdb/*/questdb-[0-9]*.jar"))
        if not found or not shutil.which("java"):
            raise RuntimeError("QuestDB's jar or Java is not installed")
        client = sorted(pathlib.Path.home().glob(".m2/repository/org/questdb/questdb-client/*/questdb-client-[0-9]*.jar"))
        self.root = folder / "questdb"
        self.root.mkdir()
        settings = {
            "QDB_PG_NET_BIND_TO": f"127.0.0.1:{PORT + 1}",
            "QDB_HTTP_NET_BIND_TO": f"127.0.0.1:{PORT + 2}",
            "QDB_HTTP_MIN_NET_BIND_TO": f"127.0.0.1:{PORT + 3}",
            "QDB_LINE_TCP_ENABLED": "false",
            "QDB_SHARED_WORKER_COUNT": "2",
            "QDB_CAIRO_SQL_COPY_ROOT": str(folder),
            "QDB_TELEMETRY_ENABLED": "false",
        }
        command = ["java", "-p", ":".join(str(jar) for jar in [found[-1], *client]), "-m", "io.questdb/io.questdb.ServerMain", "-d", self.root]
        self.server = subprocess.Popen(command, env={**os.environ, **settings}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(PORT + 1)
        super().__init__(folder, f"postgresql://admin:quest@127.0.0.1:{PORT + 1}/qdb")
        self.version = f"QuestDB {found[-1].parent.name}"

    def load(self, rows):
        import pyarrow.parquet

        copy = self.root.parent / "rows.parquet"
        # It reads neither views nor time zones of Parquet's.
        table = pyarrow.parquet.read_table(rows)
        schema = [(f.name, "timestamp[us]" if str(f.type).startswith("timestamp") else str(f.type).replace("string_view", "string")) for f in table.schema]
        table = table.cast(pyarrow.schema([(name, pyarrow.type_for_alias(kind)) for name, kind in schema]))
        pyarrow.parquet.write_table(table.sort_by("ts"), copy)
        columns = ", ".join(f"{name} {'timestamp' if 'timestamp' in kind else 'double' if kind == 'double' else 'symbol'}" for name, kind in schema)
        self.connection.execute(f"CREATE TABLE cpu ({columns}) TIMESTAMP(ts) PARTITION BY HOUR WAL")
        self.connection.execute(f"INSERT INTO cpu SELECT * FROM read_parquet('{copy.name}')")
        while self.connection.execute("SELECT count() FROM cpu").fetchone()[0] < table.num_rows:
            time.sleep(0.1)

    def dialect(self, sql):
        sql = INSTANT.sub(r"'\1T\2.000000Z'", sql)
        return sql.replace("SELECT DISTINCT ON (hostname) * FROM cpu ORDER BY hostname, ts DESC", "SELECT * FROM cpu LATEST ON ts PARTITION BY hostname")

    def close(self):
        self.server.terminate()
        self.server.wait()


ENGINES = {"duckdb": DuckDb, "chdb": ChDb, "datafusion": DataFusion, "postgres": Postgres, "questdb": QuestDb}


def wait_for(port):
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"nobody listens at port {port}")


def measure(answer):
    """Rows of an answer, and the sum of all numbers in them."""
    if isinstance(answer, list):
        numbers = (value for row in answer for value in row if isinstance(value, (int, float, decimal.Decimal)))
        return len(answer), float(sum(numbers))
    total = 0.0
    for column in answer.columns:
        if str(column.type) in ("double", "int64"):
            total += sum(value for value in column.to_pylist() if value is not None)
    return answer.num_rows, total


def main():
    name, rows, queries, repeat = sys.argv[1], pathlib.Path(sys.argv[2]), json.load(open(sys.argv[3])), int(sys.argv[4])
    # In place of the rows' own folder: an engine that copies them finds room beside them.
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"peer-{name}-", dir=rows.parent))
    folder.parent.chmod(0o777)
    engine = None
    try:
        engine = Wire(folder, sys.argv[5]) if name == "wire" else ENGINES[name](folder)
        start = time.perf_counter()
        engine.load(rows)
        answer = {"version": engine.version, "load_s": time.perf_counter() - start, "queries": {}}
        dialect = getattr(engine, "dialect", lambda sql: sql)
        for query, sql in queries:
            times, sql = [], dialect(sql)
            for _ in range(repeat):
                start = time.perf_counter()
                found = engine.run(sql)
                times.append((time.perf_counter() - start) * 1000)
            count, total = measure(found)
            answer["queries"][query] = {"ms": statistics.median(times), "rows": count, "sum": total}
        print(json.dumps(answer))
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    finally:
        if hasattr(engine, "close"):
            engine.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
