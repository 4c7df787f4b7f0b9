//! Signals that stop a run.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
    mpsc,
};

use haft_types::exit_codes;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::stdout::CliError;

/// Stops a run on SIGINT (Ctrl-C), SIGTERM or SIGHUP (terminal closed). The second signal exits the
/// process at once.
#[derive(Clone)]
pub struct Interrupt {
    /// Cancelled by the first signal.
    pub cancel: CancellationToken,
    code: Arc<AtomicU8>,
}

impl Interrupt {
    /// Handles signals on a thread of its own, so that they are received while the session's thread is
    /// busy. Returns before the handlers are installed: a signal within the first milliseconds ends the
    /// program.
    pub fn listen() -> Self {
        Self::start().0
    }

    /// Like [`Self::listen`], but returns once the handlers are installed. For servers, which must not
    /// print their address before.
    pub fn listen_now() -> Self {
        let (it, installed) = Self::start();
        // An error means that the thread could not be started, which is logged.
        installed.recv().ok();
        it
    }

    fn start() -> (Self, mpsc::Receiver<()>) {
        let it =
            Self { cancel: CancellationToken::new(), code: Arc::new(AtomicU8::new(exit_codes::INTERRUPTED)) };
        let (installed, receiver) = mpsc::channel();
        let listener = it.clone();
        let thread = std::thread::Builder::new().name(String::from("signals"));
        if let Err(err) = thread.spawn(move || listener.receive_signals(installed)) {
            tracing::warn!(%err, "signals are not handled: the first one ends the program");
        }
        (it, receiver)
    }

    /// Handles signals until the process exits. A signal whose handler cannot be installed keeps its
    /// default action; a signal the parent ignored stays ignored.
    fn receive_signals(&self, installed: mpsc::Sender<()>) {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
        runtime.block_on(async {
            let kinds = [
                (SignalKind::interrupt(), exit_codes::INTERRUPTED),
                (SignalKind::terminate(), exit_codes::TERMINATED),
                (SignalKind::hangup(), exit_codes::HANGUP),
            ];
            let heeded = kinds.into_iter().filter(|(kind, _)| !is_ignored(*kind));
            let handlers = heeded.filter_map(|(kind, code)| Some((signal(kind).ok()?, code)));
            let handlers: Vec<(Signal, u8)> = handlers.collect();
            // Only `listen_now` waits for this.
            installed.send(()).ok();
            futures_util::future::join_all(handlers.into_iter().map(|it| self.take(it.0, it.1))).await;
        });
    }

    async fn take(&self, mut signals: Signal, code: u8) {
        while signals.recv().await.is_some() {
            if self.cancel.is_cancelled() {
                std::process::exit(i32::from(code));
            }
            self.code.store(code, Ordering::Relaxed);
            self.cancel.cancel();
        }
    }

    /// Exit code for the signal that stopped the run.
    pub fn code(&self) -> u8 {
        self.code.load(Ordering::Relaxed)
    }
}

/// Returns a token that SIGTERM or SIGINT cancels. Must be called in a tokio runtime. Fails if a handler
/// cannot be installed.
pub fn stop_on_signal() -> Result<CancellationToken, CliError> {
    let stop = CancellationToken::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        if is_ignored(kind) {
            continue;
        }
        let (mut signals, fire) = (signal(kind)?, stop.clone());
        tokio::spawn(async move {
            signals.recv().await;
            fire.cancel();
        });
    }
    Ok(stop)
}

/// Whether the parent process had this signal ignored, as `nohup` does with SIGHUP and a shell with
/// SIGINT for background jobs. Such a signal stays ignored. Always false for SIGTERM.
#[expect(unsafe_code, reason = "there is no safe way to ask for the effect of a signal")]
pub fn is_ignored(kind: SignalKind) -> bool {
    if kind == SignalKind::terminate() {
        return false;
    }
    // SAFETY: an all-zero `sigaction` is valid, and with a null new action the call only writes the old
    // one.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        let asked = libc::sigaction(kind.as_raw_value(), std::ptr::null(), &raw mut now);
        asked == 0 && now.sa_sigaction == libc::SIG_IGN
    }
}

/// Restores the usual effect of signals regardless of what the parent set: unblocks all of them, and
/// installs a handler for SIGXFSZ, so that exceeding the file size limit fails the write with `EFBIG`
/// instead of killing the process. Child processes do not inherit the handler.
#[expect(unsafe_code, reason = "the signal mask and handlers have no safe interface")]
pub fn reset_signals() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: all-zero values are valid for both types, the pointers outlive the calls, and the handler
    // does nothing.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        if !is_ignored(SignalKind::from_raw(libc::SIGXFSZ)) {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(libc::SIGXFSZ, &raw const action, std::ptr::null_mut());
        }
    }
}
