use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;

use crate::turn::{StreamCut, StreamStall, Turn};

/// A step of sending a body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StreamStep {
    Bytes(Vec<u8>),
    Stall(StreamStall),
    Cut(StreamCut),
}

/// Inserts the turn's byte faults.
pub(crate) fn with_faults(steps: Vec<StreamStep>, turn: &Turn) -> Vec<StreamStep> {
    let stalled = match turn.stall {
        Some(fault) => insert_at(steps, fault.byte, StreamStep::Stall(fault.what)),
        None => steps,
    };
    match turn.cut {
        Some(fault) => insert_at(stalled, fault.byte, StreamStep::Cut(fault.what)),
        None => stalled,
    }
}

/// Inserts a step after `byte` bytes, or at the end.
fn insert_at(steps: Vec<StreamStep>, byte: usize, fault: StreamStep) -> Vec<StreamStep> {
    let mut out = Vec::with_capacity(steps.len() + 2);
    let mut left = Some(byte);
    for step in steps {
        match (left, step) {
            (Some(before), StreamStep::Bytes(bytes)) if before <= bytes.len() => {
                let (head, tail) = bytes.split_at(before);
                out.push(StreamStep::Bytes(head.to_vec()));
                out.push(fault.clone());
                out.push(StreamStep::Bytes(tail.to_vec()));
                left = None;
            }
            (before, step) => {
                if let (Some(before), StreamStep::Bytes(bytes)) = (before, &step) {
                    left = Some(before - bytes.len());
                }
                out.push(step);
            }
        }
    }
    if left.is_some() {
        out.push(fault);
    }
    out.retain(|step| !matches!(step, StreamStep::Bytes(bytes) if bytes.is_empty()));
    out
}

/// How sending a body ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum StreamEnd {
    /// Completely.
    Played,
    /// The client disconnected before.
    Abandoned,
}

/// Reports the end of a body, once.
struct EndReporter<F: FnOnce(StreamEnd)>(Option<F>);

impl<F: FnOnce(StreamEnd)> EndReporter<F> {
    fn tell(&mut self, end: StreamEnd) {
        if let Some(tell) = self.0.take() {
            tell(end);
        }
    }
}

impl<F: FnOnce(StreamEnd)> Drop for EndReporter<F> {
    fn drop(&mut self) {
        self.tell(StreamEnd::Abandoned);
    }
}

/// Creates a body that executes the steps and reports how it ended.
pub(crate) fn body(steps: Vec<StreamStep>, tell: impl FnOnce(StreamEnd) + Send + 'static) -> Body {
    let state = (steps.into_iter(), EndReporter(Some(tell)));
    Body::from_stream(stream::unfold(state, |(mut steps, mut teller)| async move {
        loop {
            match steps.next() {
                Some(StreamStep::Bytes(bytes)) => {
                    // The server may not poll again after the last byte.
                    if steps.len() == 0 {
                        teller.tell(StreamEnd::Played);
                    }
                    return Some((Ok(Bytes::from(bytes)), (steps, teller)));
                }
                Some(StreamStep::Stall(StreamStall::Ms(ms))) => {
                    tokio::time::sleep(Duration::from_millis(ms)).await
                }
                Some(StreamStep::Stall(StreamStall::Forever)) => std::future::pending::<()>().await,
                Some(StreamStep::Cut(StreamCut::End)) | None => {
                    teller.tell(StreamEnd::Played);
                    return None;
                }
                Some(StreamStep::Cut(StreamCut::Reset)) => {
                    // Yield so that the server flushes what it has; otherwise the cut would come too
                    // early.
                    tokio::task::yield_now().await;
                    teller.tell(StreamEnd::Played);
                    let error = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                    return Some((Err(error), (Vec::new().into_iter(), teller)));
                }
            }
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_fault_is_inserted_at_its_byte() {
        let steps = || vec![StreamStep::Bytes(b"abc".to_vec()), StreamStep::Bytes(b"def".to_vec())];
        for (byte, want) in [(0, ""), (2, "ab"), (3, "abc"), (4, "abcd"), (6, "abcdef"), (9, "abcdef")] {
            let cut = insert_at(steps(), byte, StreamStep::Cut(StreamCut::End));
            let before = cut.iter().take_while(|step| !matches!(step, StreamStep::Cut(_)));
            let bytes: Vec<u8> = before
                .flat_map(|step| match step {
                    StreamStep::Bytes(bytes) => bytes.clone(),
                    _ => Vec::new(),
                })
                .collect();
            assert_eq!(String::from_utf8(bytes).unwrap(), want, "{byte}");
        }
    }
}
