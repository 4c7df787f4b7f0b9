//! Reads and writes lines on threads of their own, so that a peer that neither sends nor reads does not
//! block the session.

use std::{
    io::{self, BufRead as _, Read as _, Write as _},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc as blocking,
    },
    thread::JoinHandle,
    time::Duration,
};

use serde::Serialize;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::bounded_line::push_bounded_line;

/// Maximum queued input lines.
const WAITING_LINES: usize = 256;

/// Maximum bytes of an input line; must hold a prompt with its images.
pub const MAX_INPUT: usize = 64 << 20;

/// Bytes of queued output from which the peer counts as behind.
const BEHIND: usize = 256 << 10;

/// Bytes of a batch: small enough for a pipe to accept it in one write, and below 64 kB, from which on
/// freeing memory makes the C library trim its heap.
const BATCH: usize = 48 << 10;

/// A line of standard input.
#[derive(Debug)]
pub enum InputLine {
    /// A complete line, including its line break.
    Whole(Vec<u8>),
    /// The beginning of a line longer than [`MAX_INPUT`] bytes; the rest was discarded.
    TooLong(Vec<u8>),
}

/// Starts reading standard input on a thread. The channel closes at the end of input.
pub fn read_lines() -> mpsc::Receiver<InputLine> {
    let (sender, receiver) = mpsc::channel(WAITING_LINES);
    let read = move || {
        let mut input = io::stdin().lock();
        while let Ok(Some(line)) = read_line(&mut input, MAX_INPUT) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    };
    // If no thread can be started, the channel closes at once.
    std::thread::Builder::new().name(String::from("haft-input")).spawn(read).ok();
    receiver
}

/// Reads the next line; of one that is too long only the beginning is kept in memory.
fn read_line(input: &mut impl io::BufRead, most: usize) -> io::Result<Option<InputLine>> {
    let mut line = Vec::new();
    let read = input.by_ref().take(most as u64).read_until(b'\n', &mut line)?;
    if read < most || line.ends_with(b"\n") {
        return Ok((0 < read).then_some(InputLine::Whole(line)));
    }
    line.truncate(1_000);
    line.shrink_to_fit();
    loop {
        let piece = input.fill_buf()?;
        let end = memchr::memchr(b'\n', piece);
        let (seen, is_over) = (end.map_or(piece.len(), |at| at + 1), end.is_some() || piece.is_empty());
        input.consume(seen);
        if is_over {
            return Ok(Some(InputLine::TooLong(line)));
        }
    }
}

/// Bytes of queued output. Clones share the counter.
#[derive(Clone, Default)]
pub struct OutputBacklog(Arc<WaitingBytes>);

#[derive(Default)]
struct WaitingBytes {
    bytes: AtomicUsize,
    fewer: Notify,
}

impl OutputBacklog {
    /// Whether so much is queued that more should wait.
    pub fn is_behind(&self) -> bool {
        BEHIND < self.0.bytes.load(Ordering::Relaxed)
    }

    /// Waits until the peer has caught up or has closed its input.
    pub async fn wait_until_drained(&self) {
        loop {
            let fewer = self.0.fewer.notified();
            tokio::pin!(fewer);
            fewer.as_mut().enable();
            if !self.is_behind() {
                return;
            }
            fewer.await;
        }
    }

    fn add(&self, bytes: usize) {
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn wrote(&self, bytes: usize) {
        let before = self.0.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if BEHIND < before {
            self.0.fewer.notify_waiters();
        }
    }

    /// Resets the counter, because the peer has closed its input.
    fn close(&self) {
        self.0.bytes.store(0, Ordering::Relaxed);
        self.0.fewer.notify_waiters();
    }
}

/// Lines that are submitted together, because waking the writer thread costs more than writing a short
/// line.
#[derive(Default)]
pub struct LineBatch(Vec<u8>);

impl LineBatch {
    /// Adds a frame as a line.
    pub fn add(&mut self, frame: &impl Serialize) {
        if self.0.capacity() == 0 {
            self.0.reserve(BATCH + BATCH / 8);
        }
        push_bounded_line(&mut self.0, frame);
    }

    /// Whether the batch is large enough to be submitted.
    pub fn is_full(&self) -> bool {
        BATCH <= self.0.len()
    }
}

/// Writes frames to standard output, one line each, in order.
pub struct LineWriter {
    lines: Option<blocking::Sender<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
    broken: CancellationToken,
    waiting: OutputBacklog,
}

impl LineWriter {
    /// Starts the writer thread.
    pub fn start() -> Self {
        let (sender, receiver) = blocking::channel();
        let broken = CancellationToken::new();
        let waiting = OutputBacklog::default();
        let (breaks, written) = (broken.clone(), waiting.clone());
        let write = move || {
            if write_all(&receiver, &written).is_err() {
                breaks.cancel();
            }
            // Output submitted from here on is discarded.
            drop(receiver);
            written.close();
        };
        let thread = std::thread::Builder::new().name(String::from("haft-output")).spawn(write).ok();
        if thread.is_none() {
            broken.cancel();
        }
        Self { lines: Some(sender), thread, broken, waiting }
    }

    /// Creates a writer that discards everything.
    pub fn closed() -> Self {
        let (broken, waiting) = (CancellationToken::new(), OutputBacklog::default());
        Self { lines: None, thread: None, broken, waiting }
    }

    /// Queues a frame.
    pub fn frame(&self, frame: &impl Serialize) {
        if self.lines.is_some() {
            let mut line = Vec::new();
            push_bounded_line(&mut line, frame);
            self.hand_over(line);
        }
    }

    /// Queues the content of a batch and clears it.
    pub fn batch(&self, batch: &mut LineBatch) {
        if !batch.0.is_empty() {
            self.hand_over(std::mem::take(&mut batch.0));
        }
    }

    fn hand_over(&self, lines: Vec<u8>) {
        let Some(sender) = &self.lines else { return };
        self.waiting.add(lines.len());
        if sender.send(lines).is_err() {
            self.waiting.close();
        }
    }

    /// Returns the amount of queued output.
    pub fn waiting(&self) -> OutputBacklog {
        self.waiting.clone()
    }

    /// Cancelled when the peer has closed its input.
    pub fn broken(&self) -> CancellationToken {
        self.broken.clone()
    }

    /// Waits until everything is written or the peer has closed its input, for at most `patience`.
    pub async fn finish(&mut self, patience: Duration) {
        self.lines = None;
        let Some(thread) = self.thread.take() else { return };
        let joined = tokio::task::spawn_blocking(move || thread.join());
        tokio::time::timeout(patience, joined).await.ok();
    }
}

fn write_all(lines: &blocking::Receiver<Vec<u8>>, waiting: &OutputBacklog) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    while let Ok(mut some) = lines.recv() {
        loop {
            out.write_all(&some)?;
            waiting.wrote(some.len());
            match lines.try_recv() {
                Ok(next) => some = next,
                Err(_) => break,
            }
        }
        out.flush()?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use super::*;

    #[test]
    fn too_long_line_keeps_only_its_beginning() {
        let long = "x".repeat(70_000);
        for (input, want) in [
            (String::from("a\nb\r\n\nc"), vec![("a\n", true), ("b\r\n", true), ("\n", true), ("c", true)]),
            (format!("{long}\nafter\n"), vec![(&long[..1_000], false), ("after\n", true)]),
            (long.clone(), vec![(&long[..1_000], false)]),
            // Exactly the maximum length, and one byte more.
            (
                format!("{}\nz\n", &long[..9_999]),
                vec![(&*format!("{}\n", &long[..9_999]), true), ("z\n", true)],
            ),
            (format!("{}\nz\n", &long[..10_000]), vec![(&long[..1_000], false), ("z\n", true)]),
        ] {
            let mut reader = io::BufReader::new(input.as_bytes());
            let mut heard = Vec::new();
            while let Some(line) = read_line(&mut reader, 10_000).unwrap() {
                heard.push(match line {
                    InputLine::Whole(line) => (String::from_utf8(line).unwrap(), true),
                    InputLine::TooLong(line) => (String::from_utf8(line).unwrap(), false),
                });
            }
            let heard: Vec<(&str, bool)> =
                heard.iter().map(|(line, whole)| (line.as_str(), *whole)).collect();
            assert_eq!(heard, want);
        }
    }

    #[tokio::test]
    async fn backlog_wait_ends_when_read_or_closed() {
        let waiting = OutputBacklog::default();
        waiting.wait_until_drained().await;
        for close in [false, true] {
            waiting.add(BEHIND * 2);
            assert!(waiting.is_behind());
            let other = waiting.clone();
            let waits = tokio::spawn(async move { other.wait_until_drained().await });
            tokio::task::yield_now().await;
            if close {
                waiting.close();
            } else {
                waiting.wrote(BEHIND / 2);
                assert!(waiting.is_behind());
                waiting.wrote(BEHIND);
            }
            waits.await.unwrap();
            waiting.close();
        }
    }
}
