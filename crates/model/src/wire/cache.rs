use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use bytes::Bytes;
use haft_types::Message;

use super::Size;

/// Messages that were encoded before. A conversation grows at its end, so all
/// but the last messages of a request are found here.
#[derive(Debug, Default)]
pub(crate) struct MessageCache(Mutex<HashMap<usize, Entry>>);

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
        if let Some(entry) = entries.get(&address)
            && entry.message.as_ptr().addr() == address
            && entry.message.strong_count() > 0
        {
            return entry.piece.clone();
        }
        let piece = encode();
        entries.insert(address, Entry { message: Arc::downgrade(message), piece: piece.clone() });
        piece
    }

    /// Forgets messages nobody holds any more.
    pub(crate) fn sweep(&self, live: usize) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() > 2 * live + 64 {
            entries.retain(|_, entry| entry.message.strong_count() > 0);
        }
    }
}
