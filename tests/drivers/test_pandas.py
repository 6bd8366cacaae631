"""pandas and SQLAlchemy: to_sql, read_sql and reflection."""

import pandas
import sqlalchemy
from server import ServerCase


class Pandas(ServerCase):
    def engine(self):
        return sqlalchemy.create_engine(f"postgresql+psycopg://me@127.0.0.1:{self.port}/db")

    def test_a_frame_goes_out_and_comes_back(self):
        times = pandas.date_range("2024-01-01", periods=50, freq="h", tz="UTC")
        frame = pandas.DataFrame({"ts": times, "v": [n / 4 for n in range(50)], "name": [f"n{n}" for n in range(50)], "n": range(50)})
        with self.engine().begin() as connection:
            frame.to_sql("frame", connection, index=False)
        with self.engine().connect() as connection:
            back = pandas.read_sql("SELECT * FROM frame", connection)
        self.assertEqual(back["v"].tolist(), frame["v"].tolist())
        self.assertEqual(back["name"].tolist(), frame["name"].tolist())
        self.assertEqual(pandas.to_datetime(back["ts"], utc=True).tolist(), frame["ts"].tolist())
        with self.engine().begin() as connection:
            frame.to_sql("frame", connection, index=False, if_exists="append")
            self.assertEqual(pandas.read_sql("SELECT count(*) AS n FROM frame", connection)["n"][0], 100)

    def test_reflection_knows_columns_and_key(self):
        engine = self.engine()
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE seen (host text, ts timestamp, v double, PRIMARY KEY (host, ts))")
        inspector = sqlalchemy.inspect(engine)
        self.assertIn("seen", inspector.get_table_names())
        self.assertEqual([column["name"] for column in inspector.get_columns("seen")], ["host", "ts", "v"])
        self.assertEqual(inspector.get_pk_constraint("seen")["constrained_columns"], ["host", "ts"])
        table = sqlalchemy.Table("seen", sqlalchemy.MetaData(), autoload_with=engine)
        with engine.begin() as connection:
            connection.execute(table.insert(), [{"host": "a", "ts": pandas.Timestamp("2024-01-01", tz="UTC"), "v": 1.0}])
            self.assertEqual(connection.execute(sqlalchemy.select(table.c.v)).scalar_one(), 1.0)
