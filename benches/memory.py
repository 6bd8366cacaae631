"""Peak memory of a server whose data is many times its budget.

    python3 benches/memory.py --keyspan target/release/keyspan [--memory 128MB] [--times 10]

Loads rows by COPY until their values are so many times the budget (wide text, which hardly compresses), with sessions that hold
snapshots open and read slowly; overwrites a part; sorts, groups and joins all of it; kills the server with SIGKILL while rows arrive and
starts it again, which replays the log. Prints the peak of resident memory (VmHWM) of each stage.
"""

import argparse
import datetime
import pathlib
import random
import shutil
import subprocess
import tempfile
import threading
import time

import psycopg

UNITS = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
WORDS = "abcdefghijklmnopqrstuvwxyz0123456789"


class Server:
    def __init__(self, program, folder, memory):
        command = [program, "serve", "--listen", "127.0.0.1:0", "--data", folder, "--memory", memory]
        start = time.monotonic()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = self.process.stdout.readline().strip().rsplit(":", 1)[1]
        print(f"  started in {time.monotonic() - start:.1f} s", flush=True)

    def connect(self):
        return psycopg.connect(f"postgresql://me@127.0.0.1:{self.port}/db", autocommit=True)

    def report(self, what):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        sizes = {line.split(":")[0]: int(line.split()[1]) // 1024 for line in status if line.startswith("Vm")}
        print(f"  {what:40} resident {sizes['VmRSS']:5} MiB, peak {sizes['VmHWM']:5} MiB", flush=True)


def rows(numbers, first, count, bytes_each):
    pool = "".join(numbers.choices(WORDS, k=1 << 16))
    for row in range(first, first + count):
        at = numbers.randrange(len(pool) - bytes_each)
        time = START + datetime.timedelta(seconds=row)
        yield f"s{row % 100}\t{time}\t{row % 977}\t{pool[at:at + bytes_each]}\n"


def load(connection, numbers, first, count, bytes_each, step=20_000):
    for start in range(first, first + count, step):
        with connection.cursor().copy("COPY wide FROM STDIN") as copy:
            copy.write("".join(rows(numbers, start, min(step, first + count - start), bytes_each)))


def slow_reader(server, stop):
    """A snapshot that is held, and a cursor that takes its rows one by one."""
    with server.connect() as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        connection.execute("DECLARE slow CURSOR FOR SELECT * FROM wide")
        while not stop.is_set():
            connection.execute("FETCH 10 FROM slow").fetchall()
            time.sleep(0.05)


QUERIES = (
    "SELECT count(*), count(DISTINCT v) FROM wide",
    "SELECT v, n FROM wide ORDER BY v LIMIT 10",
    "SELECT count(*) FROM (SELECT v, row_number() OVER (ORDER BY v) AS r FROM wide) x WHERE r % 2 = 0",
    "SELECT v, count(*) FROM wide GROUP BY v ORDER BY 2 DESC LIMIT 3",
    "SELECT count(*) FROM wide a JOIN wide b ON a.s = b.s AND a.ts = b.ts",
)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keyspan", required=True)
    parser.add_argument("--memory", default="128MB")
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--value", type=int, default=400, help="bytes of a row's text")
    given = parser.parse_args()
    budget = int(given.memory[:-2]) * UNITS[given.memory[-2:]]
    count = budget * given.times // given.value
    folder = pathlib.Path(tempfile.mkdtemp(prefix="keyspan-memory-"))
    numbers = random.Random(1)
    try:
        print(f"budget {given.memory}, {count} rows of {given.value} bytes")
        server = Server(given.keyspan, folder / "data", given.memory)
        with server.connect() as connection:
            connection.execute("CREATE TABLE wide (s text, ts timestamptz, n int, v text, PRIMARY KEY (s, ts))")
            load(connection, numbers, 0, count // 10, given.value)
            stop = threading.Event()
            readers = [threading.Thread(target=slow_reader, args=(server, stop)) for _ in range(4)]
            for reader in readers:
                reader.start()
            start = time.monotonic()
            load(connection, numbers, count // 10, count - count // 10, given.value)
            print(f"  {count / (time.monotonic() - start) / 1000:.0f} krows/s")
            server.report("loaded, with four snapshots held")
            load(connection, numbers, 0, count // 4, given.value)
            server.report("a quarter overwritten")
            stop.set()
            for reader in readers:
                reader.join()
            for sql in QUERIES:
                start = time.monotonic()
                try:
                    answer = str(connection.execute(sql).fetchone())
                except psycopg.Error as error:
                    answer = f"{error.sqlstate}: {str(error).splitlines()[0]}"
                server.report(f"{sql[:30]}… {time.monotonic() - start:.1f} s")
                print(f"      {answer[:120]}")
            total = connection.execute("SELECT count(*) FROM wide").fetchone()[0]
            load(connection, numbers, count, count // 10, given.value, step=1_000)
        server.process.kill()
        server.process.wait()
        server = Server(given.keyspan, folder / "data", given.memory)
        server.report("killed and replayed")
        with server.connect() as connection:
            found = connection.execute("SELECT count(*) FROM wide").fetchone()[0]
            assert found == total + count // 10, (found, total, count)
        server.process.terminate()
        server.process.wait()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
