use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use bytes::Bytes;
use haft_types::Message;

use super::Size;
use crate::lint::SWEPT_EVERY;

/// Messages that were encoded before. A conversation grows at its end, so all
/// but the last messages of a request are found here.
#[derive(Debug, Default)]
pub(crate) struct MessageCache(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    by_address: HashMap<usize, Entry>,
    sweeps: u32,
}

/// A message on the wire.
#[derive(Clone, Debug, Default)]
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    pub(crate) size: Size,
    /// Where the form splits a message: the block each item begins with.
    pub(crate) items: Arc<[Option<usize>]>,
}

#[derive(Debug)]
struct Entry {
    message: Weak<Message>,
    piece: Piece,
}

impl MessageCache {
    /// The bytes of a message, made by `encode` if they are not there.
    pub(crate) fn get(&self, message: &Arc<Message>, encode: impl FnOnce() -> Piece) -> Piece {
        let address = Arc::as_ptr(message).addr();
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.by_address.get(&address)
            && entry.message.as_ptr().addr() == address
            && entry.message.strong_count() > 0
        {
            return entry.piece.clone();
        }
        let piece = encode();
        entries.by_address.insert(address, Entry { message: Arc::downgrade(message), piece: piece.clone() });
        piece
    }

    /// Forgets messages nobody holds any more, every so many requests.
    pub(crate) fn sweep(&self) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.sweeps = entries.sweeps.wrapping_add(1);
        if entries.sweeps.is_multiple_of(SWEPT_EVERY) {
            entries.by_address.retain(|_, entry| entry.message.strong_count() > 0);
        }
    }
}
