//! Rows and queries in the shape of TSBS' "devops cpu-only": one row a host every ten seconds, ten tags, ten fields.
//!
//! Fields walk at random (a normal step, clamped to 0–100, printed truncated); rows arrive time-major, round-robin over
//! hosts. The same seed gives the same rows on every machine.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

/// The ten tags; the first is the host's name.
pub const TAGS: [&str; 10] = [
    "hostname",
    "region",
    "datacenter",
    "rack",
    "os",
    "arch",
    "team",
    "service",
    "service_version",
    "service_environment",
];

/// The ten fields.
pub const FIELDS: [&str; 10] = [
    "usage_user",
    "usage_system",
    "usage_idle",
    "usage_nice",
    "usage_iowait",
    "usage_irq",
    "usage_softirq",
    "usage_steal",
    "usage_guest",
    "usage_guest_nice",
];

/// First instant of the data: 2016-01-01 00:00:00 UTC, in microseconds.
pub const START: i64 = 1_451_606_400_000_000;

/// Microseconds between two rows of a host.
pub const STEP: i64 = 10_000_000;

const REGIONS: [&str; 9] = [
    "us-east-1",
    "us-west-1",
    "us-west-2",
    "eu-west-1",
    "eu-central-1",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-northeast-1",
    "sa-east-1",
];

/// How much data to make.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Hosts, each a series.
    pub hosts: usize,
    /// Hours of data.
    pub hours: usize,
    /// Seed of every random number.
    pub seed: u64,
}

impl Shape {
    /// Rows in all.
    pub fn rows(&self) -> usize {
        self.hosts * self.hours * 360
    }

    /// The first instant after the data, in microseconds.
    pub fn end(&self) -> i64 {
        START + self.hours as i64 * 3_600_000_000
    }
}

/// Numbers that look random, the same for one seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence of its own for each seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..below`.
    pub fn below(&mut self, below: usize) -> usize {
        (self.bits() % below as u64) as usize
    }

    /// A number in `0..1`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number of the standard normal distribution (Box–Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * self.unit()).cos()
    }
}

/// The schema of the rows: tags, then the time, then the fields.
pub fn schema() -> SchemaRef {
    let mut columns = vec![Field::new("hostname", DataType::Utf8View, false)];
    columns.push(Field::new("ts", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), false));
    columns.extend(TAGS[1..].iter().map(|name| Field::new(*name, DataType::Utf8View, true)));
    columns.extend(FIELDS.iter().map(|name| Field::new(*name, DataType::Float64, true)));
    Arc::new(Schema::new(columns))
}

/// The statement that makes the table in Keyspan.
pub fn create_table() -> String {
    let tags: String = TAGS[1..].iter().map(|name| format!("{name} text, ")).collect();
    let fields: String = FIELDS.iter().map(|name| format!("{name} double, ")).collect();
    format!("CREATE TABLE cpu (hostname text, ts timestamp, {tags}{fields}PRIMARY KEY (hostname, ts))")
}

/// The rows as batches in order of arrival.
pub struct Rows {
    shape: Shape,
    random: Random,
    tags: Vec<[String; 10]>,
    fields: Vec<[f64; 10]>,
    row: usize,
    batch: usize,
    late: bool,
}

impl Rows {
    /// All rows of a shape in batches of `batch` rows.
    pub fn new(shape: Shape, batch: usize) -> Rows {
        let mut random = Random::new(shape.seed);
        let tags = (0..shape.hosts).map(|host| tags(host, &mut random)).collect();
        let fields = (0..shape.hosts).map(|_| std::array::from_fn(|_| random.unit() * 100.0)).collect();
        Rows { shape, random, tags, fields, row: 0, batch, late: false }
    }

    /// What arrives after the rows of a shape, for a month. One row of a hundred is late, by up to an hour.
    pub fn arriving(shape: Shape, batch: usize) -> Rows {
        let longer = Shape { hours: shape.hours + 24 * 30, ..shape };
        Rows { row: shape.rows(), late: true, ..Rows::new(longer, batch) }
    }

    fn step(&mut self, host: usize) {
        for field in &mut self.fields[host] {
            *field = (*field + self.random.normal()).clamp(0.0, 100.0);
        }
    }
}

fn tags(host: usize, random: &mut Random) -> [String; 10] {
    let region = REGIONS[random.below(REGIONS.len())];
    [
        format!("host_{host}"),
        region.to_string(),
        format!("{region}{}", ["a", "b", "c"][random.below(3)]),
        random.below(100).to_string(),
        ["Ubuntu16.10", "Ubuntu16.04LTS", "Ubuntu15.10"][random.below(3)].to_string(),
        ["x64", "x86"][random.below(2)].to_string(),
        ["SF", "NYC", "LON", "CHI"][random.below(4)].to_string(),
        random.below(20).to_string(),
        random.below(2).to_string(),
        ["production", "staging", "test"][random.below(3)].to_string(),
    ]
}

impl Iterator for Rows {
    type Item = RecordBatch;

    fn next(&mut self) -> Option<RecordBatch> {
        let rows = self.batch.min(self.shape.rows() - self.row);
        if rows == 0 {
            return None;
        }
        let mut hosts = Vec::with_capacity(rows);
        let mut times = Vec::with_capacity(rows);
        let mut fields: [Vec<f64>; 10] = std::array::from_fn(|_| Vec::with_capacity(rows));
        for row in self.row..self.row + rows {
            let host = row % self.shape.hosts;
            hosts.push(host);
            let late = self.late && self.random.below(100) == 0;
            // Half a step beside the others, so that it is a row of its own.
            let behind = if late { self.random.below(360) as i64 * STEP + STEP / 2 } else { 0 };
            times.push(START + (row / self.shape.hosts) as i64 * STEP - behind);
            self.step(host);
            for (column, value) in fields.iter_mut().zip(self.fields[host]) {
                column.push(value.trunc());
            }
        }
        self.row += rows;
        let tag = |n: usize| -> ArrayRef {
            Arc::new(hosts.iter().map(|host| Some(self.tags[*host][n].as_str())).collect::<StringViewArray>())
        };
        let mut columns =
            vec![tag(0), Arc::new(TimestampMicrosecondArray::from(times).with_timezone("UTC")) as ArrayRef];
        columns.extend((1..10).map(tag));
        columns.extend(fields.into_iter().map(|values| Arc::new(Float64Array::from(values)) as ArrayRef));
        Some(RecordBatch::try_new(schema(), columns).expect("columns were built for this schema"))
    }
}

/// One of the fifteen queries, by name.
pub struct Query {
    /// TSBS' name.
    pub name: &'static str,
    /// SQL that Keyspan and DuckDB both read, over the table `cpu`.
    pub sql: String,
}

/// The fifteen queries over windows drawn from the seed.
pub fn queries(shape: Shape) -> Vec<Query> {
    let mut random = Random::new(shape.seed ^ 0xC0FFEE);
    let mut queries = Vec::new();
    for (name, fields, hosts, hours) in [
        ("single-groupby-1-1-1", 1, 1, 1),
        ("single-groupby-1-1-12", 1, 1, 12),
        ("single-groupby-1-8-1", 1, 8, 1),
        ("single-groupby-5-1-1", 5, 1, 1),
        ("single-groupby-5-1-12", 5, 1, 12),
        ("single-groupby-5-8-1", 5, 8, 1),
    ] {
        let list = aggregates("max", fields);
        let filter = format!("{} AND {}", host_filter(shape, hosts, &mut random), window(shape, hours, &mut random));
        let sql =
            format!("SELECT date_trunc('minute', ts) AS minute, {list} FROM cpu WHERE {filter} GROUP BY 1 ORDER BY 1");
        queries.push(Query { name, sql });
    }
    for (name, hosts) in [("cpu-max-all-1", 1), ("cpu-max-all-8", 8)] {
        let list = aggregates("max", 10);
        let filter = format!("{} AND {}", host_filter(shape, hosts, &mut random), window(shape, 8, &mut random));
        let sql =
            format!("SELECT date_trunc('hour', ts) AS hour, {list} FROM cpu WHERE {filter} GROUP BY 1 ORDER BY 1");
        queries.push(Query { name, sql });
    }
    for (name, fields) in [("double-groupby-1", 1), ("double-groupby-5", 5), ("double-groupby-all", 10)] {
        let (list, filter) = (aggregates("avg", fields), window(shape, 12, &mut random));
        let sql = format!(
            "SELECT date_trunc('hour', ts) AS hour, hostname, {list} FROM cpu WHERE {filter} GROUP BY 1, 2 ORDER BY 1, 2"
        );
        queries.push(Query { name, sql });
    }
    let one = format!("{} AND {}", host_filter(shape, 1, &mut random), window(shape, 12, &mut random));
    queries.push(Query { name: "high-cpu-1", sql: format!("SELECT * FROM cpu WHERE usage_user > 90 AND {one}") });
    let all = window(shape, 12, &mut random);
    queries.push(Query { name: "high-cpu-all", sql: format!("SELECT * FROM cpu WHERE usage_user > 90 AND {all}") });
    let last = "SELECT DISTINCT ON (hostname) * FROM cpu ORDER BY hostname, ts DESC".to_string();
    queries.push(Query { name: "lastpoint", sql: last });
    let before = START + random.below(shape.hours * 3600) as i64 * 1_000_000;
    queries.push(Query {
        name: "groupby-orderby-limit",
        sql: format!(
            "SELECT date_trunc('minute', ts) AS minute, max(usage_user) FROM cpu WHERE ts < {} GROUP BY 1 ORDER BY 1 DESC LIMIT 5",
            instant(before)
        ),
    });
    queries
}

fn aggregates(function: &str, fields: usize) -> String {
    FIELDS[..fields]
        .iter()
        .map(|name| format!("{function}({name}) AS {function}_{name}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn host_filter(shape: Shape, hosts: usize, random: &mut Random) -> String {
    let names: Vec<String> = (0..hosts).map(|_| format!("'host_{}'", random.below(shape.hosts))).collect();
    if hosts == 1 { format!("hostname = {}", names[0]) } else { format!("hostname IN ({})", names.join(", ")) }
}

/// A window of so many hours (the whole data, if that is less) at a random second.
fn window(shape: Shape, hours: usize, random: &mut Random) -> String {
    let slack = (shape.hours.saturating_sub(hours) * 3600).max(1);
    let from = START + random.below(slack) as i64 * 1_000_000;
    format!("ts >= {} AND ts < {}", instant(from), instant(from + hours as i64 * 3_600_000_000))
}

/// An instant as both engines read it.
pub fn instant(micros: i64) -> String {
    let seconds = (micros - START) / 1_000_000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("'2016-01-{:02} {hour:02}:{minute:02}:{second:02}+00'::timestamptz", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_rows() {
        let shape = Shape { hosts: 3, hours: 1, seed: 7 };
        let one: Vec<RecordBatch> = Rows::new(shape, 500).collect();
        assert_eq!(one, Rows::new(shape, 500).collect::<Vec<_>>());
        assert_eq!(one.iter().map(RecordBatch::num_rows).sum::<usize>(), shape.rows());
        assert_eq!(queries(shape).len(), 15);
    }
}
