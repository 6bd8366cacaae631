"""ADBC: Arrow tables to the server and back, by COPY in its binary form."""

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa

from server import ServerCase


class Adbc(ServerCase):
    def test_tables_go_and_come(self):
        readings = pa.table({"id": [1, 2, 3], "name": ["x", "y", None], "value": [1.5, None, 2.5]})
        with adbc.connect(f"postgresql://me@127.0.0.1:{self.port}/db") as connection, connection.cursor() as cursor:
            cursor.adbc_ingest("readings", readings, mode="create")
            connection.commit()
            cursor.execute("SELECT id, name, value FROM readings ORDER BY id")
            self.assertEqual(cursor.fetch_arrow_table().to_pydict(), readings.to_pydict())
            cursor.execute("SELECT count(*) FROM readings WHERE id > $1", (1,))
            self.assertEqual(cursor.fetchone(), (2,))
