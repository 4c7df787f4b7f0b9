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
pub(crate) fn read_lines() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(WAITING_LINES);
    std::thread::spawn(move || {
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
    });
    receiver
}

/// Writes frames to standard output, one line each, in order.
pub(crate) struct LineWriter {
    lines: Option<blocking::Sender<String>>,
    thread: Option<JoinHandle<()>>,
    broken: CancellationToken,
}

impl LineWriter {
    pub(crate) fn start() -> Self {
        let (sender, receiver) = blocking::channel();
        let broken = CancellationToken::new();
        let breaks = broken.clone();
        let thread = std::thread::spawn(move || {
            if write_all(&receiver).is_err() {
                breaks.cancel();
            }
        });
        Self { lines: Some(sender), thread: Some(thread), broken }
    }

    pub(crate) fn frame(&self, frame: &Value) {
        if let Some(lines) = &self.lines {
            lines.send(bounded_line(frame)).ok();
        }
    }

    /// Nobody reads any more.
    pub(crate) fn broken(&self) -> CancellationToken {
        self.broken.clone()
    }

    /// Waits until everything is written, as long as somebody reads it.
    pub(crate) async fn finish(&mut self, patience: Duration) {
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
