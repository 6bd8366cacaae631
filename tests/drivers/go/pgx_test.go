// What programs do through pgx; what is expected here PostgreSQL 15 answers, too. KEYSPAN_PORT says where the server is.
package drivers

import (
	"context"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

var noon = time.Date(2024, 2, 29, 12, 0, 0, 123456000, time.UTC)

type fixture struct {
	*testing.T
	ctx  context.Context
	pool *pgxpool.Pool
}

// start connects, with the table `items` made anew.
func start(t *testing.T) fixture {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://me@127.0.0.1:"+os.Getenv("KEYSPAN_PORT")+"/db")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	f := fixture{t, ctx, pool}
	f.exec("DROP TABLE IF EXISTS items")
	f.exec(`CREATE TABLE items (k int PRIMARY KEY, v text, n numeric(10,2), ts timestamptz, d date, f double precision, b bytea,
		u uuid, l bigint, s smallint, bo boolean, j jsonb, i interval, r real, ti time, lo timestamp without time zone)`)
	return f
}

func (f fixture) exec(sql string, args ...any) {
	f.Helper()
	if _, err := f.pool.Exec(f.ctx, sql, args...); err != nil {
		f.Fatalf("%s: %v", sql, err)
	}
}

func (f fixture) done(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f fixture) same(expected, found any) {
	f.Helper()
	if !reflect.DeepEqual(expected, found) {
		f.Fatalf("expected %v, found %v", expected, found)
	}
}

func (f fixture) number(sql string, args ...any) (n int64) {
	f.Helper()
	f.done(f.pool.QueryRow(f.ctx, sql, args...).Scan(&n))
	return n
}

// state is the SQLSTATE of an error.
func state(err error) string {
	var failed *pgconn.PgError
	if errors.As(err, &failed) {
		return failed.Code
	}
	return ""
}

func TestCopyFrom(t *testing.T) {
	f := start(t)
	columns := []string{"k", "v"}
	copied, err := f.pool.CopyFrom(f.ctx, pgx.Identifier{"items"}, columns, pgx.CopyFromRows([][]any{{int32(1), "a"}, {int32(2), nil}}))
	f.done(err)
	f.same(int64(2), copied)
	copied, err = f.pool.CopyFrom(f.ctx, pgx.Identifier{"public", "items"}, columns, pgx.CopyFromRows(nil))
	f.done(err)
	f.same(int64(0), copied)
	many := pgx.CopyFromSlice(100000, func(at int) ([]any, error) { return []any{int32(1000 + at), "row"}, nil })
	copied, err = f.pool.CopyFrom(f.ctx, pgx.Identifier{"items"}, columns, many)
	f.done(err)
	f.same(int64(100000), copied)
	f.same(int64(100002), f.number("SELECT count(*) FROM items"))
}

func TestCopyFromThatFailsLeavesNothing(t *testing.T) {
	f := start(t)
	failing := pgx.CopyFromSlice(10, func(at int) ([]any, error) {
		if at == 5 {
			return nil, errors.New("no sixth row")
		}
		return []any{int32(at), "row"}, nil
	})
	_, err := f.pool.CopyFrom(f.ctx, pgx.Identifier{"items"}, []string{"k", "v"}, failing)
	f.same("57014", state(err))
	f.same(int64(0), f.number("SELECT count(*) FROM items"))
}

func row(k int32) []any {
	return []any{k, "x é", "12.50", noon, noon.Truncate(24 * time.Hour), 1.5, []byte{1, 2}, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
		int64(1) << 40, int16(3), true, map[string]any{"a": 1.0}, time.Hour, float32(2.5), "01:02:03", noon}
}

func TestEveryTypeInEveryMode(t *testing.T) {
	f := start(t)
	f.exec("INSERT INTO items VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16)", row(1)...)
	modes := []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
	for _, mode := range modes {
		var (
			k     int
			v, n  string
			ts    time.Time
			d, lo time.Time
			fl    float64
			b     []byte
			u     [16]byte
			l     int64
			j     map[string]any
			i     time.Duration
		)
		sql := "SELECT k, v, n::text, ts, d, lo, f, b, u, l, j, i FROM items WHERE k = $1 AND ts = $2 AND v = $3"
		f.done(f.pool.QueryRow(f.ctx, sql, mode, 1, noon, "x é").Scan(&k, &v, &n, &ts, &d, &lo, &fl, &b, &u, &l, &j, &i))
		f.same([]any{1, "x é", "12.50", noon, noon.Truncate(24 * time.Hour), noon, 1.5, []byte{1, 2}, byte(0xa0), int64(1) << 40,
			map[string]any{"a": 1.0}, time.Hour}, []any{k, v, n, ts.UTC(), d, lo, fl, b, u[0], l, j, i})
	}
	// numeric and time have no plain Go type, so that binary COPY wants pgtype's.
	all := row(2)
	all[2], all[14] = nil, nil
	columns := strings.Split("k v n ts d f b u l s bo j i r ti lo", " ")
	_, err := f.pool.CopyFrom(f.ctx, pgx.Identifier{"items"}, columns, pgx.CopyFromRows([][]any{all}))
	f.done(err)
	f.same(int64(2), f.number("SELECT count(*) FROM items WHERE ts = $1 AND u = $2", noon, row(1)[7]))
}

func TestRowsAsStructsAndLists(t *testing.T) {
	f := start(t)
	f.exec("INSERT INTO items (k, v) VALUES (1, 'a'), (2, NULL), (3, 'c')")
	type item struct {
		K int32
		V *string
	}
	rows, err := f.pool.Query(f.ctx, "SELECT k, v FROM items WHERE k = ANY($1) ORDER BY k", []int32{1, 2})
	f.done(err)
	items, err := pgx.CollectRows(rows, pgx.RowToStructByName[item])
	f.done(err)
	f.same("a", *items[0].V)
	f.same((*string)(nil), items[1].V)
	f.same(int64(3), f.number("SELECT k FROM items WHERE v = @v", pgx.NamedArgs{"v": "c"}))
	var k int
	f.same(pgx.ErrNoRows, f.pool.QueryRow(f.ctx, "SELECT k FROM items WHERE k = -1").Scan(&k))
}

func TestBatch(t *testing.T) {
	f := start(t)
	batch := &pgx.Batch{}
	for k := 0; k < 100; k++ {
		batch.Queue("INSERT INTO items (k, v) VALUES ($1, $2)", k, "b")
	}
	counted := int64(0)
	batch.Queue("SELECT count(*) FROM items").QueryRow(func(row pgx.Row) error { return row.Scan(&counted) })
	f.done(f.pool.SendBatch(f.ctx, batch).Close())
	f.same(int64(100), counted)
	failing := &pgx.Batch{}
	failing.Queue("INSERT INTO items (k) VALUES (700)")
	failing.Queue("SELECT 1/0")
	f.same("22012", state(f.pool.SendBatch(f.ctx, failing).Close()))
	f.same(int64(0), f.number("SELECT count(*) FROM items WHERE k = 700"))
}

func TestTransactions(t *testing.T) {
	f := start(t)
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead}
	f.done(pgx.BeginTxFunc(f.ctx, f.pool, options, func(tx pgx.Tx) error {
		if _, err := tx.Exec(f.ctx, "INSERT INTO items (k) VALUES (1)"); err != nil {
			return err
		}
		nested, err := tx.Begin(f.ctx)
		if err != nil {
			return err
		}
		if _, err := nested.Exec(f.ctx, "INSERT INTO items (k) VALUES (2)"); err != nil {
			return err
		}
		return nested.Rollback(f.ctx)
	}))
	f.same(int64(1), f.number("SELECT count(*) FROM items"))
}

func TestAContextEndsAStatement(t *testing.T) {
	f := start(t)
	short, cancel := context.WithTimeout(f.ctx, 500*time.Millisecond)
	defer cancel()
	_, err := f.pool.Exec(short, "SELECT sum(x * y) FROM generate_series(1, 3000000) AS a(x), generate_series(1, 1000) AS b(y)")
	f.same(true, errors.Is(err, context.DeadlineExceeded))
	f.same(int64(1), f.number("SELECT 1"))
}
