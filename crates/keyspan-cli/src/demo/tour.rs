//! The tour: questions that show what the key is good for, each with its time.

use std::time::Instant;

use crate::client::{Client, Table};
use crate::failure::Result;
use crate::output::Printer;
use crate::progress::seconds;

/// A stop of the tour: what it shows, and the statement.
struct Stop {
    says: &'static str,
    statement: &'static str,
}

const STOPS: &[Stop] = &[
    Stop {
        says: "A span of keys: the partition (carrier, origin) lies together on disk, in time order. Only it is read.",
        statement: "SELECT sched_dep, flight, dest, dep_delay FROM flights
WHERE carrier = 'HA' AND origin = 'JFK' ORDER BY sched_dep LIMIT 5;",
    },
    Stop {
        says: "A time range within a partition is a shorter span: United from Newark on Independence Day.",
        statement: "SELECT count(*) AS flights, avg(dep_delay)::decimal(10,1) AS mean_delay, max(dep_delay) AS worst FROM flights
WHERE carrier = 'UA' AND origin = 'EWR' AND sched_dep >= '2013-07-04' AND sched_dep < '2013-07-05';",
    },
    Stop {
        says: "A whole key does not even need the query planner.",
        statement: "SELECT temp, humid, wind_speed, visib FROM weather
WHERE origin = 'JFK' AND time_hour = '2013-07-04 16:00:00';",
    },
    Stop {
        says: "Joins, which wide-column databases leave to you: the airlines that are late, and how many flights that is.",
        statement: "SELECT a.name, count(*) AS flights, avg(f.arr_delay)::decimal(10,1) AS mean_delay
FROM flights f JOIN airlines a ON a.carrier = f.carrier
GROUP BY a.name ORDER BY mean_delay DESC LIMIT 5;",
    },
    Stop {
        says: "Time buckets over all 336,776 flights, by New York's clocks: the summer is the bad season.",
        statement: "SELECT date_trunc('month', sched_dep AT TIME ZONE 'America/New_York')::date AS month, count(*) AS flights, avg(dep_delay)::decimal(10,1) AS mean_delay
FROM flights GROUP BY 1 ORDER BY 1;",
    },
    Stop {
        says: "Buckets of any width: the wind at LaGuardia while the storm of 7 March passed.",
        statement: "SELECT date_bin(INTERVAL '6 hours', time_hour, TIMESTAMP '2013-01-01') AS six_hours,
       max(wind_speed)::decimal(10,1) AS wind, max(wind_gust)::decimal(10,1) AS gust, min(pressure) AS pressure
FROM weather WHERE origin = 'LGA' AND time_hour >= '2013-03-07' AND time_hour < '2013-03-09'
GROUP BY 1 ORDER BY 1;",
    },
    Stop {
        says: "The latest row of each series: the key is in descending time order, so it is the first of each partition.",
        statement: "SELECT origin, time_hour, temp, humid FROM weather PER PARTITION LIMIT 1;",
    },
    Stop {
        says: "Window functions: each day's flights beside the mean of the week up to it.",
        statement: "SELECT day, flights, (avg(flights) OVER (ORDER BY day ROWS BETWEEN 6 PRECEDING AND CURRENT ROW))::decimal(10,1) AS week
FROM (SELECT sched_dep::date AS day, count(*) AS flights FROM flights WHERE carrier = 'B6' AND origin = 'JFK' GROUP BY 1) d
ORDER BY day DESC LIMIT 5;",
    },
    Stop {
        says: "Families: columns that are made by writing them. Each plane has what is known of it, and reading one column \
               reads no other.",
        statement: "CREATE TABLE IF NOT EXISTS fleet (tailnum text PRIMARY KEY, meta family<text, variant> (seats bigint), place family<text, text> GC max_versions = 3);
INSERT INTO fleet (tailnum, meta) SELECT tailnum, jsonb_strip_nulls(jsonb_build_object('maker', manufacturer, 'year', year, 'seats', seats))
FROM planes;
SELECT meta['maker']::text AS maker, count(*) AS planes, count(meta['year']) AS with_year, sum(meta['seats']) AS seats
FROM fleet GROUP BY 1 ORDER BY 2 DESC LIMIT 5;",
    },
    Stop {
        says: "Each write of a cell is a version; this family keeps the newest three.",
        statement: "UPDATE fleet SET place['airport'] = 'EWR' WHERE tailnum = 'N14228';
UPDATE fleet SET place['airport'] = 'IAH' WHERE tailnum = 'N14228';
UPDATE fleet SET place['airport'] = 'ORD' WHERE tailnum = 'N14228';
SELECT qualifier, written_at, value FROM cells('fleet', 'place') WHERE tailnum = 'N14228';",
    },
    Stop {
        says: "Counters: added to by many at once, none lost.",
        statement: "CREATE TABLE IF NOT EXISTS boarded (carrier text PRIMARY KEY, passengers counter);
UPDATE boarded SET passengers = passengers + 149 WHERE carrier = 'UA';
UPDATE boarded SET passengers = passengers + 55 WHERE carrier = 'UA';
SELECT b.passengers, a.name FROM boarded b JOIN airlines a USING (carrier);",
    },
    Stop {
        says: "EXPLAIN shows the spans that are read, and what was not.",
        statement: "EXPLAIN SELECT avg(dep_delay) FROM flights
WHERE carrier IN ('UA', 'AA') AND origin = 'EWR' AND sched_dep >= '2013-07-04' AND sched_dep < '2013-07-05';",
    },
];

/// One question in the words of three databases.
const LANGUAGES: &[(&str, &str)] = &[
    (
        "CQL, Cassandra's",
        "SELECT * FROM flights WHERE carrier = 'UA' AND origin = 'EWR' AND sched_dep = '2013-04-02 11:00:00+00'",
    ),
    (
        "SQL",
        "SELECT f.* FROM flights AS f WHERE (f.carrier, f.origin, f.sched_dep) = ('UA', 'EWR', TIMESTAMPTZ '2013-04-02 07:00:00-04')",
    ),
    ("HBase's shell", "scan 'flights', {ROWPREFIXFILTER => 'UA#EWR#2013-04-02 11:00:00+00#'}"),
];

/// Shows all stops.
pub(super) async fn run(client: &mut Client, mut printer: Printer) -> Result<()> {
    printer.tags = false;
    for (number, stop) in STOPS.iter().enumerate() {
        say!("\n{}. {}\n\n{}\n", number + 1, stop.says, indented(stop.statement));
        let started = Instant::now();
        client.run_interruptibly(stop.statement, &mut printer, &mut ()).await?;
        say!("   {}", seconds(started.elapsed()));
    }
    compare_languages(client, STOPS.len() + 1).await
}

async fn compare_languages(client: &mut Client, number: usize) -> Result<()> {
    say!("\n{number}. One question in three languages: United's departures from Newark at one time.\n");
    let mut plans = Vec::new();
    for (language, statement) in LANGUAGES {
        say!("{:>18}: {statement}", language);
        let started = Instant::now();
        let answer = client.rows(statement).await?;
        let took = seconds(started.elapsed());
        let plan = client.rows(&format!("EXPLAIN {statement}")).await?;
        say!("{:>18}  {} rows, {took}", "", answer.rows.len());
        plans.push(spans_of(plan));
    }
    let same = plans.windows(2).all(|pair| pair[0] == pair[1]);
    say!("\n{}", if same { "The three read the same spans:" } else { "What each of them reads:" });
    plans.dedup();
    plans.iter().for_each(|plan| say!("{}", indented(plan)));
    Ok(())
}

/// The lines of a plan that tell what is read.
fn spans_of(plan: Table) -> String {
    let lines: Vec<String> = plan.rows.into_iter().flatten().flatten().collect();
    let scan = lines.iter().flat_map(|lines| lines.lines()).filter(|line| line.contains("span"));
    scan.map(str::trim).collect::<Vec<_>>().join("\n")
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}
