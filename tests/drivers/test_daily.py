"""What clients of PostgreSQL send daily: 23505 with its fields."""

import threading
import time

import psycopg
from server import ServerCase


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
