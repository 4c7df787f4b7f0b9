//! Signals that ask a run to stop.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::output::Failure;

/// Stops a run when somebody asks for it: Ctrl-C, `kill`, a closed terminal.
/// The second time the program ends at once.
#[derive(Clone)]
pub(crate) struct Interrupt {
    /// Fires when the run is to stop.
    pub(crate) cancel: CancellationToken,
    code: Arc<AtomicU8>,
}

impl Interrupt {
    /// Listens from now on.
    pub(crate) fn listen() -> Self {
        let it = Self { cancel: CancellationToken::new(), code: Arc::new(AtomicU8::new(130)) };
        for (kind, code) in
            [(SignalKind::interrupt(), 130), (SignalKind::terminate(), 143), (SignalKind::hangup(), 129)]
        {
            // A signal nobody can listen to ends the program, as ever.
            let Ok(mut signals) = signal(kind) else { continue };
            let it = it.clone();
            tokio::spawn(async move {
                while signals.recv().await.is_some() {
                    if it.cancel.is_cancelled() {
                        std::process::exit(i32::from(code));
                    }
                    it.code.store(code, Ordering::Relaxed);
                    it.cancel.cancel();
                }
            });
        }
        it
    }

    /// The exit code of a program that was stopped this way.
    pub(crate) fn code(&self) -> u8 {
        self.code.load(Ordering::Relaxed)
    }
}

/// Fires when a signal asks a server politely to end.
pub(crate) fn stop_on_signal() -> Result<CancellationToken, Failure> {
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
