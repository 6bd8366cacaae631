//! What a server's connections have carried, for who watches it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of all connections together.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    received: AtomicU64,
    sent: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
}

/// A server's connections at one moment, and what they have carried since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionMetrics {
    /// Clients that are connected.
    pub open: usize,
    /// Clients at a time at most.
    pub max: usize,
    /// Clients that were let in.
    pub accepted: u64,
    /// Clients that were not: too many, a wrong password, no such role.
    pub refused: u64,
    /// Bytes that clients sent, without those of TLS.
    pub received_bytes: u64,
    /// Bytes that were sent to clients, without those of TLS.
    pub sent_bytes: u64,
}

impl Traffic {
    /// Bytes have come.
    pub(crate) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes have gone.
    pub(crate) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A client was let in.
    pub(crate) fn accepted(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    /// A client was refused.
    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// What they say now, where so many clients are connected.
    pub(crate) fn read(&self, open: usize, max: usize) -> ConnectionMetrics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ConnectionMetrics {
            open,
            max,
            accepted: get(&self.accepted),
            refused: get(&self.refused),
            received_bytes: get(&self.received),
            sent_bytes: get(&self.sent),
        }
    }
}
