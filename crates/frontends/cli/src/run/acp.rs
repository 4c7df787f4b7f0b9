//! `haft acp`: sessions for editors, over the Agent Client Protocol.

use std::{process::ExitCode, sync::Arc};

use haft_acp::{AcpServer, AcpShutdown, SessionLocation, SpecBuilderFn};
use haft_console::{
    GlobalArgs,
    interrupt::is_ignored,
    stdout::{CliError, CommandExit},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use crate::{args::RunArgs, run::session_spec};

/// Versions of the Agent Client Protocol that this build speaks.
pub(crate) const PROTOCOLS: &[u64] = &[haft_acp::PROTOCOL_VERSION];

/// Serves the editor on standard input and output until the editor closes the connection.
pub(crate) fn run(run: &RunArgs, options: &GlobalArgs) -> CommandExit {
    if run.session.print || run.prompt.is_some() {
        return Err(CliError::Message(String::from(
            "haft acp takes prompts from the editor, not from flags",
        )));
    }
    let runtime = session_spec::runtime()?;
    let maker = spec_maker(run.clone(), options.clone());
    let code = session_spec::run_with_session(&runtime, async move {
        let signals =
            signals().ok_or_else(|| CliError::Message(String::from("signals cannot be received")))?;
        Ok::<u8, CliError>(AcpServer::new(maker, env!("CARGO_PKG_VERSION")).run(signals).await)
    });
    // Do not wait for blocking tasks, for example a pending read of standard input.
    runtime.shutdown_background();
    Ok(ExitCode::from(code?))
}

/// Builds the session spec from the flags and the directory that the editor names.
fn spec_maker(run: RunArgs, options: GlobalArgs) -> SpecBuilderFn {
    Arc::new(move |place: &SessionLocation| {
        let mut options = options.clone();
        options.cwd = Some(place.cwd.clone());
        options.add_dir.extend(place.extra_dirs.iter().cloned());
        session_spec::of_run(&run, &options).map_err(|failure| match failure {
            CliError::Message(problem) => problem,
            CliError::ClosedPipe => String::from("nobody reads"),
        })
    })
}

fn signals() -> Option<mpsc::UnboundedReceiver<AcpShutdown>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    for (kind, meaning) in
        [(SignalKind::terminate(), AcpShutdown::Terminate), (SignalKind::interrupt(), AcpShutdown::Interrupt)]
    {
        if is_ignored(kind) {
            continue;
        }
        let (mut signal, sender) = (signal(kind).ok()?, sender.clone());
        tokio::spawn(async move { while signal.recv().await.is_some() && sender.send(meaning).is_ok() {} });
    }
    Some(receiver)
}
