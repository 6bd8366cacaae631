import java.math.BigDecimal;
import java.sql.Array;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.StringJoiner;
import java.util.UUID;

/** What programs do through pgjdbc: {@code java Jdbc.java PORT}. What is expected here PostgreSQL 15 answers, too. */
public class Jdbc {
    static final OffsetDateTime NOON = OffsetDateTime.of(2024, 2, 29, 12, 0, 0, 123456000, ZoneOffset.UTC);
    static final UUID KEY = UUID.fromString("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11");

    interface Check {
        void run(Connection connection) throws Exception;
    }

    interface Call {
        ResultSet run() throws SQLException;
    }

    static String address;
    static int failed = 0;

    public static void main(String[] arguments) throws Exception {
        address = "jdbc:postgresql://127.0.0.1:" + arguments[0] + "/db?user=me";
        try (Connection connection = DriverManager.getConnection(address); Statement statement = connection.createStatement()) {
            statement.execute("DROP VIEW IF EXISTS newest");
            statement.execute("DROP TABLE IF EXISTS readings, kinds, many");
            statement.execute("CREATE TABLE readings (site text, ts timestamptz, v double precision, PRIMARY KEY (site, ts))");
            statement.execute("CREATE TABLE kinds (k int PRIMARY KEY, b boolean, s smallint, l bigint, r real, d double precision, "
                + "n numeric(10,3), t text, x bytea, u uuid, da date, ti time, ts timestamptz, lo timestamp without time zone, j jsonb)");
            statement.execute("CREATE TABLE many (k int PRIMARY KEY, v text)");
            statement.execute("CREATE VIEW newest AS SELECT site, max(ts) AS ts FROM readings GROUP BY site");
        }
        check("objects of java.time and others go in and come out", Jdbc::objects);
        check("the same with binary transfer from the first execution", "&prepareThreshold=-1", Jdbc::objects);
        check("the same in the simple protocol", "&preferQueryMode=simple", Jdbc::objects);
        check("a batch", Jdbc::batch);
        check("a batch whose INSERTs become one", "&reWriteBatchedInserts=true", Jdbc::batch);
        check("a failed batch leaves nothing", Jdbc::failedBatch);
        check("rows come a few at a time", Jdbc::cursor);
        check("arrays", Jdbc::arrays);
        check("generated keys", Jdbc::generatedKeys);
        check("savepoints and isolation", Jdbc::savepoints);
        check("what a statement says of itself", Jdbc::statementMetadata);
        check("rows that are shown can be changed", Jdbc::updatable);
        check("schemas, tables and columns", Jdbc::tables);
        check("keys and indexes", Jdbc::keys);
        check("types, functions and privileges", Jdbc::others);
        check("errors have a state and a place", Jdbc::errors);
        check("a statement ends at its timeout", Jdbc::timeout);
        check("COPY", Jdbc::copy);
        System.exit(failed == 0 ? 0 : 1);
    }

    static void check(String name, Check check) throws Exception {
        check(name, "", check);
    }

    static void check(String name, String options, Check check) throws Exception {
        try (Connection connection = DriverManager.getConnection(address + options)) {
            check.run(connection);
            System.out.println("ok " + name);
        } catch (Exception | AssertionError error) {
            failed++;
            System.out.println("FAILED " + name);
            error.printStackTrace(System.out);
        }
    }

    static void same(Object expected, Object found) {
        if (!Objects.equals(expected, found)) {
            throw new AssertionError("expected " + expected + "\n   found " + found);
        }
    }

    /** The rows as `a|b`, of these columns or of all. */
    static List<String> rows(ResultSet found, String... columns) throws SQLException {
        List<String> rows = new ArrayList<>();
        while (found.next()) {
            StringJoiner row = new StringJoiner("|");
            for (int place = 1; columns.length == 0 && place <= found.getMetaData().getColumnCount(); place++) {
                row.add(found.getString(place));
            }
            for (String column : columns) {
                row.add(found.getString(column));
            }
            rows.add(row.toString());
        }
        found.close();
        return rows;
    }

    static List<String> query(Connection connection, String sql) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            return rows(statement.executeQuery(sql));
        }
    }

    static void objects(Connection connection) throws Exception {
        Object[] values = {1, true, (short) 5, 1L << 40, 1.5f, 2.5, new BigDecimal("12.346"), "text é", new byte[] {1, -1}, KEY,
            LocalDate.of(2024, 2, 29), LocalTime.of(10, 30, 1), NOON, LocalDateTime.of(2024, 2, 29, 12, 0, 0, 5000)};
        query(connection, "DELETE FROM kinds RETURNING k");
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO kinds VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?::jsonb)")) {
            for (int place = 0; place < values.length; place++) {
                insert.setObject(place + 1, values[place]);
            }
            insert.setString(15, "{\"a\": 1}");
            same(1, insert.executeUpdate());
            insert.setInt(1, 2);
            for (int place = 2; place <= 15; place++) {
                insert.setObject(place, null);
            }
            same(1, insert.executeUpdate());
        }
        try (PreparedStatement select = connection.prepareStatement("SELECT * FROM kinds WHERE k = ?")) {
            for (int times = 0; times < 8; times++) {
                select.setInt(1, 1);
                try (ResultSet found = select.executeQuery()) {
                    same(true, found.next());
                    for (int place = 0; place < values.length; place++) {
                        if (values[place] instanceof byte[] bytes) {
                            same(bytes.length, found.getBytes(place + 1).length);
                        } else if (values[place] instanceof Short number) {
                            same(number, found.getShort(place + 1));
                        } else {
                            same(values[place], found.getObject(place + 1, values[place].getClass()));
                        }
                    }
                    same(NOON.toInstant(), found.getTimestamp("ts").toInstant());
                    same(true, found.getString("j").contains("\"a\""));
                    same(false, found.next());
                }
            }
            select.setInt(1, 2);
            try (ResultSet found = select.executeQuery()) {
                same(true, found.next() && found.getObject(7) == null && found.getDouble(6) == 0 && found.wasNull());
            }
        }
        for (Object value : new Object[] {NOON, java.sql.Timestamp.from(NOON.toInstant())}) {
            try (PreparedStatement select = connection.prepareStatement("SELECT k FROM kinds WHERE ts = ? AND n < ? AND da = ?")) {
                select.setObject(1, value);
                select.setBigDecimal(2, new BigDecimal("12.5"));
                select.setObject(3, java.sql.Date.valueOf("2024-02-29"));
                same(List.of("1"), rows(select.executeQuery()));
            }
        }
    }

    static void batch(Connection connection) throws Exception {
        connection.setAutoCommit(false);
        query(connection, "DELETE FROM many RETURNING k");
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO many (k, v) VALUES (?, ?)")) {
            for (int k = 0; k < 1000; k++) {
                insert.setInt(1, k);
                insert.setString(2, "v" + k);
                insert.addBatch();
            }
            same(1000, insert.executeBatch().length);
        }
        connection.commit();
        same(List.of("1000|999"), query(connection, "SELECT count(*), max(k) FROM many"));
        connection.commit();
    }

    static void failedBatch(Connection connection) throws Exception {
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            statement.addBatch("INSERT INTO many VALUES (-1, 'a')");
            statement.addBatch("INSERT INTO many VALUES (-2, 1/0)");
            statement.executeBatch();
            throw new AssertionError("a batch with a bad statement went through");
        } catch (java.sql.BatchUpdateException error) {
            connection.rollback();
        }
        same(List.of("0"), query(connection, "SELECT count(*) FROM many WHERE k < 0"));
    }

    static void cursor(Connection connection) throws Exception {
        connection.setAutoCommit(false);
        try (PreparedStatement select = connection.prepareStatement("SELECT k FROM many WHERE k >= ? ORDER BY k")) {
            select.setFetchSize(100);
            select.setInt(1, 10);
            int expected = 10;
            try (ResultSet found = select.executeQuery()) {
                while (found.next()) {
                    same(expected++, found.getInt(1));
                }
            }
            same(1000, expected);
        }
        connection.commit();
    }

    static void arrays(Connection connection) throws Exception {
        try (PreparedStatement select = connection.prepareStatement("SELECT k FROM many WHERE k = ANY(?) ORDER BY k")) {
            select.setArray(1, connection.createArrayOf("int4", new Integer[] {3, 1}));
            same(List.of("1", "3"), rows(select.executeQuery()));
        }
        try (Statement statement = connection.createStatement();
            ResultSet found = statement.executeQuery("SELECT array_agg(v ORDER BY k) FROM many WHERE k < 2")) {
            found.next();
            Array array = found.getArray(1);
            same(List.of("v0", "v1"), List.of((Object[]) array.getArray()));
        }
    }

    static void generatedKeys(Connection connection) throws Exception {
        String sql = "INSERT INTO many (k, v) VALUES (?, 'new')";
        try (PreparedStatement insert = connection.prepareStatement(sql, Statement.RETURN_GENERATED_KEYS)) {
            insert.setInt(1, 5000);
            same(1, insert.executeUpdate());
            same(List.of("5000|new"), rows(insert.getGeneratedKeys()));
        }
        try (PreparedStatement insert = connection.prepareStatement(sql, new String[] {"k"})) {
            insert.setInt(1, 5001);
            insert.executeUpdate();
            same(List.of("5001"), rows(insert.getGeneratedKeys()));
        }
    }

    static void savepoints(Connection connection) throws Exception {
        connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
        connection.setAutoCommit(false);
        query(connection, "INSERT INTO many VALUES (6000, 'a') RETURNING k");
        java.sql.Savepoint savepoint = connection.setSavepoint("here");
        query(connection, "INSERT INTO many VALUES (6001, 'b') RETURNING k");
        connection.rollback(savepoint);
        connection.commit();
        same(List.of("6000"), query(connection, "SELECT k FROM many WHERE k >= 6000"));
        connection.commit();
        connection.setReadOnly(true);
        same(List.of("1"), query(connection, "SELECT 1"));
        connection.commit();
        same(Connection.TRANSACTION_REPEATABLE_READ, connection.getTransactionIsolation());
        same("public", connection.getSchema());
        same("db", connection.getCatalog());
    }

    static void statementMetadata(Connection connection) throws Exception {
        try (PreparedStatement select = connection.prepareStatement("SELECT k, n, ts AS at, k + 1 AS next FROM kinds WHERE t = ? AND k > ?")) {
            ResultSetMetaData columns = select.getMetaData();
            StringJoiner seen = new StringJoiner(" ");
            for (int place = 1; place <= columns.getColumnCount(); place++) {
                seen.add(columns.getColumnLabel(place) + ":" + columns.getColumnTypeName(place));
            }
            same("k:int4 n:numeric at:timestamptz next:int4", seen.toString());
            same("10,3", columns.getPrecision(2) + "," + columns.getScale(2));
            same("text int4", select.getParameterMetaData().getParameterTypeName(1) + " "
                + select.getParameterMetaData().getParameterTypeName(2));
        }
    }

    static void updatable(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE)) {
            statement.execute("DELETE FROM many WHERE k < 10");
            statement.execute("INSERT INTO many VALUES (1, 'one'), (2, 'two'), (3, 'three')");
            try (ResultSet found = statement.executeQuery("SELECT v AS text, m.k, k + 1 AS next FROM many m WHERE k < 10 ORDER BY k")) {
                ResultSetMetaData columns = found.getMetaData();
                org.postgresql.PGResultSetMetaData more = (org.postgresql.PGResultSetMetaData) columns;
                StringJoiner seen = new StringJoiner(" ");
                for (int place = 1; place <= 3; place++) {
                    seen.add(columns.getTableName(place) + "." + more.getBaseColumnName(place) + ":" + columns.isNullable(place));
                }
                same("many.v:1 many.k:0 .:2", seen.toString());
            }
            try (ResultSet found = statement.executeQuery("SELECT k, v FROM many WHERE k < 10 ORDER BY k")) {
                found.next();
                found.updateString("v", "first");
                found.updateRow();
                found.next();
                found.deleteRow();
                found.moveToInsertRow();
                found.updateInt("k", 4);
                found.updateString("v", "four");
                found.insertRow();
            }
            try (ResultSet found = statement.executeQuery("SELECT k, v FROM many WHERE k < 10 ORDER BY k")) {
                same(List.of("1|first", "3|three", "4|four"), rows(found));
            }
            statement.execute("DELETE FROM many WHERE k < 10");
        }
    }

    static void tables(Connection connection) throws Exception {
        DatabaseMetaData meta = connection.getMetaData();
        same("PostgreSQL", meta.getDatabaseProductName());
        same(true, rows(meta.getCatalogs()).contains("db"));
        same(List.of("information_schema|db", "pg_catalog|db", "public|db"), rows(meta.getSchemas()));
        same(List.of("public|db"), rows(meta.getSchemas(null, "pub%")));
        same(true, rows(meta.getTableTypes()).contains("TABLE"));
        String[] kinds = {"TABLE", "VIEW"};
        same(List.of("kinds|TABLE", "many|TABLE", "readings|TABLE", "newest|VIEW"),
            rows(meta.getTables(null, "public", "%", kinds), "TABLE_NAME", "TABLE_TYPE"));
        same(List.of("pg_class|SYSTEM TABLE"),
            rows(meta.getTables(null, "pg_catalog", "pg_class", new String[] {"SYSTEM TABLE"}), "TABLE_NAME", "TABLE_TYPE"));
        String[] shown = {"COLUMN_NAME", "TYPE_NAME", "DATA_TYPE", "COLUMN_SIZE", "DECIMAL_DIGITS", "NULLABLE", "ORDINAL_POSITION"};
        same(List.of("site|text|12|2147483647|0|0|1", "ts|timestamptz|93|35|6|0|2", "v|float8|8|17|17|1|3"),
            rows(meta.getColumns(null, "public", "readings", "%"), shown));
        same(List.of("site|text", "ts|timestamptz"), rows(meta.getColumns(null, null, "newest", null), "COLUMN_NAME", "TYPE_NAME"));
        same("int4 bool int2 int8 float4 float8 numeric text bytea uuid date time timestamptz timestamp jsonb",
            String.join(" ", rows(meta.getColumns("db", "public", "kinds", "%"), "TYPE_NAME")));
    }

    static void keys(Connection connection) throws Exception {
        DatabaseMetaData meta = connection.getMetaData();
        String[] shown = {"TABLE_SCHEM", "TABLE_NAME", "COLUMN_NAME", "KEY_SEQ", "PK_NAME"};
        List<String> key = List.of("public|readings|site|1|readings_pkey", "public|readings|ts|2|readings_pkey");
        same(key, rows(meta.getPrimaryKeys(null, "public", "readings"), shown));
        same(key, rows(meta.getPrimaryKeys(null, null, "readings"), shown));
        String[] index = {"INDEX_NAME", "NON_UNIQUE", "TYPE", "ORDINAL_POSITION", "COLUMN_NAME", "ASC_OR_DESC"};
        same(List.of("readings_pkey|f|3|1|site|A", "readings_pkey|f|3|2|ts|A"),
            rows(meta.getIndexInfo(null, "public", "readings", false, false), index));
        same(List.of("site|text", "ts|timestamptz"),
            rows(meta.getBestRowIdentifier(null, "public", "readings", DatabaseMetaData.bestRowTemporary, true), "COLUMN_NAME", "TYPE_NAME"));
        same(List.of(), rows(meta.getImportedKeys(null, "public", "readings")));
        same(List.of(), rows(meta.getExportedKeys(null, "public", "readings")));
        same(List.of(), rows(meta.getCrossReference(null, "public", "readings", null, "public", "kinds")));
    }

    static void others(Connection connection) throws Exception {
        DatabaseMetaData meta = connection.getMetaData();
        List<String> types = rows(meta.getTypeInfo(), "TYPE_NAME", "DATA_TYPE");
        same(true, types.containsAll(List.of("int4|4", "text|12", "timestamptz|93", "numeric|2", "_int4|2003", "jsonb|1111")));
        same(List.of(), rows(meta.getFunctions(null, "public", "%")));
        same(List.of(), rows(meta.getFunctionColumns(null, "public", "%", "%")));
        same(List.of(), rows(meta.getProcedures(null, "public", "%")));
        same(List.of(), rows(meta.getProcedureColumns(null, "public", "%", "%")));
        same(true, rows(meta.getTablePrivileges(null, "public", "readings"), "PRIVILEGE").contains("SELECT"));
        same(true, rows(meta.getColumnPrivileges(null, "public", "readings", "v"), "PRIVILEGE").contains("SELECT"));
        same(true, rows(meta.getVersionColumns(null, "public", "readings")).size() <= 1);
        same(true, meta.getSQLKeywords().contains("ilike"));
        same(Connection.TRANSACTION_READ_COMMITTED, meta.getDefaultTransactionIsolation());
        same(63, meta.getMaxColumnNameLength());
        for (Call call : new Call[] {() -> meta.getUDTs(null, "public", "%", null), meta::getClientInfoProperties}) {
            call.run().close();
        }
    }

    static void errors(Connection connection) throws Exception {
        try {
            query(connection, "SELECT nothing FROM many");
            throw new AssertionError("a column that is not there was read");
        } catch (org.postgresql.util.PSQLException error) {
            same("42703|8", error.getSQLState() + "|" + error.getServerErrorMessage().getPosition());
        }
        same(List.of("1"), query(connection, "SELECT 1"));
    }

    static void timeout(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            statement.executeQuery("SELECT sum(a % 7 * b + c) FROM generate_series(1, 5000) AS x(a), generate_series(1, 5000) AS y(b), "
                + "generate_series(1, 50) AS z(c)");
            throw new AssertionError("it was not cancelled");
        } catch (SQLException error) {
            same("57014", error.getSQLState());
        }
        same(true, connection.isValid(1));
    }

    static void copy(Connection connection) throws Exception {
        org.postgresql.copy.CopyManager copy = connection.unwrap(org.postgresql.PGConnection.class).getCopyAPI();
        same(2L, copy.copyIn("COPY many FROM STDIN WITH (FORMAT csv)", new java.io.StringReader("7000,a\n7001,b\n")));
        java.io.StringWriter out = new java.io.StringWriter();
        same(2L, copy.copyOut("COPY (SELECT * FROM many WHERE k >= 7000 ORDER BY k) TO STDOUT WITH (FORMAT csv)", out));
        same("7000,a\n7001,b\n", out.toString());
    }
}
