use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use bytes::Bytes;
use haft_types::Message;

use super::RequestSize;
use crate::{SentBlock, lint::SWEPT_EVERY, ptr_map::ByAddress, sent_prefix::message_prints};

/// Cache of encoded messages, keyed by address. A conversation grows at its end, so all but the last
/// messages of a request are found here.
#[derive(Debug, Default)]
pub(crate) struct MessageCache(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    by_address: ByAddress<usize, CachedMessage>,
    sweeps: u32,
}

/// An encoded message.
#[derive(Clone, Debug, Default)]
pub(crate) struct BodyPiece {
    pub(crate) bytes: Bytes,
    pub(crate) size: RequestSize,
    /// Where the wire format splits a message into items: the index of the block each item starts with.
    pub(crate) items: Arc<[Option<usize>]>,
    /// Byte range of each block, in wire formats that encode blocks one to one.
    pub(crate) blocks: Arc<[Range<usize>]>,
}

impl BodyPiece {
    /// Returns the encoded block, in wire formats that encode blocks one to one.
    pub(crate) fn block(&self, at: usize) -> Option<&[u8]> {
        self.bytes.get(self.blocks.get(at)?.clone())
    }
}

#[derive(Debug)]
struct CachedMessage {
    message: Weak<Message>,
    piece: Option<BodyPiece>,
    prints: Option<Arc<[SentBlock]>>,
}

impl CachedMessage {
    fn new(message: &Arc<Message>) -> Self {
        Self { message: Arc::downgrade(message), piece: None, prints: None }
    }
}

impl Entries {
    /// Returns the entry of a message; replaces it if the address has been reused by another message.
    fn of(&mut self, message: &Arc<Message>) -> &mut CachedMessage {
        let address = Arc::as_ptr(message).addr();
        let entry = self.by_address.entry(address).or_insert_with(|| CachedMessage::new(message));
        if entry.message.as_ptr().addr() != address || entry.message.strong_count() == 0 {
            *entry = CachedMessage::new(message);
        }
        entry
    }
}

impl MessageCache {
    /// Returns the encoded message; calls `encode` on a cache miss, with the lock held.
    pub(crate) fn get(&self, message: &Arc<Message>, encode: impl FnOnce() -> BodyPiece) -> BodyPiece {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.of(message).piece.get_or_insert_with(encode).clone()
    }

    /// Returns the encoded form of all messages.
    pub(crate) fn pieces(
        &self,
        messages: &[Arc<Message>],
        encode: impl Fn(&Message) -> BodyPiece,
    ) -> Vec<BodyPiece> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let piece = |message| entries.of(message).piece.get_or_insert_with(|| encode(message)).clone();
        messages.iter().map(piece).collect()
    }

    /// Appends the hashes of all blocks in order, computing those of a message once.
    pub(crate) fn add_prints(&self, messages: &[Arc<Message>], out: &mut Vec<SentBlock>) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for message in messages {
            let CachedMessage { piece, prints, .. } = entries.of(message);
            out.extend_from_slice(prints.get_or_insert_with(|| message_prints(message, piece.as_ref())));
        }
    }

    /// Drops entries of messages that no longer exist; does so in every [`SWEPT_EVERY`]th call only.
    pub(crate) fn sweep(&self) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.sweeps = entries.sweeps.wrapping_add(1);
        if entries.sweeps.is_multiple_of(SWEPT_EVERY) {
            entries.by_address.retain(|_, entry| entry.message.strong_count() > 0);
        }
    }
}
