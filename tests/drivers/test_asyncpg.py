"""asyncpg: pools, prepared statements, cursors, COPY, transactions, types."""

import asyncio
import datetime
import decimal
import io
import uuid

import asyncpg
from server import ServerCase

NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=datetime.timezone.utc)
CREATE = """CREATE TABLE kinds (k int PRIMARY KEY, b boolean, s smallint, l bigint, r real, d double, n decimal(10,3), t text, x blob,
            u uuid, da date, ti time, ts timestamp, j jsonb, i interval)"""
ROW = (1, True, 5, 2**40, 1.5, 2.5, decimal.Decimal("12.346"), "text é", b"\xca\xfe", uuid.UUID(int=7), datetime.date(2024, 2, 29),
       datetime.time(1, 2, 3), NOON, '{"a": 1}', datetime.timedelta(hours=1))


class Asyncpg(ServerCase):
    """Each test is given a connection of a pool, which resets it afterwards."""

    def talk(self, conversation):
        async def with_pool():
            pool = await asyncpg.create_pool(host="127.0.0.1", port=self.port, user="me", database="db", min_size=1, max_size=2)
            try:
                async with pool.acquire() as connection:
                    return await conversation(connection)
            finally:
                await pool.close()

        return asyncio.run(with_pool())

    def test_a_pool_hands_out_connections_again(self):
        async def many():
            pool = await asyncpg.create_pool(host="127.0.0.1", port=self.port, user="me", database="db", min_size=1, max_size=2)
            async with pool.acquire() as connection:
                await connection.execute("SET application_name = 'changed'")
            names = await asyncio.gather(*[pool.fetchval("SHOW application_name") for _ in range(20)])
            await pool.close()
            return set(names)

        self.assertEqual(asyncio.run(many()), {""})

    def test_every_type(self):
        async def conversation(connection):
            await connection.execute(CREATE)
            parameters = ", ".join(f"${n + 1}" for n in range(len(ROW)))
            await connection.execute(f"INSERT INTO kinds VALUES ({parameters})", *ROW)
            await connection.copy_records_to_table("kinds", records=[(2,) + ROW[1:], (3,) + (None,) * (len(ROW) - 1)])
            return [tuple(row) for row in await connection.fetch("SELECT * FROM kinds ORDER BY k")]

        self.assertEqual(self.talk(conversation), [ROW, (2,) + ROW[1:], (3,) + (None,) * (len(ROW) - 1)])

    def test_copy(self):
        async def conversation(connection):
            await connection.execute("CREATE TABLE copied (k int PRIMARY KEY, v text)")
            await connection.copy_records_to_table("copied", records=[(1, "a"), (2, None)], columns=["k", "v"], schema_name="public")
            await connection.copy_to_table("copied", source=io.BytesIO(b"3,c\n"), format="csv")
            out, part = io.BytesIO(), io.BytesIO()
            await connection.copy_from_table("copied", output=out)
            await connection.copy_from_query("SELECT k, v FROM copied WHERE k > $1", 2, output=part, format="csv")
            return out.getvalue(), part.getvalue()

        self.assertEqual(self.talk(conversation), (b"1\ta\n2\t\\N\n3\tc\n", b"3,c\n"))

    def test_transactions_and_a_cursor(self):
        async def conversation(connection):
            await connection.execute("CREATE TABLE many (k int PRIMARY KEY)")
            await connection.executemany("INSERT INTO many VALUES ($1)", [(k,) for k in range(100)])
            async with connection.transaction(isolation="repeatable_read"):
                with self.assertRaises(ZeroDivisionError):
                    async with connection.transaction():
                        await connection.execute("DELETE FROM many WHERE k = 1")
                        1 / 0
                found = [row["k"] async for row in connection.cursor("SELECT k FROM many ORDER BY k", prefetch=7)]
            async with connection.transaction(isolation="serializable", readonly=True, deferrable=True):
                self.assertEqual(await connection.fetchval("SELECT count(*) FROM many"), 100)
            return found

        self.assertEqual(self.talk(conversation), list(range(100)))

    def test_a_prepared_statement_and_lists(self):
        async def conversation(connection):
            statement = await connection.prepare("SELECT $1::int AS n, $2::text[] AS names")
            self.assertEqual([each.type.name for each in statement.get_attributes()], ["int4", "text[]"])
            self.assertEqual([each.name for each in statement.get_parameters()], ["int4", "text[]"])
            return tuple(await statement.fetchrow(1, ["a", None]))

        self.assertEqual(self.talk(conversation), (1, ["a", None]))

    def test_a_timeout_leaves_the_connection_usable(self):
        async def conversation(connection):
            with self.assertRaises(TimeoutError):
                slow = "SELECT sum(x * y % 7) FROM generate_series(1, 3000000) AS a(x), generate_series(1, 1000) AS b(y)"
                await connection.fetchval(slow, timeout=0.5)
            return await connection.fetchval("SELECT 1")

        self.assertEqual(self.talk(conversation), 1)
