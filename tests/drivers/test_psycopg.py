"""psycopg 3 and 2, asyncpg: types both ways, prepared statements, pipelines, COPY, cursors, cancellation."""

import asyncio
import datetime
import decimal
import threading
import time
import uuid

import asyncpg
import psycopg
import psycopg2
from server import ServerCase

UTC = datetime.timezone.utc
NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC)
KEY = uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
ROW = (1, True, 5, 2**40, 1.5, decimal.Decimal("12.346"), "text é", b"\xca\xfe", KEY, datetime.date(2024, 2, 29), NOON)
CREATE = """CREATE TABLE IF NOT EXISTS kinds (k int PRIMARY KEY, b boolean, s smallint, l bigint, d double, n decimal(10,3), t text,
            x blob, u uuid, da date, ts timestamp)"""


class Drivers(ServerCase):
    def connect(self, **more):
        return psycopg.connect(host="127.0.0.1", port=self.port, user="me", dbname="db", **more)

    def test_numeric_parameters_keep_their_digits(self):
        """A numeric that is declared without a precision has the digits that it is written with, as a literal has."""
        with self.connect(autocommit=True) as connection:
            connection.execute("CREATE TABLE digits (id int PRIMARY KEY, s numeric(38, 20), f float8, t text)")
            small, round_number = decimal.Decimal("1e-15"), decimal.Decimal("20")
            insert = "INSERT INTO digits (id, s, f, t) VALUES (%s, %s, %s, %s)"
            connection.execute(insert, (1, small, small, small))
            connection.execute(insert, (2, round_number, round_number, round_number))
            rows = connection.execute("SELECT * FROM digits ORDER BY id").fetchall()
            self.assertEqual(rows, [(1, small, 1e-15, "0.000000000000001"), (2, round_number, 20.0, "20")])
            given = (round_number, decimal.Decimal("1.50"), decimal.Decimal("1e-12"), decimal.Decimal("1e-12"))
            found = connection.execute("SELECT %s::text, %s || 'x', %s + 1, %s = 0", given).fetchone()
            self.assertEqual(found, ("20", "1.50x", decimal.Decimal("1.000000000001"), False))
            near = "SELECT id FROM digits WHERE id = %s"
            self.assertEqual(connection.execute(near, (decimal.Decimal("1.00000000000001"),)).fetchall(), [])
            self.assertEqual(connection.execute(near, (decimal.Decimal("1.0"),)).fetchall(), [(1,)])
            connection.execute("CREATE TABLE prices (id int PRIMARY KEY, price numeric(10, 2))")
            connection.execute("INSERT INTO prices VALUES (1, %s)", (decimal.Decimal("1.004"),))
            cheap = "UPDATE prices SET price = %s WHERE price < %s"
            given = (decimal.Decimal("2.499"), decimal.Decimal("1.001"))
            self.assertEqual(connection.execute(cheap, given).rowcount, 1)
            self.assertEqual(connection.execute("SELECT price FROM prices").fetchone()[0], decimal.Decimal("2.50"))
            texts = connection.execute("SELECT %b::text", ([small, decimal.Decimal("1.5")],)).fetchone()[0]
            self.assertEqual(texts, "{0.000000000000001,1.500000000000000}")
            found = connection.execute("SELECT %b, %b", (decimal.Decimal("123.4500"), 2**70), binary=True).fetchone()
            self.assertEqual([str(number) for number in found], ["123.4500", str(2**70)])

    def test_texts_come_in_the_encoding_of_the_client(self):
        with self.connect(autocommit=True) as connection:
            connection.execute("CREATE TABLE spelled (a text PRIMARY KEY, b text[])")
            texts = {"latin1": "é", "win1251": "Привет", "sjis": "日本", "gbk": "中文", "utf8": "€"}
            for encoding, text in texts.items():
                connection.execute(f"SET client_encoding TO {encoding}")
                for binary in (False, True):
                    connection.execute("DELETE FROM spelled WHERE a = %s", (text,))
                    places = "%b, %b" if binary else "%s, %s"
                    connection.execute(f"INSERT INTO spelled VALUES ({places})", (text, [text, "x"]))
                    select = "SELECT a, b, a || 'x' FROM spelled WHERE a = %s"
                    row = connection.execute(select, (text,), binary=binary).fetchone()
                    self.assertEqual(row, (text, [text, "x"], text + "x"), encoding)
                self.assertEqual(connection.execute(f'SELECT 1 AS "{text}"').description[0].name, text)
                with self.assertRaisesRegex(psycopg.errors.UndefinedTable, text):
                    connection.execute(f'SELECT 1 FROM "{text}"')
            connection.execute("SET client_encoding TO latin1")
            with connection.cursor().copy("COPY spelled (a) FROM STDIN") as copy:
                copy.write_row(("ü",))
            with connection.cursor().copy("COPY (SELECT a FROM spelled WHERE a = 'ü') TO STDOUT") as copy:
                self.assertEqual(b"".join(bytes(piece) for piece in copy), b"\xfc\n")
            with self.assertRaises(psycopg.errors.UntranslatableCharacter):
                connection.execute("SELECT chr(8364)")
            # Refused before any data is asked for.
            with self.assertRaises(psycopg.errors.FeatureNotSupported):
                with connection.cursor().copy("COPY spelled (a) FROM STDIN (FORMAT binary)"):
                    self.fail("the server asks for data")
        # psql asks for these where the locale is C, or on Windows.
        for encoding in ("SQL_ASCII", "WIN1252"):
            with self.connect(client_encoding=encoding) as connection:
                expected = {"SQL_ASCII": "é".encode(), "WIN1252": "é"}[encoding]
                self.assertEqual(connection.execute("SELECT chr(233)").fetchone()[0], expected)

    def test_a_statement_is_prepared_anew_where_its_columns_are_others(self):
        """Drivers know the error by the routine that PostgreSQL names."""

        async def changed():
            address = {"host": "127.0.0.1", "port": self.port, "user": "me", "database": "db"}
            one, other = await asyncpg.connect(**address), await asyncpg.connect(**address)
            try:
                await one.execute("CREATE TABLE growing (id int PRIMARY KEY)")
                await one.execute("INSERT INTO growing VALUES (1)")
                self.assertEqual([tuple(row) for row in await one.fetch("SELECT * FROM growing")], [(1,)])
                await other.execute("ALTER TABLE growing ADD COLUMN n int")
                self.assertEqual([tuple(row) for row in await one.fetch("SELECT * FROM growing")], [(1, None)])
            finally:
                await one.close()
                await other.close()

        asyncio.run(changed())

    def test_every_type_as_text_and_binary(self):
        with self.connect(autocommit=True) as connection:
            connection.execute(CREATE)
            for binary in (False, True):
                with connection.cursor(binary=binary) as cursor:
                    cursor.execute("DELETE FROM kinds WHERE k = 1")
                    cursor.execute(f"INSERT INTO kinds VALUES ({', '.join(['%s'] * len(ROW))})", ROW)
                    self.assertEqual(cursor.execute("SELECT * FROM kinds WHERE k = %s", (1,)).fetchone(), ROW)

    def test_executemany_and_a_transaction(self):
        with self.connect() as connection:
            connection.execute("CREATE TABLE many (k int PRIMARY KEY, v text)")
            with connection.cursor() as cursor:
                cursor.executemany("INSERT INTO many VALUES (%s, %s)", [(n, f"v{n}") for n in range(200)])
            self.assertEqual(connection.execute("SELECT count(*) FROM many").fetchone(), (200,))
            connection.rollback()
        with self.connect() as connection, self.assertRaises(psycopg.errors.UndefinedTable):
            connection.execute("SELECT * FROM many")

    def test_times_without_a_zone_are_in_that_of_the_session(self):
        def at(hour):
            return datetime.datetime(2024, 1, 1, hour, tzinfo=UTC)

        midnight, day = datetime.datetime(2024, 1, 1), datetime.date(2024, 1, 1)
        with self.connect(autocommit=True) as connection:
            connection.execute("SET TIME ZONE 'America/New_York'")
            connection.execute("CREATE TABLE times (k int, at timestamptz, v int, PRIMARY KEY (k, at))")

            connection.execute("CREATE TABLE noted (k int PRIMARY KEY, m map<timestamp, int>)")
            connection.execute("INSERT INTO noted VALUES (1, {'2024-01-01 00:00+00': 0, '2024-01-01 05:00+00': 5})")

            def fill():
                connection.execute("TRUNCATE times")
                for hour in (0, 5, 7):
                    connection.execute("INSERT INTO times VALUES (1, %s, %s)", (at(hour), hour))

            def rest():
                return [v for (v,) in connection.execute("SELECT v FROM times ORDER BY at")]

            for prepare in (False, True):

                def run(sql, *parameters, prepare=prepare):
                    return connection.execute(sql, parameters, prepare=prepare)

                for given in (midnight, day):
                    fill()
                    for condition in ("at = %s", "at IN (%s)", "at = ANY(%s)", "(k, at) IN ((1, %s))"):
                        value = [given] if "ANY" in condition else given
                        found = run(f"SELECT v FROM times WHERE k = 1 AND {condition}", value).fetchall()
                        self.assertEqual(found, [(5,)], (condition, given))
                        run(f"UPDATE times SET v = v + 10 WHERE k = 1 AND {condition}", value)
                        self.assertEqual(rest(), [0, 15, 7], (condition, given))
                        run(f"DELETE FROM times WHERE k = 1 AND {condition}", value)
                        self.assertEqual(rest(), [0, 7], (condition, given))
                        run("INSERT INTO times VALUES (1, %s, 5)", given)
                        self.assertEqual(rest(), [0, 5, 7], given)
                    found = run("SELECT v FROM times WHERE k = 1 AND at > %s", given).fetchall()
                    self.assertEqual(found, [(7,)])
                    run("DELETE FROM times WHERE k = 1 AND at >= %s", given)
                    self.assertEqual(rest(), [0])
                    self.assertEqual(run("SELECT m[%s] FROM noted WHERE k = 1", given).fetchone(), (5,))

    def test_numbers_of_other_types_are_compared_as_numbers(self):
        tenth, half, large = decimal.Decimal("0.1"), decimal.Decimal("1.5"), 2**40
        with self.connect(autocommit=True) as connection:
            connection.execute("CREATE TABLE doubles (k double PRIMARY KEY, v int)")
            connection.execute("CREATE TABLE wholes (k int PRIMARY KEY, v int)")
            connection.execute("CREATE TABLE larges (k bigint PRIMARY KEY, v int)")
            connection.execute("INSERT INTO doubles VALUES (0.1, 1), (1.5, 2)")
            connection.execute("INSERT INTO wholes VALUES (1, 1), (2, 2)")
            connection.execute("INSERT INTO larges VALUES (9007199254740993, 1), (9007199254740992, 2)")

            def found(table, condition, *parameters):
                return connection.execute(f"SELECT v FROM {table} WHERE {condition} ORDER BY v", parameters).fetchall()

            self.assertEqual(found("doubles", "k = %s", tenth), [(1,)])
            self.assertEqual(found("doubles", "k IN (%s, %s)", tenth, half), [(1,), (2,)])
            self.assertEqual(found("doubles", "k = ANY(%s)", [tenth, half]), [(1,), (2,)])
            self.assertEqual(found("wholes", "k = %s", half), [])
            self.assertEqual(found("wholes", "k IN (%s, %s)", half, decimal.Decimal("2.0")), [(2,)])
            self.assertEqual(found("wholes", "k = ANY(%s)", [half, decimal.Decimal("1.0")]), [(1,)])
            self.assertEqual(found("wholes", "k = ANY(%s)", [large, 2]), [(2,)])
            self.assertEqual(found("wholes", "k = %s", large), [])
            # An integer becomes a double, which stands for both.
            self.assertEqual(found("larges", "k = %s", 9007199254740992.0), [(1,), (2,)])
            # 1.5 is rounded by the cast, a large number is not among integers.
            self.assertEqual(found("wholes", "k = ANY(%s::int[])", [half]), [(2,)])
            with self.assertRaises(psycopg.errors.NumericValueOutOfRange):
                found("wholes", "k = ANY(%s::int[])", [large])
            connection.execute("DELETE FROM wholes WHERE k = %s", (half,))
            self.assertEqual(found("wholes", "true"), [(1,), (2,)])

    def test_columns_say_of_which_table_they_are(self):
        with self.connect(autocommit=True) as connection:
            connection.execute("CREATE TABLE origins (k int PRIMARY KEY, gone int, v text)")
            connection.execute("CREATE TABLE others (k int PRIMARY KEY, w int)")
            connection.execute("CREATE VIEW of_origins AS SELECT k AS kk, v FROM origins")
            number = "SELECT %s::regclass::oid::int, attnum FROM pg_attribute WHERE attrelid = %s::regclass AND attname = %s"

            def origin(table, column):
                return connection.execute(number, (table, table, column)).fetchone()

            def shown(sql, *parameters):
                found = connection.execute(sql, parameters or None).pgresult
                return [(found.ftable(at), found.ftablecol(at)) for at in range(found.nfields)]

            k, v, w = origin("origins", "k"), origin("origins", "v"), origin("others", "w")
            nothing = (0, 0)
            for _ in range(2):
                self.assertEqual(shown("SELECT k, v FROM origins WHERE k = 1"), [k, v])
                self.assertEqual(shown("SELECT v, k AS x, k + 1, 1 FROM origins WHERE k > %s", 1), [v, k, nothing, nothing])
                self.assertEqual(shown("SELECT o.*, w FROM origins o LEFT JOIN others USING (k)"), [k, origin("origins", "gone"), v, w])
                self.assertEqual(shown("SELECT v, count(*) FROM origins GROUP BY v ORDER BY 1 LIMIT 3"), [v, nothing])
                self.assertEqual(shown("WITH q AS (SELECT DISTINCT v FROM origins) SELECT v, upper(v) FROM q"), [v, nothing])
                self.assertEqual(shown("SELECT v FROM origins UNION SELECT 'x'"), [nothing])
                self.assertEqual(shown("SELECT v, row_number() OVER () FROM of_origins"), [v, nothing])
                self.assertEqual(shown("SELECT (SELECT max(w) FROM others), k FROM origins"), [nothing, k])
            prepared = connection.cursor()
            for _ in range(3):
                prepared.execute("SELECT k, v FROM origins WHERE v = %s", ("a",), prepare=True)
            connection.execute("DROP VIEW of_origins")
            # By another, since the driver forgets what it has prepared when it sees an ALTER.
            with self.connect(autocommit=True) as other:
                other.execute("ALTER TABLE origins DROP gone")
            prepared.execute("SELECT k, v FROM origins WHERE v = %s", ("a",), prepare=True)
            self.assertEqual(prepared.fetchall(), [])

    def test_copy_and_a_named_cursor(self):
        with self.connect() as connection:
            connection.execute("CREATE TABLE copied (k int PRIMARY KEY, v text)")
            with connection.cursor().copy("COPY copied FROM STDIN") as copy:
                for n in range(1000):
                    copy.write_row((n, f"line\t{n}\n"))
            connection.commit()
            with connection.cursor(name="slowly") as cursor:
                cursor.itersize = 100
                rows = list(cursor.execute("SELECT * FROM copied ORDER BY k"))
            self.assertEqual(rows[999], (999, "line\t999\n"))

    def test_binary_copy_of_every_type(self):
        with self.connect(autocommit=True) as connection:
            connection.execute(CREATE.replace("kinds", "kinds_in"))
            connection.execute(CREATE.replace("kinds", "kinds_again"))
            names = "int4 bool int2 int8 float8 numeric text bytea uuid date timestamptz".split()
            with connection.cursor() as cursor:
                with cursor.copy("COPY kinds_in FROM STDIN (FORMAT BINARY)") as copy:
                    copy.set_types(names)
                    copy.write_row(ROW)
                    copy.write_row((2,) + (None,) * (len(ROW) - 1))
                expected = [ROW, (2,) + (None,) * (len(ROW) - 1)]
                self.assertEqual(cursor.execute("SELECT * FROM kinds_in ORDER BY k").fetchall(), expected)
                with cursor.copy("COPY (SELECT * FROM kinds_in ORDER BY k) TO STDOUT (FORMAT BINARY)") as copy:
                    copy.set_types(names)
                    self.assertEqual(list(copy.rows()), expected)
                with cursor.copy("COPY kinds_in TO STDOUT (FORMAT BINARY)") as copy:
                    data = b"".join(bytes(piece) for piece in copy)
                with cursor.copy("COPY kinds_again FROM STDIN (FORMAT BINARY)") as copy:
                    copy.write(data)
                self.assertEqual(cursor.execute("SELECT * FROM kinds_again ORDER BY k").fetchall(), expected)
                with self.assertRaises(psycopg.errors.BadCopyFileFormat):
                    with cursor.copy("COPY kinds_again FROM STDIN (FORMAT BINARY)") as copy:
                        copy.write(data[:-10])

    def test_a_large_copy_is_all_or_nothing(self):
        with self.connect() as connection:
            connection.execute("CREATE TABLE large (k int PRIMARY KEY, v text)")
            connection.commit()
            for bad in (True, False):
                try:
                    with connection.cursor().copy("COPY large FROM STDIN") as copy:
                        for block in range(0, 40000, 1000):
                            copy.write("".join(f"{block + n}\t{'x' * 990}\n" for n in range(1000)))
                        if bad:
                            copy.write("not a number\tx\n")
                    self.assertEqual(connection.execute("SELECT count(*) FROM large").fetchone(), (40000,))
                    connection.commit()
                except psycopg.errors.InvalidTextRepresentation:
                    self.assertTrue(bad)
                    connection.rollback()
                    self.assertEqual(connection.execute("SELECT count(*) FROM large").fetchone(), (0,))

    def test_cancel_stops_a_running_statement(self):
        with self.connect(autocommit=True) as connection:
            timer = threading.Timer(0.5, connection.cancel)
            timer.start()
            start = time.monotonic()
            with self.assertRaises(psycopg.errors.QueryCanceled):
                connection.execute("SELECT sum(a % 7 * b + c) FROM generate_series(1, 5000) AS x(a), generate_series(1, 5000) AS y(b), generate_series(1, 50) AS z(c)")
            self.assertLess(time.monotonic() - start, 2)
            timer.join()

    LISTS = (
        ("k", [1, 3]),
        ("b", [2**40 + 1, 2**40 + 3]),
        ("t", ["t1", 't3"\\,{}', None]),
        ("u", [uuid.UUID(int=1), uuid.UUID(int=3)]),
        ("ts", [NOON + datetime.timedelta(days=1), NOON + datetime.timedelta(days=3)]),
        ("d", [1.5, 3.5, 1e300]),
        ("n", [decimal.Decimal("1.25"), decimal.Decimal(3)]),
    )
    CREATE_LISTS = "CREATE TABLE IF NOT EXISTS lists (k int PRIMARY KEY, b bigint, t text, u uuid, ts timestamp, d double, n decimal(10,2))"

    def fill_lists(self, connection):
        connection.execute(self.CREATE_LISTS)
        for k in range(5):
            text = 't3"\\,{}' if k == 3 else f"t{k}"
            number = decimal.Decimal(k) + (decimal.Decimal("0.25") if k == 1 else 0)
            values = (k, 2**40 + k, text, uuid.UUID(int=k), NOON + datetime.timedelta(days=k), k + 0.5, number)
            connection.execute("INSERT INTO lists VALUES (%s, %s, %s, %s, %s, %s, %s)", values)

    def test_lists_are_arrays(self):
        with self.connect(autocommit=True) as connection:
            self.fill_lists(connection)
            for binary in (False, True):
                for column, values in self.LISTS:
                    found = connection.execute(f"SELECT k FROM lists WHERE {column} = ANY(%s)", (values,), binary=binary).fetchall()
                    self.assertEqual(found, [(1,), (3,)], column)
                self.assertEqual(connection.execute("SELECT count(*) FROM lists WHERE k <> ALL(%s)", ([1, 3],)).fetchone(), (3,))
                self.assertEqual(connection.execute("SELECT k FROM lists WHERE k = ANY(%s)", ([],)).fetchall(), [])
            plan = connection.execute("EXPLAIN SELECT * FROM lists WHERE k = ANY(%s)", ([3, 1],)).fetchall()
            self.assertEqual(plan, [("Point Read on lists",), ("  Keys: 2, no planner",)])
            plan = connection.execute("EXPLAIN SELECT count(*) FROM lists WHERE k = ANY(%s)", ([3, 1],)).fetchall()
            self.assertIn("spans=[(1), (3)]", str(plan))

    def test_lists_of_asyncpg(self):
        with self.connect(autocommit=True) as connection:
            self.fill_lists(connection)

        async def talk():
            connection = await asyncpg.connect(host="127.0.0.1", port=self.port, user="me", database="db")
            for column, values in self.LISTS:
                found = await connection.fetch(f"SELECT k FROM lists WHERE {column} = ANY($1)", values)
                self.assertEqual([row["k"] for row in found], [1, 3], column)
            found = await connection.fetch("SELECT x FROM unnest($1::bigint[]) AS x", [2**40, 7])
            self.assertEqual([row["x"] for row in found], [2**40, 7])
            await connection.close()

        asyncio.run(talk())

    ARRAYS = (1, [1, None, -3], ["a", 'b"\\,{}', None, ""], [1.5, 2.5], [decimal.Decimal("1.25"), None], [True, False],
              [uuid.UUID(int=7)], [datetime.date(2024, 2, 29)], [NOON, None], [])
    CREATE_ARRAYS = """CREATE TABLE IF NOT EXISTS arrays (k int PRIMARY KEY, i int[], t text[], d double precision[],
                       n decimal(10,2)[], b boolean[], u uuid[], da date[], ts timestamp[], e bigint[])"""

    def test_columns_of_arrays(self):
        with self.connect(autocommit=True) as connection:
            connection.execute(self.CREATE_ARRAYS)
            places = ", ".join(["%s"] * len(self.ARRAYS))
            for binary in (False, True):
                with connection.cursor(binary=binary) as cursor:
                    cursor.execute(f"INSERT INTO arrays VALUES ({places})", self.ARRAYS)
                    self.assertEqual(cursor.execute("SELECT * FROM arrays").fetchone(), self.ARRAYS)
                    cursor.execute("UPDATE arrays SET i = array_append(i, %s) WHERE k = 1 AND %s = ANY(t)", (9, "a"))
                    self.assertEqual(cursor.execute("SELECT i FROM arrays").fetchone(), ([1, None, -3, 9],))
            connection.execute(self.CREATE_ARRAYS.replace("arrays", "arrays_again"))
            for form in ("BINARY", "TEXT", "CSV"):
                with connection.cursor().copy(f"COPY arrays TO STDOUT (FORMAT {form})") as copy:
                    data = b"".join(bytes(piece) for piece in copy)
                connection.execute("DELETE FROM arrays_again WHERE k = 1")
                with connection.cursor().copy(f"COPY arrays_again FROM STDIN (FORMAT {form})") as copy:
                    copy.write(data)
                again = connection.execute("SELECT * FROM arrays_again").fetchone()
                self.assertEqual(again, connection.execute("SELECT * FROM arrays").fetchone(), form)

    def test_columns_of_arrays_in_asyncpg(self):
        async def talk():
            connection = await asyncpg.connect(host="127.0.0.1", port=self.port, user="me", database="db")
            await connection.execute("CREATE TABLE arrays_of_asyncpg (k int PRIMARY KEY, i int[], t text[], ts timestamp[])")
            row = (1, [1, None], ["a", None], [NOON])
            await connection.execute("INSERT INTO arrays_of_asyncpg VALUES ($1, $2, $3, $4)", *row)
            self.assertEqual(tuple(await connection.fetchrow("SELECT * FROM arrays_of_asyncpg")), row)
            await connection.copy_records_to_table("arrays_of_asyncpg", records=[(2, [2], [], None)])
            found = await connection.fetch("SELECT k FROM arrays_of_asyncpg WHERE $1 = ANY(i)", 2)
            self.assertEqual([row["k"] for row in found], [2])
            await connection.close()

        asyncio.run(talk())

    def test_psycopg2(self):
        connection = psycopg2.connect(host="127.0.0.1", port=self.port, user="me", dbname="db")
        with connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE old (k int PRIMARY KEY, ts timestamp)")
            cursor.execute("INSERT INTO old VALUES (%s, %s)", (1, NOON))
            cursor.execute("SELECT ts FROM old WHERE ts = %s", (NOON,))
            self.assertEqual(cursor.fetchone(), (NOON,))
        connection.close()

    def test_asyncpg(self):
        async def talk():
            connection = await asyncpg.connect(host="127.0.0.1", port=self.port, user="me", database="db")
            await connection.execute("CREATE TABLE asynchronous (k int PRIMARY KEY, u uuid, ts timestamp)")
            await connection.execute("INSERT INTO asynchronous VALUES ($1, $2, $3)", 1, KEY, NOON)
            row = await connection.fetchrow("SELECT * FROM asynchronous WHERE k = $1", 1)
            await connection.close()
            return tuple(row)

        self.assertEqual(asyncio.run(talk()), (1, KEY, NOON))
