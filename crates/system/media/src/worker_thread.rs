use std::{
    panic,
    sync::{Once, mpsc},
    thread,
    time::{Duration, Instant},
};

use crate::{MediaAnswer, MediaTask, decode::perform};

/// Stack size in bytes; deeply nested PDFs need a deep stack.
const STACK: usize = 64 * 1024 * 1024;

const NAME: &str = "haft-media";

/// Interval at which the caller's cancellation is checked.
const GLANCE: Duration = Duration::from_millis(20);

/// Runs the job on a thread. Always returns: a panic or a timeout becomes an error text.
///
/// A thread cannot be killed, so a job that takes too long goes on until it finishes or the process
/// exits.
pub(super) fn run(
    task: MediaTask,
    bytes: Vec<u8>,
    patience: Duration,
    cancelled: &dyn Fn() -> bool,
) -> Result<MediaAnswer, String> {
    contained(move || perform(task, bytes), patience, cancelled)
}

fn contained<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
    patience: Duration,
    cancelled: &dyn Fn() -> bool,
) -> Result<T, String> {
    keep_panics_quiet();
    let (sender, receiver) = mpsc::sync_channel(1);
    let thread = thread::Builder::new().name(NAME.to_owned()).stack_size(STACK).spawn(move || {
        let result = panic::catch_unwind(panic::AssertUnwindSafe(work));
        sender
            .send(result.unwrap_or_else(|_| Err("it is damaged in a way that cannot be read".to_owned())))
            .ok();
    });
    if let Err(err) = thread {
        return Err(format!("no thread could be started to read it ({err})"));
    }
    wait(&receiver, patience, cancelled)
}

/// Waits for the answer until `patience` has passed or `cancelled` returns true.
pub(super) fn wait<T>(
    receiver: &mpsc::Receiver<Result<T, String>>,
    patience: Duration,
    cancelled: &dyn Fn() -> bool,
) -> Result<T, String> {
    let deadline = Instant::now() + patience;
    loop {
        match receiver.recv_timeout(GLANCE) {
            Ok(result) => return result,
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err("reading it ended early".to_owned()),
            Err(mpsc::RecvTimeoutError::Timeout) if cancelled() => {
                return Err("it was interrupted".to_owned());
            }
            Err(mpsc::RecvTimeoutError::Timeout) if deadline <= Instant::now() => {
                return Err(format!("it takes longer than {} s to read", patience.as_secs()));
            }
            Err(mpsc::RecvTimeoutError::Timeout) => (),
        }
    }
}

/// The decoders panic on malformed input, which becomes an error. Their panics must not be printed to
/// the user's terminal; panics of other threads are printed as before.
fn keep_panics_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if thread::current().name() != Some(NAME) {
                before(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T: Send + 'static>(
        work: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        contained(work, Duration::from_secs(60), &|| false)
    }

    #[test]
    fn panic_becomes_an_error() {
        assert_eq!(run(|| Ok(1)), Ok(1));
        let got: Result<(), String> = run(|| panic!("odd"));
        assert!(got.unwrap_err().contains("damaged"));
        fn deep(n: usize) -> usize {
            if n == 0 { 0 } else { 1 + deep(n - 1).min(usize::MAX - 1) }
        }
        assert_eq!(run(|| Ok(deep(20_000))), Ok(20_000));
    }

    #[test]
    fn timeout_and_cancellation_end_the_wait() {
        let (held, release) = mpsc::channel::<()>();
        let late =
            contained(move || release.recv().map_err(|err| err.to_string()), Duration::ZERO, &|| false);
        assert!(late.unwrap_err().contains("takes longer"));
        drop(held);
        let (held, release) = mpsc::channel::<()>();
        let stopped = contained(
            move || release.recv().map_err(|err| err.to_string()),
            Duration::from_secs(60),
            &|| true,
        );
        assert!(stopped.unwrap_err().contains("interrupted"));
        drop(held);
    }
}
