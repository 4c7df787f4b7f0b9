//! `haft view`: shows sessions in a browser, as an HTML file, or as a Perfetto trace.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::Arc,
    time::Duration,
};

use haft_console::{
    GlobalArgs,
    interrupt::Interrupt,
    stdout::{CliError, CommandExit, print_line},
};
use haft_model::Catalog;
use haft_paths::{Durability, ModeOnReplace, replace_file};
use haft_viewer::{LogIndex, LogLocations, LogRoots, ViewerConfig, page, serve, trace};

use crate::{args::ViewArgs, commands::sessions, run::session_spec};

pub(crate) fn run(args: &ViewArgs, options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let catalog = premises.catalog()?;
    let state_dir = premises.state_dir();
    if args.html.is_none() && args.perfetto.is_none() {
        return session_spec::runtime()?.block_on(show(args, options, &state_dir, catalog));
    }
    let path = log_path(args.session.as_deref(), options)?;
    let failed = |err: std::io::Error| format!("{}: {err}", path.display());
    let mut index = LogIndex::read(&path, catalog).map_err(failed)?;
    index.read_cut_line().map_err(failed)?;
    if let Some(file) = &args.html {
        write(file, &page(&index, Some(&state_dir)))?;
    }
    if let Some(file) = &args.perfetto {
        write(file, &trace(&index).to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Serves the pages until no browser has requested one for a while, or a signal ends the program.
async fn show(args: &ViewArgs, options: &GlobalArgs, state_dir: &Path, catalog: Arc<Catalog>) -> CommandExit {
    let logs = session_spec::logs(options)?;
    let roots = logs.dirs().iter().filter_map(|it| it.parent().map(Path::to_owned)).collect();
    let places = LogLocations::new(LogRoots(roots));
    let key = match &args.session {
        None => None,
        Some(named) => {
            let path = log_path(Some(named), options)?;
            if !path.is_file() {
                return Err(CliError::from(format!("{}: there is no such log", path.display())));
            }
            Some(places.add(&path))
        }
    };
    let setting = ViewerConfig {
        listen: args.listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0))),
        allow_undo: args.allow_undo,
        state_dir: Some(state_dir.to_owned()),
        idle: Duration::from_secs(args.ends_after),
    };
    let server =
        serve(places, setting, catalog).await.map_err(|err| format!("no page can be served: {err}"))?;
    let url = server.url(key.as_deref());
    let interrupt = Interrupt::listen_now();
    print_line(&url)?;
    if !args.no_open && can_open() {
        open(&url, state_dir);
    }
    let stop = server.stopper();
    tokio::select! {
        () = server.wait() => Ok(ExitCode::SUCCESS),
        () = interrupt.cancel.cancelled() => {
            stop.cancel();
            Ok(ExitCode::from(interrupt.code()))
        }
    }
}

/// Whether a browser can be opened for the user: there is a display, no ssh connection, and the user is
/// not root.
fn can_open() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|it| !it.is_empty());
    let has_screen = cfg!(target_os = "macos") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
    has_screen && !is_set("SSH_CONNECTION") && !rustix::process::geteuid().is_root()
}

/// Opens a URL in the browser. The URL contains a secret, and arguments are visible to other users. So
/// it is written to a file only this user can read, and the browser opens that file. Failures are
/// ignored.
fn open(url: &str, state_dir: &Path) {
    let (dir, page) = (state_dir.join("view"), state_dir.join("view/open.html"));
    let text = format!("<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={url}\">");
    let written = std::fs::create_dir_all(&dir).is_ok()
        && replace_file(&page, text.as_bytes(), ModeOnReplace::KeptOr(0o600), Durability::Whenever).is_ok();
    if written {
        let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        let mut command = Command::new(program);
        command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().ok();
    }
}

/// Path of a session's log: a session of this directory, or any log file.
fn log_path(named: Option<&str>, options: &GlobalArgs) -> Result<PathBuf, CliError> {
    if let Some(path) = named.map(PathBuf::from).filter(|it| it.extension().is_some_and(|it| it == "jsonl")) {
        return Ok(options.cwd.clone().unwrap_or_default().join(path));
    }
    let logs = session_spec::logs(options)?;
    let id = sessions::resolve_session(&logs, named)?;
    Ok(logs.path(&id))
}

fn write(file: &PathBuf, text: &str) -> Result<(), CliError> {
    std::fs::write(file, text).map_err(|err| format!("{}: {err}", file.display()))?;
    print_line(&file.display().to_string())
}
