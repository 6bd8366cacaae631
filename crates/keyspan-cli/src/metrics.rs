//! `serve --metrics`: `GET /metrics` in Prometheus' text format, and `GET /health`.
//!
//! The rule: as much of HTTP as a scraper needs and no more. One request for each connection, of at most 8 KB, within
//! five seconds; at most 16 connections at a time. Nothing here waits for a statement, so that it also answers on a
//! busy server.

use std::fmt::{Display, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use keyspan::Database;
use keyspan::metrics::{LATENCY_BOUNDS, Metrics, StatementEnd, StatementKind};
use keyspan_pg::ServerWatch;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::failure::{Failure, Result};

const REQUEST_MAX: usize = 8 * 1024;
const REQUEST_TIME: Duration = Duration::from_secs(5);
const CONNECTIONS_MAX: usize = 16;

/// The second port of a server.
pub struct MetricsServer {
    listener: TcpListener,
    database: Database,
    server: ServerWatch,
}

impl MetricsServer {
    /// Listens.
    ///
    /// # Errors
    /// An address beyond loopback where there are no roles, as for clients; one that cannot be listened on.
    pub async fn bind(address: SocketAddr, database: Database, server: ServerWatch) -> Result<MetricsServer> {
        if !address.ip().is_loopback() && !database.catalog().rights.has_roles() {
            return Err(Failure::new(format!(
                "refusing to answer metrics on {address}: without roles only loopback is served"
            )));
        }
        let failed = |error: std::io::Error| Failure::new(format!("could not listen on {address}: {error}"));
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        tracing::info!("metrics on http://{}/metrics", listener.local_addr().map_err(failed)?);
        Ok(MetricsServer { listener, database, server })
    }

    /// Answers, for ever.
    pub async fn run(self) {
        let (server, places) = (Arc::new(self), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
        loop {
            let Ok((socket, _)) = server.listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let Ok(place) = places.clone().try_acquire_owned() else { continue };
            let server = server.clone();
            tokio::spawn(async move {
                // A client that is slow or gone gets nothing.
                let _ = tokio::time::timeout(REQUEST_TIME, server.answer(socket)).await;
                drop(place);
            });
        }
    }

    async fn answer(&self, mut socket: TcpStream) -> std::io::Result<()> {
        let mut request = Vec::new();
        while !request.windows(4).any(|end| end == b"\r\n\r\n") {
            if request.len() > REQUEST_MAX || socket.read_buf(&mut request).await? == 0 {
                return Ok(());
            }
        }
        let line = String::from_utf8_lossy(&request);
        let mut words = line.split_ascii_whitespace();
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (status, body) = match (method, path.split('?').next().unwrap_or_default()) {
            ("GET" | "HEAD", "/metrics") => ("200 OK", self.metrics()),
            ("GET" | "HEAD", "/health") => self.health(),
            ("GET" | "HEAD", _) => ("404 Not Found", "not found: there are /metrics and /health\n".into()),
            _ => ("405 Method Not Allowed", "only GET\n".into()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            body.len()
        );
        socket.write_all(head.as_bytes()).await?;
        if method != "HEAD" {
            socket.write_all(body.as_bytes()).await?;
        }
        socket.shutdown().await
    }

    fn health(&self) -> (&'static str, String) {
        match self.database.check_health() {
            Ok(()) => ("200 OK", "ok\n".into()),
            Err(error) => ("503 Service Unavailable", format!("{error}\n")),
        }
    }

    fn metrics(&self) -> String {
        let mut page = Page::default();
        self.connections(&mut page);
        statements(&mut page, &self.database.metrics());
        self.store(&mut page);
        page.text
    }

    fn connections(&self, page: &mut Page) {
        let now = self.server.connections();
        page.single("connections", "gauge", "Clients that are connected.", now.open);
        page.single("connections_max", "gauge", "Clients at a time at most.", now.max);
        page.single("connections_accepted_total", "counter", "Clients that were let in.", now.accepted);
        page.single("connections_refused_total", "counter", "Clients that were refused.", now.refused);
        page.single("received_bytes_total", "counter", "Bytes that clients sent.", now.received_bytes);
        page.single("sent_bytes_total", "counter", "Bytes sent to clients.", now.sent_bytes);
    }

    fn store(&self, page: &mut Page) {
        page.single(
            "healthy",
            "gauge",
            "1 unless the commit log has failed.",
            u8::from(self.database.check_health().is_ok()),
        );
        let counts = self.database.counters();
        page.single("retries_total", "counter", "Statements run again after another write.", counts.retries);
        page.single("planned_total", "counter", "Statements that were planned.", counts.planned_statements);
        if let Some(bytes) = resident_bytes() {
            page.single("resident_memory_bytes", "gauge", "Memory of the process.", bytes);
        }
        let Ok(stats) = self.database.stats() else { return };
        let (segments, runs, rows) = stats.relations.iter().fold((0, 0, 0), |(segments, runs, rows), relation| {
            (segments + relation.segments, runs + relation.memory_runs, rows + relation.segment_rows)
        });
        page.single("segments", "gauge", "Segments on disk.", segments);
        page.single("segment_bytes", "gauge", "Bytes of segments.", stats.segment_bytes);
        page.single("segment_rows", "gauge", "Rows in segments, overwritten ones too.", rows);
        page.single("memory_runs", "gauge", "Runs in memory.", runs);
        page.single("memtable_bytes", "gauge", "Bytes of rows that are not yet in segments.", stats.memory_bytes);
        page.single("log_bytes", "gauge", "Bytes of the commit log that are still needed.", stats.log_bytes);
        page.single("log_syncs_total", "counter", "Syncs of the commit log.", stats.log_syncs);
        page.single("flushes_total", "counter", "Memtables written as segments.", stats.flushes);
        page.single("compactions_total", "counter", "Merges of segments.", stats.compactions);
        page.single("batches_total", "counter", "The number of the last durable batch.", stats.durable_seq);
    }
}

fn statements(page: &mut Page, metrics: &Metrics) {
    page.head("statements_total", "counter", "Statements by what they are and how they ended.");
    for (kind, counted) in StatementKind::ALL.iter().zip(&metrics.statements) {
        for (end, count) in StatementEnd::ALL.iter().zip(counted.ends) {
            page.line("statements_total", &format!("kind=\"{}\",outcome=\"{}\"", kind.name(), end.name()), count);
        }
    }
    page.head("statement_seconds", "histogram", "Time from a statement's begin to its last row, planning included.");
    for (kind, counted) in StatementKind::ALL.iter().zip(&metrics.statements) {
        let mut below = 0;
        for (bound, count) in LATENCY_BOUNDS.iter().map(f64::to_string).chain(["+Inf".into()]).zip(counted.buckets) {
            below += count;
            page.line("statement_seconds_bucket", &format!("kind=\"{}\",le=\"{bound}\"", kind.name()), below);
        }
        let label = format!("kind=\"{}\"", kind.name());
        page.line("statement_seconds_sum", &label, counted.time.as_secs_f64());
        page.line("statement_seconds_count", &label, below);
    }
    page.single("rows_sent_total", "counter", "Rows answered.", metrics.rows_sent);
    page.single("rows_written_total", "counter", "Rows inserted, updated and deleted.", metrics.rows_written);
    page.single("rows_read_total", "counter", "Rows that statements read.", metrics.rows_read);
    page.single("read_bytes_total", "counter", "Bytes that statements read from files.", metrics.bytes_read);
    page.single("segments_read_total", "counter", "Segments that statements opened.", metrics.segments_read);
}

/// Lines of Prometheus' text format, all names beginning with `keyspan_`.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "# HELP keyspan_{name} {help}\n# TYPE keyspan_{name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = match labels {
            "" => writeln!(self.text, "keyspan_{name} {value}"),
            _ => writeln!(self.text, "keyspan_{name}{{{labels}}} {value}"),
        };
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.head(name, kind, help);
        self.line(name, "", value);
    }
}

/// The memory of this process, where the system tells it.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
