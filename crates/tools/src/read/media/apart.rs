use std::{
    panic,
    sync::{Once, mpsc},
    thread,
    time::Duration,
};

/// How long a document may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Deeply nested documents need a deep stack.
const STACK: usize = 64 * 1024 * 1024;

const NAME: &str = "haft-media";

/// Runs something on a thread of its own. Whatever it does, this returns: a
/// panic and a document that takes too long become a reason in words.
///
/// A thread cannot be stopped, so one that takes too long ends by itself or
/// with the process.
pub(super) fn run<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
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
    receiver
        .recv_timeout(PATIENCE)
        .unwrap_or_else(|_| Err(format!("it takes longer than {} s to read", PATIENCE.as_secs())))
}

/// The libraries panic on odd input. That is a result here, not a message for
/// the person's terminal; other threads are as loud as before.
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

    #[test]
    fn panics_are_reasons() {
        assert_eq!(run(|| Ok(1)), Ok(1));
        let got: Result<(), String> = run(|| panic!("odd"));
        assert!(got.unwrap_err().contains("damaged"));
        fn deep(n: usize) -> usize {
            if n == 0 { 0 } else { 1 + deep(n - 1).min(usize::MAX - 1) }
        }
        assert_eq!(run(|| Ok(deep(20_000))), Ok(20_000));
    }
}
