use std::os::fd::AsFd;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Keeps the beginning of a stream and counts the rest. Reads everything, so that a hook never blocks on
/// a full pipe.
#[derive(Debug)]
pub(crate) struct StreamCapture<S> {
    stream: S,
    open: bool,
    buffer: BytesMut,
    kept: Vec<u8>,
    limit: usize,
    dropped: u64,
}

const CHUNK: usize = 64 * 1024;

impl<S> StreamCapture<S> {
    pub(crate) fn new(stream: S, limit: usize) -> Self {
        Self { stream, open: true, buffer: BytesMut::new(), kept: Vec::new(), limit, dropped: 0 }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    pub(crate) fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// The kept text, with a marker if something is missing.
    pub(crate) fn text(&self) -> CapturedText {
        CapturedText { text: String::from_utf8_lossy(&self.kept).into_owned(), dropped: self.dropped }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = self.limit - self.kept.len().min(self.limit);
        let (keep, drop) = bytes.split_at(bytes.len().min(room));
        self.kept.extend_from_slice(keep);
        self.dropped += drop.len() as u64;
    }
}

impl<S: AsyncRead + Unpin> StreamCapture<S> {
    /// Waits for more bytes. Cancel-safe.
    pub(crate) async fn read_some(&mut self) {
        self.buffer.reserve(CHUNK);
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) | Err(_) => self.open = false,
            Ok(_) => {
                let read = self.buffer.split();
                self.keep(&read);
            }
        }
    }
}

impl<S: AsFd> StreamCapture<S> {
    /// Reads what is in the pipe without waiting: all output of the exited hook is there, and a process
    /// it left behind may keep the pipe open.
    pub(crate) fn take_what_is_there(&mut self) {
        let mut buffer = vec![0; CHUNK];
        // Bounded, in case a writer never stops.
        for _ in 0..1024 {
            match rustix::io::read(&self.stream, &mut buffer[..]) {
                Ok(read) if 0 < read => self.keep(&buffer[..read]),
                Err(rustix::io::Errno::INTR) => (),
                Ok(_) | Err(_) => break,
            }
        }
        self.open = false;
    }
}

/// Captured text.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct CapturedText {
    pub(crate) text: String,
    /// Bytes beyond the limit, which were dropped.
    pub(crate) dropped: u64,
}
