"""Statements that take long: others are answered beside them, and they stop when they are told to."""

import os
import subprocess
import sys
import threading
import time

import psycopg
from server import ServerCase

ROWS = 200_000
LONG = 700  # milliseconds until statement_timeout
# Each would run for half a minute and more. `id` is unique, `v` has 1,000 values, `few` has ten.
STATEMENTS = {
    "nested loop": "SELECT count(*) FROM big a, big b WHERE (a.id::bigint * b.id) % 7 = 3",
    "nested loop without a match": "SELECT count(*) FROM big a JOIN big b ON a.id > b.id + 1000000",
    "outer nested loop": "SELECT count(b.id) FROM big a FULL JOIN big b ON a.id > b.id + 1000000",
    "nested loop, NOT EXISTS": "SELECT count(*) FROM big a WHERE NOT EXISTS (SELECT 1 FROM big b WHERE b.id > a.id + 1000000)",
    "cross join": "SELECT sum((a.id + b.v)::bigint) FROM big a, big b",
    "cross join, moving sum": "SELECT sum(s) FROM (SELECT sum(a.id) OVER (ORDER BY b.id ROWS 9 PRECEDING) AS s FROM big a, big b) x",
    "hash joins": "SELECT count(*) FROM big a JOIN big b ON a.v = b.v JOIN big c ON c.v = a.v",
    "hash join without a match": "SELECT count(*) FROM big a JOIN big b ON a.few = b.few AND a.id > b.id + 1000000",
    "semi join of few values": "SELECT count(*) FROM big a WHERE few IN (SELECT few FROM big b WHERE b.id >= 0)",
    "anti join of few values": "SELECT count(*) FROM big a WHERE NOT EXISTS (SELECT 1 FROM big b WHERE b.few = a.few)",
    "sort of a join": "SELECT a.id FROM big a JOIN big b ON a.few = b.few ORDER BY a.id::bigint * b.id % 1000003 OFFSET 1000000000",
    "aggregate of a join": "SELECT count(*) FROM (SELECT a.id, b.id, count(*) FROM big a JOIN big b ON a.few = b.few GROUP BY 1, 2) x",
    "recursion": "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n % 10 + 1 FROM t) SELECT count(*) FROM t",
    "sleep": "SELECT pg_sleep(100)",
    "series": "SELECT sum(a * 2 % 7) FROM generate_series(1.0, 49000000.0) AS x(a)",
}


class Isolation(ServerCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with cls.connect() as connection:
            connection.execute("CREATE TABLE big (id int PRIMARY KEY, v int, few int)")
            connection.execute(f"INSERT INTO big SELECT n, n % 1000, n % 10 FROM generate_series(1, {ROWS}) AS s(n)")

    @classmethod
    def connect(cls):
        return psycopg.connect(cls.address(), autocommit=True)

    @classmethod
    def address(cls):
        return f"host=127.0.0.1 port={cls.port} user=keyspan"

    @classmethod
    def cpu_seconds(cls):
        with open(f"/proc/{cls.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def busy(self, seconds):
        """The share of one core that the server takes in so many seconds."""
        before = self.cpu_seconds()
        time.sleep(seconds)
        return (self.cpu_seconds() - before) / seconds

    def assert_begins_to_work(self):
        # On a busy machine the client needs a while to start, and the server gets but a part of a core.
        deadline = time.monotonic() + 30
        while (busy := self.busy(0.5)) < 0.3 and time.monotonic() < deadline:
            pass
        self.assertGreater(busy, 0.3, "the statement did not begin")

    def assert_comes_to_rest(self):
        # A second or less is usual; without a place to stop it would take minutes.
        deadline = time.monotonic() + 6
        while (busy := self.busy(0.2)) > 0.3 and time.monotonic() < deadline:
            pass
        self.assertLess(busy, 0.3, "cores that are taken six seconds after the statement's end")

    def run_until_timeout(self, statement):
        with self.connect() as connection:
            connection.execute(f"SET statement_timeout = '{LONG}ms'")
            with self.assertRaises(psycopg.errors.QueryCanceled):
                connection.execute(statement)

    def test_each_stops_and_the_server_comes_to_rest(self):
        for name, statement in STATEMENTS.items():
            with self.subTest(name):
                start = time.monotonic()
                self.run_until_timeout(statement)
                self.assertLess(time.monotonic() - start, LONG / 1000 + 3)
                self.assert_comes_to_rest()

    def test_others_are_answered_beside_joins(self):
        statements = ["nested loop", "nested loop without a match", "hash joins", "semi join of few values"]
        joins = [threading.Thread(target=self.run_until_canceled, args=(STATEMENTS[name],)) for name in statements]
        self.running = []
        for join in joins:
            join.start()
        time.sleep(1)
        start = time.monotonic()
        for number in range(20):
            with self.connect() as connection:
                self.assertEqual(connection.execute(f"SELECT {number}").fetchone(), (number,))
                self.assertEqual(connection.execute("SELECT v FROM big WHERE id = 1007").fetchone(), (7,))
                grouped = f"SELECT few, count(*) FROM big WHERE id <= {1000 + number} GROUP BY few HAVING count(*) > 1"
                self.assertEqual(len(connection.execute(grouped).fetchall()), 10)
        took = time.monotonic() - start
        for connection in self.running:
            connection.cancel()
        for join in joins:
            join.join()
        self.assertEqual(len(self.running), len(statements))
        self.assertLess(took, 30, "twenty connections of three statements each")

    def run_until_canceled(self, statement):
        with self.connect() as connection:
            self.running.append(connection)
            try:
                connection.execute(statement)
            except psycopg.errors.QueryCanceled:
                pass

    def test_a_client_that_vanishes_leaves_nothing_running(self):
        program = "import psycopg, sys; psycopg.connect(sys.argv[1]).execute(sys.argv[2])"
        client = subprocess.Popen([sys.executable, "-c", program, self.address(), STATEMENTS["nested loop"]])
        self.assert_begins_to_work()
        client.kill()
        client.wait()
        self.assert_comes_to_rest()
