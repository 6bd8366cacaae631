-- The first rows by a column that is no key.
SET TIME ZONE 'UTC';
CREATE TABLE m (host text, ts timestamptz, v double precision, n int, at date, PRIMARY KEY (host, ts));
INSERT INTO m SELECT 'h' || (n % 5), '2024-01-01 00:00+00'::timestamptz + n * INTERVAL '1 minute', CASE WHEN n % 11 <> 0 THEN (n * 37) % 101 END, n % 13, '2024-01-01'::date + n % 17 FROM generate_series(0, 9999) AS g(n);
SELECT * FROM (SELECT host, ts, v FROM m) AS q WHERE v IS NOT NULL ORDER BY v DESC, host, ts LIMIT 4;
SELECT host, ts, v FROM m ORDER BY v DESC, host, ts LIMIT 3;
SELECT host, ts, v FROM m ORDER BY v DESC NULLS LAST, ts DESC LIMIT 3 OFFSET 2;
SELECT v, ts FROM m WHERE host = 'h3' AND n > 4 ORDER BY v, ts LIMIT 4;
SELECT v, ts FROM m ORDER BY v NULLS FIRST, ts DESC LIMIT 2;
SELECT at, n, ts FROM m WHERE v > 50 ORDER BY at DESC, n, ts LIMIT 3;
SELECT n + 1 AS more, ts FROM m ORDER BY n DESC, ts LIMIT 2;
SELECT count(*) FROM (SELECT v FROM m ORDER BY v LIMIT 5000) AS q;
SELECT count(*) FROM (SELECT v FROM m WHERE n < 3 ORDER BY v LIMIT 3000) AS q;
DELETE FROM m WHERE host = 'h1' AND v = 100;
UPDATE m SET v = 1000 WHERE host = 'h2' AND ts = '2024-01-01 00:02:00+00';
SELECT host, ts, v FROM m ORDER BY v DESC NULLS LAST, host, ts LIMIT 3;
DROP TABLE m;
