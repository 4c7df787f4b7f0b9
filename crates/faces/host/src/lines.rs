//! Lines in and out, on threads of their own: neither a host that says nothing
//! nor one that does not listen keeps the session from working.

use std::{
    io::{self, BufRead as _, Write as _},
    sync::mpsc as blocking,
    thread::JoinHandle,
    time::Duration,
};

use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::bounded_line;

/// Lines that wait to be looked at.
const WAITING_LINES: usize = 256;

/// The lines of standard input; the end of the channel is the end of input.
pub fn read_lines() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(WAITING_LINES);
    let read = move || {
        let mut input = io::stdin().lock();
        loop {
            let mut line = Vec::new();
            match input.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => (),
            }
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    };
    // Without a thread there is no input: the channel ends.
    std::thread::Builder::new().name(String::from("haft-input")).spawn(read).ok();
    receiver
}

/// Writes frames to standard output, one line each, in order.
pub struct LineWriter {
    lines: Option<blocking::Sender<String>>,
    thread: Option<JoinHandle<()>>,
    broken: CancellationToken,
}

impl LineWriter {
    /// Starts the thread that writes.
    pub fn start() -> Self {
        let (sender, receiver) = blocking::channel();
        let broken = CancellationToken::new();
        let breaks = broken.clone();
        let write = move || {
            if write_all(&receiver).is_err() {
                breaks.cancel();
            }
        };
        let thread = std::thread::Builder::new().name(String::from("haft-output")).spawn(write).ok();
        if thread.is_none() {
            broken.cancel();
        }
        Self { lines: Some(sender), thread, broken }
    }

    /// A writer that writes nothing.
    pub fn closed() -> Self {
        Self { lines: None, thread: None, broken: CancellationToken::new() }
    }

    /// Hands a frame over to be written.
    pub fn frame(&self, frame: &Value) {
        if let Some(lines) = &self.lines {
            lines.send(bounded_line(frame)).ok();
        }
    }

    /// Nobody reads any more.
    pub fn broken(&self) -> CancellationToken {
        self.broken.clone()
    }

    /// Waits until everything is written, as long as somebody reads it.
    pub async fn finish(&mut self, patience: Duration) {
        self.lines = None;
        let Some(thread) = self.thread.take() else { return };
        let joined = tokio::task::spawn_blocking(move || thread.join());
        tokio::time::timeout(patience, joined).await.ok();
    }
}

fn write_all(lines: &blocking::Receiver<String>) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    while let Ok(mut line) = lines.recv() {
        loop {
            out.write_all(line.as_bytes())?;
            out.write_all(b"\n")?;
            match lines.try_recv() {
                Ok(next) => line = next,
                Err(_) => break,
            }
        }
        out.flush()?;
    }
    Ok(())
}
