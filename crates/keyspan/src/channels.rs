//! LISTEN and NOTIFY: messages from one session to others of the same database.
//!
//! ```text
//! NOTIFY ─▶ the transaction's messages ──COMMIT──▶ inbox of each listener ─▶ its client, when it is idle
//! ```
//!
//! The rule: what a transaction says is heard when it has committed, in its order, once where it said the same twice.
//! An inbox is in memory: what was not fetched when the server ends is lost, as in PostgreSQL. While one is full,
//! NOTIFY fails.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use keyspan_model::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Longest name of a channel, as in PostgreSQL.
const CHANNEL_MAX: usize = 63;
/// Longest payload, as in PostgreSQL.
const PAYLOAD_MAX: usize = 7_999;
/// Bytes that wait in one inbox.
const INBOX_MAX: usize = 16 << 20;

/// A message to those that listen to a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The number of the connection that sent it.
    pub process: i32,
    /// The channel.
    pub channel: String,
    /// The text; may be empty.
    pub payload: String,
}

/// What arrives for one session.
#[derive(Debug, Default)]
pub struct Inbox {
    queue: Mutex<InboxQueue>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct InboxQueue {
    messages: VecDeque<Notification>,
    bytes: usize,
}

impl Inbox {
    /// What has arrived, in order.
    pub fn take(&self) -> Vec<Notification> {
        let mut queue = self.queue.lock();
        queue.bytes = 0;
        queue.messages.drain(..).collect()
    }

    /// Resolves when something is there. Cancel-safe.
    pub async fn arrived(&self) {
        loop {
            let arrived = self.arrived.notified();
            if !self.queue.lock().messages.is_empty() {
                return;
            }
            arrived.await;
        }
    }

    fn put(&self, message: Notification) {
        let mut queue = self.queue.lock();
        queue.bytes += size_of::<Notification>() + message.channel.len() + message.payload.len();
        queue.messages.push_back(message);
        drop(queue);
        self.arrived.notify_one();
    }

    fn is_full(&self) -> bool {
        self.queue.lock().bytes >= INBOX_MAX
    }
}

/// Who listens to what.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    listeners: Mutex<HashMap<String, Vec<Arc<Inbox>>>>,
}

impl Channels {
    /// Fails unless this can be sent.
    pub(crate) fn check(&self, channel: &str, payload: &str) -> Result<()> {
        check_name(channel)?;
        if payload.len() > PAYLOAD_MAX {
            return Err(Error::new(ErrorKind::InvalidParameter, "payload string too long"));
        }
        let full = |inboxes: &Vec<Arc<Inbox>>| inboxes.iter().any(|inbox| inbox.is_full());
        match self.listeners.lock().get(channel).is_some_and(full) {
            true => Err(too_many_messages().with_hint("A session that listens does not read: let it, or end it.")),
            false => Ok(()),
        }
    }

    /// From now on messages of this channel go to this inbox, too.
    pub(crate) fn listen(&self, channel: &str, inbox: &Arc<Inbox>) {
        let mut listeners = self.listeners.lock();
        let inboxes = listeners.entry(channel.to_owned()).or_default();
        if !inboxes.iter().any(|other| Arc::ptr_eq(other, inbox)) {
            inboxes.push(inbox.clone());
        }
    }

    /// No more messages of this channel, or of any, go to this inbox.
    pub(crate) fn unlisten(&self, channel: Option<&str>, inbox: &Arc<Inbox>) {
        self.listeners.lock().retain(|name, inboxes| {
            if channel.is_none_or(|channel| channel == name) {
                inboxes.retain(|other| !Arc::ptr_eq(other, inbox));
            }
            !inboxes.is_empty()
        });
    }

    /// Sends to all that listen.
    pub(crate) fn send(&self, message: &Notification) {
        let inboxes = self.listeners.lock().get(&message.channel).cloned().unwrap_or_default();
        inboxes.iter().for_each(|inbox| inbox.put(message.clone()));
    }
}

/// 22023 for a name that no channel can have.
pub(crate) fn check_name(channel: &str) -> Result<()> {
    let message = match channel.len() {
        0 => "channel name cannot be empty",
        1..=CHANNEL_MAX => return Ok(()),
        _ => "channel name too long",
    };
    Err(Error::new(ErrorKind::InvalidParameter, message))
}

/// 54000 for a message for which there is no room.
pub(crate) fn too_many_messages() -> Error {
    Error::new(ErrorKind::LimitExceeded, "too many notifications in the NOTIFY queue")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(channel: &str, payload: &str) -> Notification {
        Notification { process: 1, channel: channel.into(), payload: payload.into() }
    }

    #[tokio::test]
    async fn messages_reach_those_that_listen_in_their_order() {
        let (channels, inbox, other) = (Channels::default(), Arc::default(), Arc::default());
        channels.listen("a", &inbox);
        channels.listen("a", &inbox);
        channels.listen("b", &other);
        channels.send(&message("a", "1"));
        channels.send(&message("b", "2"));
        channels.send(&message("a", "3"));
        inbox.arrived().await;
        assert_eq!(inbox.take(), [message("a", "1"), message("a", "3")]);
        channels.unlisten(Some("a"), &inbox);
        channels.send(&message("a", "4"));
        assert!(inbox.take().is_empty());
        assert_eq!(other.take(), [message("b", "2")]);
    }

    #[test]
    fn nobody_can_send_to_a_full_inbox() {
        let (channels, inbox) = (Channels::default(), Arc::default());
        channels.listen("a", &inbox);
        let payload = "x".repeat(PAYLOAD_MAX);
        while channels.check("a", &payload).is_ok() {
            channels.send(&message("a", &payload));
        }
        assert_eq!(channels.check("a", "").expect_err("full").sqlstate(), "54000");
        assert!(channels.check("b", &payload).is_ok());
        assert!(inbox.take().len() > INBOX_MAX / (PAYLOAD_MAX + 100));
        assert!(channels.check("a", &payload).is_ok());
    }

    #[test]
    fn names_and_payloads_have_their_limits() {
        let channels = Channels::default();
        assert!(channels.check("", "").is_err() && channels.check(&"x".repeat(64), "").is_err());
        assert!(channels.check("x", &"y".repeat(8_000)).is_err() && channels.check("x", &"y".repeat(7_999)).is_ok());
    }
}
