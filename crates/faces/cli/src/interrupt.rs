//! Signals that ask a run to stop.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::output::CliFailure;

/// Stops a run when somebody asks for it: Ctrl-C, `kill`, a closed terminal.
/// The second time the program ends at once.
#[derive(Clone)]
pub(crate) struct Interrupt {
    /// Fires when the run is to stop.
    pub(crate) cancel: CancellationToken,
    code: Arc<AtomicU8>,
}

impl Interrupt {
    /// Listens from now on, on a thread of its own: it hears also while the thread
    /// of the session is at work.
    pub(crate) fn listen() -> Self {
        let it = Self { cancel: CancellationToken::new(), code: Arc::new(AtomicU8::new(130)) };
        let heard = it.clone();
        let listening = std::thread::Builder::new().name(String::from("signals")).spawn(move || heard.hear());
        if let Err(err) = listening {
            tracing::warn!(%err, "nobody listens to signals: the first one ends the program");
        }
        it
    }

    /// Takes signals until the program ends. A signal nobody can listen to ends the
    /// program, as ever.
    fn hear(&self) {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
        runtime.block_on(async {
            let kinds =
                [(SignalKind::interrupt(), 130), (SignalKind::terminate(), 143), (SignalKind::hangup(), 129)];
            let taken =
                kinds.into_iter().filter_map(|(kind, code)| Some(self.take(signal(kind).ok()?, code)));
            futures_util::future::join_all(taken).await;
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

    /// The exit code of a program that was stopped this way.
    pub(crate) fn code(&self) -> u8 {
        self.code.load(Ordering::Relaxed)
    }
}

/// Fires when a signal asks a server politely to end.
pub(crate) fn stop_on_signal() -> Result<CancellationToken, CliFailure> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = CancellationToken::new();
    let fire = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
        fire.cancel();
    });
    Ok(stop)
}
