use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;

use crate::turn::{Cut, Stall, Turn};

/// One thing that happens to a body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Bytes(Vec<u8>),
    Stall(Stall),
    Cut(Cut),
}

/// Puts the turn's byte faults where they belong.
pub(crate) fn with_faults(steps: Vec<Step>, turn: &Turn) -> Vec<Step> {
    let stalled = match turn.stall {
        Some(fault) => insert_at(steps, fault.byte, Step::Stall(fault.what)),
        None => steps,
    };
    match turn.cut {
        Some(fault) => insert_at(stalled, fault.byte, Step::Cut(fault.what)),
        None => stalled,
    }
}

/// Inserts a step when `byte` bytes are out; past the end it comes last.
fn insert_at(steps: Vec<Step>, byte: usize, fault: Step) -> Vec<Step> {
    let mut out = Vec::with_capacity(steps.len() + 2);
    let mut left = Some(byte);
    for step in steps {
        match (left, step) {
            (Some(before), Step::Bytes(bytes)) if before <= bytes.len() => {
                let (head, tail) = bytes.split_at(before);
                out.push(Step::Bytes(head.to_vec()));
                out.push(fault.clone());
                out.push(Step::Bytes(tail.to_vec()));
                left = None;
            }
            (before, step) => {
                if let (Some(before), Step::Bytes(bytes)) = (before, &step) {
                    left = Some(before - bytes.len());
                }
                out.push(step);
            }
        }
    }
    if left.is_some() {
        out.push(fault);
    }
    out.retain(|step| !matches!(step, Step::Bytes(bytes) if bytes.is_empty()));
    out
}

/// How a body ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    /// Its last byte is out.
    Played,
    /// The client went away before.
    Abandoned,
}

/// Tells how a body ended, once.
struct Teller<F: FnOnce(End)>(Option<F>);

impl<F: FnOnce(End)> Teller<F> {
    fn tell(&mut self, end: End) {
        if let Some(tell) = self.0.take() {
            tell(end);
        }
    }
}

impl<F: FnOnce(End)> Drop for Teller<F> {
    fn drop(&mut self) {
        self.tell(End::Abandoned);
    }
}

/// A body that plays the steps and tells how it ended.
pub(crate) fn body(steps: Vec<Step>, tell: impl FnOnce(End) + Send + 'static) -> Body {
    let state = (steps.into_iter(), Teller(Some(tell)));
    Body::from_stream(stream::unfold(state, |(mut steps, mut teller)| async move {
        loop {
            match steps.next() {
                Some(Step::Bytes(bytes)) => {
                    // The last byte may be the last thing the server asks for.
                    if steps.len() == 0 {
                        teller.tell(End::Played);
                    }
                    return Some((Ok(Bytes::from(bytes)), (steps, teller)));
                }
                Some(Step::Stall(Stall::Ms(ms))) => tokio::time::sleep(Duration::from_millis(ms)).await,
                Some(Step::Stall(Stall::Forever)) => std::future::pending::<()>().await,
                Some(Step::Cut(Cut::End)) | None => {
                    teller.tell(End::Played);
                    return None;
                }
                Some(Step::Cut(Cut::Reset)) => {
                    // The server writes what it has when the body makes it
                    // wait; without that the cut would come too early.
                    tokio::task::yield_now().await;
                    teller.tell(End::Played);
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
    fn a_fault_sits_at_its_byte() {
        let steps = || vec![Step::Bytes(b"abc".to_vec()), Step::Bytes(b"def".to_vec())];
        for (byte, want) in [(0, ""), (2, "ab"), (3, "abc"), (4, "abcd"), (6, "abcdef"), (9, "abcdef")] {
            let cut = insert_at(steps(), byte, Step::Cut(Cut::End));
            let before = cut.iter().take_while(|step| !matches!(step, Step::Cut(_)));
            let bytes: Vec<u8> = before
                .flat_map(|step| match step {
                    Step::Bytes(bytes) => bytes.clone(),
                    _ => Vec::new(),
                })
                .collect();
            assert_eq!(String::from_utf8(bytes).unwrap(), want, "{byte}");
        }
    }
}
