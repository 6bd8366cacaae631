"""What clients of PostgreSQL send daily: advisory locks, LISTEN and NOTIFY, 23505 with its fields, metrics, who is there."""

import asyncio
import re
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

import asyncpg
import psycopg
from server import ServerCase, program


class Daily(ServerCase):
    def connect(self, **more):
        return psycopg.connect(host="127.0.0.1", port=self.port, user="me", dbname="db", autocommit=True, **more)

    def test_an_existing_key_is_23505_with_its_fields(self):
        with self.connect(options="-c write_semantics=postgres") as connection:
            connection.execute("CREATE TABLE people (id int PRIMARY KEY, name text)")
            connection.execute("INSERT INTO people VALUES (1, 'ann')")
            with self.assertRaises(psycopg.errors.UniqueViolation) as raised:
                connection.execute("INSERT INTO people VALUES (%s, %s)", (1, "bob"))
            about = raised.exception.diag
            self.assertEqual((about.schema_name, about.table_name, about.constraint_name), ("public", "people", "people_pkey"))
            self.assertEqual(about.message_detail, "Key (id)=(1) already exists.")
            with self.assertRaises(psycopg.errors.UniqueViolation), connection.cursor().copy("COPY people FROM STDIN") as copy:
                copy.write_row((2, "cy"))
                copy.write_row((1, "dan"))
            with self.assertRaises(psycopg.errors.UniqueViolation), connection.cursor().copy("COPY people FROM STDIN") as copy:
                copy.write_row((3, "eve"))
                copy.write_row((3, "fay"))
            self.assertEqual(connection.execute("UPDATE people SET name = 'x' WHERE id = 9").rowcount, 0)
            self.assertEqual(connection.execute("SELECT id, name FROM people").fetchall(), [(1, "ann")])

    def test_a_table_that_a_transaction_makes_is_loaded_in_it(self):
        with self.connect() as connection, connection.transaction():
            connection.execute("CREATE TABLE loaded (id serial PRIMARY KEY, v text)")
            with connection.cursor().copy("COPY loaded (v) FROM STDIN") as copy:
                copy.write_row(("a",))
            self.assertEqual(connection.execute("SELECT id, v FROM loaded").fetchall(), [(1, "a")])

    def test_prepared_statements_are_shown(self):
        listed = "SELECT name, statement, parameter_types, from_sql FROM pg_prepared_statements ORDER BY from_sql, name"
        with self.connect() as connection:
            connection.execute("PREPARE mine (int, text) AS SELECT $1, $2")
            connection.execute("SELECT %s::bigint", (1,), prepare=True)
            shown = connection.execute(listed, prepare=False).fetchall()
            self.assertEqual([row[1:] for row in shown], [
                ("SELECT $1::bigint", ["smallint"], False),
                ("PREPARE mine (int, text) AS SELECT $1, $2", ["integer", "text"], True),
            ])
            # SQL's names and the protocol's are of one space.
            protocols = shown[0][0]
            with self.assertRaises(psycopg.errors.DuplicatePreparedStatement):
                connection.execute(f'PREPARE "{protocols}" AS SELECT 2', prepare=False)
            connection.execute(f'DEALLOCATE "{protocols}"', prepare=False)
            self.assertEqual(connection.execute(listed, prepare=False).fetchall(), shown[1:])
            connection.execute("DEALLOCATE ALL", prepare=False)
            self.assertEqual(connection.execute(listed, prepare=False).fetchall(), [])

    def test_a_session_ends_another(self):
        with self.connect() as one, self.connect() as two:
            self.assertEqual(one.execute("SELECT pg_terminate_backend(%s)", (two.info.backend_pid,)).fetchone(), (True,))
            with self.assertRaises(psycopg.errors.AdminShutdown):
                two.execute("SELECT 1")
            self.assertEqual(one.execute("SELECT pg_terminate_backend(1234567)").fetchone(), (False,))

    def told(self, connection, act):
        """The SQLSTATE with which a long statement ends when `act` is done meanwhile."""
        failed = []

        def sleep():
            try:
                connection.execute("SELECT pg_sleep(60)")
            except psycopg.Error as error:
                failed.append(error.sqlstate)

        sleeping = threading.Thread(target=sleep)
        sleeping.start()
        time.sleep(0.3)
        self.assertEqual(act().fetchone(), (True,))
        sleeping.join(30)
        return failed

    def test_a_session_that_is_ended_in_a_statement_is_told_so(self):
        with self.connect() as one, self.connect() as two:
            end = lambda: one.execute("SELECT pg_terminate_backend(%s)", (two.info.backend_pid,))  # noqa: E731
            self.assertEqual(self.told(two, end), ["57P01"])

    def test_a_session_cancels_the_statement_of_another(self):
        with self.connect() as one, self.connect() as two:
            cancel = lambda: one.execute("SELECT pg_cancel_backend(%s)", (two.info.backend_pid,))  # noqa: E731
            self.assertEqual(self.told(two, cancel), ["57014"])
            self.assertEqual(two.execute("SELECT 1").fetchone(), (1,))

    def test_of_two_inserts_of_one_key_one_waits_and_fails(self):
        with self.connect(options="-c write_semantics=postgres") as one, self.connect(options="-c write_semantics=postgres") as two:
            one.execute("CREATE TABLE raced (id int PRIMARY KEY)")
            one.execute("BEGIN")
            one.execute("INSERT INTO raced VALUES (1)")
            failed = []

            def insert():
                try:
                    two.execute("INSERT INTO raced VALUES (1)")
                except psycopg.Error as error:
                    failed.append(error.sqlstate)

            waiting = threading.Thread(target=insert)
            waiting.start()
            time.sleep(0.3)
            self.assertEqual(failed, [])
            one.execute("COMMIT")
            waiting.join(30)
            self.assertEqual(failed, ["23505"])

    def test_no_write_is_lost_or_fails_while_a_key_is_added(self):
        with self.connect() as connection:
            connection.execute("CREATE TABLE busy (k int, v int)")
            connection.execute("INSERT INTO busy SELECT n, n FROM generate_series(1, 20000) AS s (n)")
        written, failed, done = [0, 0], [], threading.Event()

        def write(place):
            with self.connect() as connection:
                while not done.is_set():
                    try:
                        connection.execute("INSERT INTO busy VALUES (%s, 0)", ((place + 1) * 1_000_000 + written[place],))
                        written[place] += 1
                    except psycopg.Error as error:
                        failed.append(str(error))
                    time.sleep(0.02)

        writers = [threading.Thread(target=write, args=(place,)) for place in range(2)]
        for writer in writers:
            writer.start()
        with self.connect() as connection:
            for _ in range(20):
                try:
                    connection.execute("ALTER TABLE busy ADD PRIMARY KEY (k)")
                    break
                except psycopg.errors.SerializationFailure:
                    continue
            time.sleep(0.3)
            done.set()
            for writer in writers:
                writer.join(60)
            key = connection.execute("SELECT count(*) FROM pg_constraint WHERE conname = 'busy_pkey'").fetchone()
            self.assertEqual(key, (1,))
            self.assertEqual(connection.execute("SELECT count(*) FROM busy").fetchone(), (20000 + sum(written),))
            self.assertGreater(min(written), 5)
            self.assertEqual(failed, [])

    def test_sessions_exclude_each_other_by_advisory_locks(self):
        with self.connect() as one, self.connect() as two:
            one.execute("SELECT pg_advisory_lock(42)")
            self.assertEqual(two.execute("SELECT pg_try_advisory_lock(42)").fetchone(), (False,))
            self.assertEqual(two.execute("SELECT pg_try_advisory_lock(0, 42)").fetchone(), (True,))
            held = two.execute("SELECT pid, classid, objid, objsubid, mode, granted FROM pg_locks WHERE objsubid = 1").fetchall()
            self.assertEqual(held, [(one.info.backend_pid, 0, 42, 1, "ExclusiveLock", True)])
            two.execute("SET statement_timeout = '200ms'")
            with self.assertRaises(psycopg.errors.QueryCanceled):
                two.execute("SELECT pg_advisory_lock(42)")
            two.execute("SET statement_timeout = 0; SET lock_timeout = '200ms'")
            with self.assertRaises(psycopg.errors.LockNotAvailable):
                two.execute("SELECT pg_advisory_lock(42)")
            self.assertEqual(one.execute("SELECT pg_advisory_unlock(42)").fetchone(), (True,))
            two.execute("SELECT pg_advisory_lock(42)")
            self.assertEqual(one.execute("SELECT pg_try_advisory_lock_shared(42)").fetchone(), (False,))

    def test_an_advisory_lock_is_released_when_its_session_ends(self):
        one, two = self.connect(), self.connect()
        one.execute("SELECT pg_advisory_lock(43)")
        got = threading.Thread(target=lambda: two.execute("SELECT pg_advisory_lock(43)"))
        got.start()
        time.sleep(0.2)
        self.assertTrue(got.is_alive())
        one.close()
        got.join(30)
        self.assertFalse(got.is_alive())
        two.close()

    def test_a_transaction_releases_its_advisory_locks(self):
        with self.connect() as one, self.connect() as two:
            one.execute("BEGIN")
            one.execute("SELECT pg_advisory_xact_lock(44)")
            self.assertEqual(two.execute("SELECT pg_try_advisory_xact_lock(44)").fetchone(), (False,))
            one.execute("ROLLBACK")
            self.assertEqual(two.execute("SELECT pg_try_advisory_xact_lock(44)").fetchone(), (True,))
            self.assertEqual(one.execute("SELECT pg_try_advisory_xact_lock(44)").fetchone(), (True,))

    def test_a_circle_of_advisory_locks_is_a_deadlock(self):
        with self.connect() as one, self.connect() as two:
            one.execute("SELECT pg_advisory_lock(45)")
            two.execute("SELECT pg_advisory_lock(46)")
            waiting = threading.Thread(target=lambda: one.execute("SELECT pg_advisory_lock(46)"))
            waiting.start()
            time.sleep(0.2)
            with self.assertRaises(psycopg.errors.DeadlockDetected):
                two.execute("SELECT pg_advisory_lock(45)")
            two.execute("SELECT pg_advisory_unlock_all()")
            waiting.join(30)

    def test_psycopg_is_notified_after_the_commit(self):
        with self.connect() as listener, self.connect() as speaker:
            listener.execute("LISTEN news")
            speaker.execute("BEGIN")
            speaker.execute("NOTIFY news, 'first'")
            speaker.execute("SELECT pg_notify('news', 'second')")
            speaker.execute("NOTIFY news, 'first'")
            speaker.execute("NOTIFY other, 'unheard'")
            self.assertEqual(list(listener.notifies(timeout=0.3)), [])
            speaker.execute("COMMIT")
            heard = [(n.channel, n.payload, n.pid) for n in listener.notifies(timeout=5, stop_after=2)]
            pid = speaker.info.backend_pid
            self.assertEqual(heard, [("news", "first", pid), ("news", "second", pid)])
            speaker.execute("BEGIN")
            speaker.execute("NOTIFY news, 'undone'")
            speaker.execute("ROLLBACK")
            listener.execute("UNLISTEN *")
            speaker.execute("NOTIFY news, 'late'")
            self.assertEqual(list(listener.notifies(timeout=0.3)), [])
            with self.assertRaises(psycopg.errors.InvalidParameterValue):
                speaker.execute("SELECT pg_notify('news', repeat('x', 8000))")

    def test_asyncpg_listens(self):
        async def conversation():
            connect = lambda: asyncpg.connect(host="127.0.0.1", port=self.port, user="me", database="db")
            listener, speaker = await connect(), await connect()
            heard = asyncio.Queue()
            await listener.add_listener("jobs", lambda *arguments: heard.put_nowait(arguments[1:]))
            await speaker.execute("SELECT pg_notify($1, $2)", "jobs", "go")
            got = await asyncio.wait_for(heard.get(), 10)
            pid = speaker.get_server_pid()
            await listener.close()
            await speaker.close()
            return got == (pid, "jobs", "go")

        self.assertTrue(asyncio.run(conversation()))

    def test_psql_shows_notifications(self):
        command = ["psql", "-X", "-h", "127.0.0.1", "-p", str(self.port), "-U", "me", "-d", "db"]
        done = subprocess.run(command, input="LISTEN bell;\nNOTIFY bell, 'ding';\n", capture_output=True, text=True, timeout=60)
        self.assertIn('Asynchronous notification "bell" with payload "ding" received', done.stdout)

    def test_the_reset_of_a_pool_is_one_message(self):
        with self.connect() as one, self.connect() as two:
            one.execute("SET application_name = 'x'; LISTEN c; SELECT pg_advisory_lock(47)")
            one.execute("SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL;")
            self.assertEqual(two.execute("SELECT pg_try_advisory_lock(47)").fetchone(), (True,))
            two.execute("LISTEN c")
            two.execute("DISCARD ALL")
            self.assertEqual(one.execute("SELECT pg_try_advisory_lock(47)").fetchone(), (True,))
            one.execute("NOTIFY c")
            self.assertEqual(list(two.notifies(timeout=0.2)), [])

    def test_who_is_there(self):
        with self.connect(application_name="watched") as one, self.connect() as two:
            one.execute("BEGIN")
            one.execute("SELECT 1 AS seen")
            shown = "SELECT pid, usename, state, query, xact_start IS NULL FROM pg_stat_activity WHERE application_name = 'watched'"
            expected = (one.info.backend_pid, "me", "idle in transaction", "SELECT 1 AS seen", False)
            self.assertEqual(two.execute(shown).fetchone(), expected)
            self.assertEqual(one.execute("SELECT pg_backend_pid()").fetchone(), (one.info.backend_pid,))
            own = two.execute("SELECT state FROM pg_stat_activity WHERE pid = pg_backend_pid()").fetchone()
            self.assertEqual(own, ("active",))


class Watched(unittest.TestCase):
    """A server with a second port, a limit of connections, and a log of slow statements."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="keyspan-watched-")
        command = [program(), "serve", "--listen", "127.0.0.1:0", "--data", f"{self.folder.name}/data", "--metrics", "127.0.0.1:0"]
        command += ["--max-connections", "2"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().strip().rsplit(":", 1)[1])
        self.log = []
        while not self.log or "metrics on" not in self.log[-1]:
            self.log.append(self.process.stderr.readline())
        self.url = re.search(r"http://[0-9.:]+", self.log[-1]).group()

    def tearDown(self):
        self.stop()
        self.folder.cleanup()

    def stop(self):
        """Answers the server's log."""
        if self.process.poll() is None:
            self.process.terminate()
            self.log += self.process.communicate(timeout=30)[1].splitlines()
        return self.log

    def connect(self):
        return psycopg.connect(host="127.0.0.1", port=self.port, user="me", dbname="db", autocommit=True)

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return answer.read().decode()

    def test_metrics_health_limit_and_slow_statements(self):
        self.assertEqual(self.get("/health"), "ok\n")
        with self.assertRaises(urllib.error.HTTPError) as missing:
            self.get("/")
        self.assertEqual(missing.exception.code, 404)
        with self.connect() as one, self.connect():
            with self.assertRaises(psycopg.OperationalError) as full:
                self.connect()
            self.assertIn("too many clients", str(full.exception))
            self.assertEqual(one.execute("SHOW max_connections").fetchone(), ("2",))
            one.execute("CREATE TABLE t (k int PRIMARY KEY, v text)")
            one.execute("INSERT INTO t SELECT n, 'x' FROM generate_series(1, 100) AS s (n)")
            one.execute("SELECT * FROM t").fetchall()
            with self.assertRaises(psycopg.Error):
                one.execute("SELECT nothing FROM t")
            one.execute("SET log_min_duration_statement = 0")
            one.execute("SELECT count(*) FROM t WHERE v <> 'secret'").fetchall()
            one.execute("SET log_min_duration_statement = -1")
            text = self.get("/metrics")
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        self.assertEqual(values["keyspan_connections"], "2")
        self.assertEqual(values["keyspan_connections_max"], "2")
        self.assertEqual(values["keyspan_connections_refused_total"], "1")
        self.assertEqual(values['keyspan_statements_total{kind="insert",outcome="done"}'], "1")
        self.assertEqual(values['keyspan_statements_total{kind="select",outcome="failed"}'], "1")
        self.assertEqual(values["keyspan_rows_written_total"], "100")
        self.assertGreaterEqual(int(values["keyspan_rows_sent_total"]), 100)
        self.assertGreaterEqual(int(values["keyspan_rows_read_total"]), 200)
        self.assertGreater(int(values["keyspan_memtable_bytes"]), 0)
        self.assertEqual(values['keyspan_statement_seconds_bucket{kind="insert",le="+Inf"}'], "1")
        slow = [line for line in self.stop() if "slow statement" in line]
        # The second one is the SET that ends it.
        self.assertEqual(len(slow), 2, self.log)
        self.assertIn("SELECT count(*) FROM t WHERE v <> ?", slow[0])
        self.assertNotIn("secret", "".join(self.log))
        self.assertIn("rows_read=100", slow[0])
