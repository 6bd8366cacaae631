"""What Grafana's PostgreSQL data source asks to fill its lists of tables and columns, word by word, and its macros."""

import psycopg
from server import ServerCase

# From Grafana 8 on: keeps schemas of the search path.
IN_SEARCH_PATH = """
          quote_ident(table_schema) IN (
          SELECT
            CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
          FROM
            generate_series(
              array_lower(string_to_array(current_setting('search_path'),','),1),
              array_upper(string_to_array(current_setting('search_path'),','),1)
            ) as i,
            string_to_array(current_setting('search_path'),',') s
          )"""
SYSTEM = """('information_schema',
                             'pg_catalog',
                             '_timescaledb_cache',
                             '_timescaledb_catalog',
                             '_timescaledb_internal',
                             '_timescaledb_config',
                             'timescaledb_information',
                             'timescaledb_experimental')"""
TABLES_BEFORE_10 = f"""select quote_ident(table_name) as "table" from information_schema.tables
    where quote_ident(table_schema) not in {SYSTEM}
      and {IN_SEARCH_PATH}"""
TABLES = f"""SELECT
    CASE WHEN {IN_SEARCH_PATH}
      THEN quote_ident(table_name)
      ELSE quote_ident(table_schema) || '.' || quote_ident(table_name)
    END AS "table"
    FROM information_schema.tables
    WHERE quote_ident(table_schema) NOT IN {SYSTEM}
    ORDER BY CASE WHEN {IN_SEARCH_PATH} THEN 0 ELSE 1 END, 1"""


def columns(table):
    return f"""SELECT quote_ident(column_name) AS "column", data_type AS "type"
    FROM information_schema.columns
    WHERE
      CASE WHEN array_length(parse_ident('{table}'),1) = 2
        THEN quote_ident(table_schema) = (parse_ident('{table}'))[1]
          AND quote_ident(table_name) = (parse_ident('{table}'))[2]
        ELSE quote_ident(table_name) = '{table}'
          AND {IN_SEARCH_PATH}
      END"""


class Grafana(ServerCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.connection = psycopg.connect(host="127.0.0.1", port=cls.port, user="me", dbname="db", autocommit=True)
        cls.connection.execute("CREATE TABLE cpu (host text, time timestamptz, usage double precision, PRIMARY KEY (host, time))")
        cls.connection.execute("CREATE SCHEMA other")
        cls.connection.execute('CREATE TABLE other."Big" (k int PRIMARY KEY)')
        cls.connection.execute("INSERT INTO cpu SELECT 'a', '2024-01-01'::timestamptz + n * interval '1 minute', n FROM generate_series(0, 9) AS n")

    @classmethod
    def tearDownClass(cls):
        cls.connection.close()
        super().tearDownClass()

    def rows(self, sql):
        return self.connection.execute(sql).fetchall()

    def test_the_server(self):
        version = self.rows("SELECT current_setting('server_version_num')::int/100 as version")[0][0]
        self.assertGreaterEqual(version, 1500)
        self.assertEqual(self.rows("SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'"), [])

    def test_the_list_of_tables(self):
        self.assertEqual(self.rows(TABLES_BEFORE_10), [("cpu",)])
        self.assertEqual(self.rows(TABLES), [("cpu",), ('other."Big"',)])

    def test_the_list_of_columns(self):
        expected = [("host", "text"), ('"time"', "timestamp with time zone"), ("usage", "double precision")]
        self.assertEqual(self.rows(columns("cpu")), expected)
        self.assertEqual(self.rows(columns("public.cpu")), expected)
        self.assertEqual(self.rows(columns("nothing")), [])

    def test_macros(self):
        within = "time BETWEEN '2024-01-01T00:02:00Z' AND '2024-01-01T00:05:59.999Z'"
        bucket = "floor(extract(epoch from time)/120)*120"
        found = self.rows(f'SELECT {bucket} AS "time", avg(usage) AS "usage" FROM cpu WHERE {within} GROUP BY {bucket} ORDER BY 1')
        self.assertEqual([(int(time), usage) for time, usage in found], [(1704067320, 2.5), (1704067440, 4.5)])
        found = self.rows(f"SELECT time_bucket('120.000s', time) AS time, max(usage) FROM cpu WHERE {within} GROUP BY 1 ORDER BY 1")
        self.assertEqual([usage for _, usage in found], [3.0, 5.0])
