//! Checks of the machine.

use std::{
    io::IsTerminal as _,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use haft_session::{CallLimits, SandboxDemand, SessionEnvironment};
use haft_shell::run::find_bash;

use super::CheckResult;
use crate::commands::{login::found_in, update::InstallChannel};

pub(super) fn program() -> CheckResult {
    let (channel, program) = InstallChannel::here();
    let from = format!("haft {} from {} ({})", env!("CARGO_PKG_VERSION"), channel.name, program.display());
    CheckResult::ok("program", from)
}

/// Warns about other programs named `haft` in `PATH`, because the shell may start one of them instead.
/// `None` without any.
pub(super) fn twins() -> Option<CheckResult> {
    let own = std::env::current_exe().and_then(|it| it.canonicalize()).ok()?;
    let path = std::env::var_os("PATH")?;
    let mut others: Vec<PathBuf> = std::env::split_paths(&path)
        .map(|dir| dir.join("haft"))
        .filter(|it| it.is_file())
        .filter_map(|it| it.canonicalize().ok())
        .filter(|it| *it != own)
        .collect();
    others.dedup();
    let first = others.first()?;
    let found = format!("another program named haft is in PATH: {}", first.display());
    Some(CheckResult::warn("twins", found, "remove one of them, or start this one by its path"))
}

/// Whether Haft's state directory can be written, and only by this user.
pub(super) fn home(premises: &SessionEnvironment) -> CheckResult {
    const NAME: &str = "home";
    let state = premises.state_dir();
    if premises.home.is_none() && premises.variable("HAFT_CONFIG_DIR").is_none() {
        let what = match premises.variables.os_text("HOME").filter(|it| !it.is_empty()) {
            Some(named) => format!("HOME ({}) is not a directory", Path::new(&named).display()),
            None => String::from("HOME is not set"),
        };
        let found = format!("{what}; sessions are kept in {}", state.display());
        return CheckResult::warn(
            NAME,
            found,
            "set HOME or HAFT_CONFIG_DIR to keep sessions, trust and keys",
        );
    }
    let mut there: &Path = &state;
    while !there.exists() {
        match there.parent() {
            Some(parent) => there = parent,
            None => break,
        }
    }
    let probe = there.join(format!(".haft-doctor-{}", std::process::id()));
    // A full disk still creates empty files, so data is written.
    if let Err(err) = std::fs::write(&probe, [b'.'; 4096]) {
        let _ = std::fs::remove_file(&probe);
        let owner = there.metadata().map(|it| it.uid()).ok();
        let is_ours = owner == Some(rustix::process::geteuid().as_raw());
        let found = match owner {
            Some(owner) if !is_ours => {
                format!("{} cannot be written, it belongs to user {owner}: {err}", there.display())
            }
            _ => format!("{} cannot be written: {err}", there.display()),
        };
        let found = match premises.home.as_deref() {
            Some(home) if !home.exists() => format!("{} is not there; {found}", home.display()),
            _ => found,
        };
        let is_full =
            matches!(err.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded);
        let remedy = if is_full {
            "make room there, or set"
        } else if is_ours {
            "make it writable, or set"
        } else {
            "set HOME to your own directory, or"
        };
        let remedy = format!(
            "{remedy} HAFT_CONFIG_DIR to one that can be written; until then sessions are kept in the temp \
             directory, and keys and trust cannot be"
        );
        return CheckResult::warn(NAME, found, remedy);
    }
    let _ = std::fs::remove_file(&probe);
    let mode = std::fs::metadata(&state).map(|it| it.mode() & 0o777).unwrap_or(0o700);
    if mode & 0o022 != 0 {
        let found = format!("{} can be written by others (mode {mode:o})", state.display());
        return CheckResult::fail(NAME, found, format!("chmod go-w {}", state.display()));
    }
    CheckResult::ok(NAME, format!("{} can be written", state.display()))
}

/// First line of the program's `--version` output.
fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let text = String::from_utf8_lossy(&output.ok()?.stdout).into_owned();
    text.lines().next().map(str::to_owned)
}

fn found(premises: &SessionEnvironment, name: &str) -> Option<PathBuf> {
    found_in(premises.variables.os_text("PATH").as_deref(), name)
}

pub(super) fn shell(premises: &SessionEnvironment) -> CheckResult {
    shell_finding(find_bash(premises.variables.os_text("PATH").as_deref()))
}

fn shell_finding(bash: Option<PathBuf>) -> CheckResult {
    match bash {
        Some(path) => CheckResult::ok("shell", path.display().to_string()),
        None => CheckResult::fail(
            "shell",
            "there is no bash, so no command can run",
            "install bash (apk add bash, apt-get install bash, …), or put its directory into PATH",
        ),
    }
}

pub(super) fn git(premises: &SessionEnvironment) -> CheckResult {
    match found(premises, "git") {
        Some(path) => CheckResult::ok("git", version(&path).unwrap_or_else(|| path.display().to_string())),
        None => CheckResult::warn(
            "git",
            "not in PATH",
            "install git: without it there are no worktrees, reviews and no state of the repository",
        ),
    }
}

/// Which language servers are installed, and which the project would need.
pub(super) fn language_servers(premises: &SessionEnvironment) -> CheckResult {
    const NAME: &str = "languages";
    let all = premises.languages_here();
    let served = all.iter().filter_map(|it| Some((it, it.server.as_ref().ok()?)));
    let mut broken = Vec::new();
    let mut words = Vec::new();
    for (it, (name, program)) in served {
        // rustup installs a `rust-analyzer` proxy that only works if the component is installed.
        if it.language == "Rust" && version(program).is_none() {
            if it.in_project {
                broken.push(format!(
                    "Rust: {} does not start; rustup component add rust-analyzer",
                    program.display()
                ));
            }
            continue;
        }
        words.push(format!("{name} ({})", it.language));
    }
    let missing = all.iter().filter(|it| it.in_project).filter_map(|it| match &it.server {
        Err(haft_session::ServerUnavailable::Missing { install, .. }) => {
            Some(format!("{}: {install}", it.language))
        }
        _ => None,
    });
    broken.extend(missing);
    let found =
        if words.is_empty() { String::from("no language server is in PATH") } else { words.join(", ") };
    if broken.is_empty() {
        CheckResult::ok(NAME, found)
    } else {
        CheckResult::warn(
            NAME,
            found,
            format!(
                "for what this project is written in, the tool LSP needs one of these: {}",
                broken.join("; ")
            ),
        )
    }
}

pub(super) fn sandbox(premises: &SessionEnvironment) -> CheckResult {
    const NAME: &str = "sandbox";
    let walls = &premises.walls;
    let looked = || -> Result<(bool, String), String> {
        let rules = premises.policy().map_err(|err| err.to_string())?;
        let fence = || rules.fence(&premises.cwd, premises.home.as_deref());
        let limits =
            CallLimits { wanted: SandboxDemand::ByName, read_only: rules.forbids_changes(), fence: &fence };
        let report = walls.report(&walls.policy(&limits)?)?;
        let backend = report.backend.map(|it| format!("{it:?}").to_lowercase());
        let state = if walls.is_wanted() { "on" } else { "off (sandbox.enabled)" };
        Ok(match backend {
            Some(backend) => (true, format!("{state}; works with {backend}")),
            None => (false, format!("{state}; nothing here can hold commands")),
        })
    };
    match looked() {
        Ok((true, found)) => CheckResult::ok(NAME, found),
        Ok((false, found)) if walls.is_wanted() => {
            CheckResult::fail(NAME, found, "`haft sandbox check` says why")
        }
        Ok((false, found)) => {
            CheckResult::warn(NAME, found, "`haft sandbox check` says why; installing bubblewrap often helps")
        }
        Err(why) => CheckResult::warn(NAME, why, "`haft sandbox check` says more"),
    }
}

/// Paths of the system's CA certificates.
const CERTIFICATES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
];

pub(super) fn certificates() -> CheckResult {
    let said = ["SSL_CERT_FILE", "SSL_CERT_DIR"].iter().find_map(std::env::var_os).map(PathBuf::from);
    let there = said.into_iter().chain(CERTIFICATES.map(PathBuf::from)).find(|it| it.exists());
    match there {
        Some(path) => CheckResult::ok("certificates", path.display().to_string()),
        None if cfg!(target_os = "macos") => CheckResult::ok("certificates", "the system's"),
        None => CheckResult::warn(
            "certificates",
            "this system has none, so no https server can be trusted",
            "install ca-certificates, or set SSL_CERT_FILE",
        ),
    }
}

pub(super) fn terminal() -> CheckResult {
    const NAME: &str = "terminal";
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return CheckResult::ok(NAME, "none here: haft -p works without one");
    }
    let kind = std::env::var("TERM").unwrap_or_default();
    if kind.is_empty() || kind == "dumb" {
        let remedy = "set TERM to what your terminal is, for example xterm-256color";
        return CheckResult::warn(NAME, format!("TERM is {kind:?}: no colours, no full screen"), remedy);
    }
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let locale = names.iter().find_map(|name| std::env::var(name).ok().filter(|it| !it.is_empty()));
    let locale = locale.unwrap_or_default();
    if !locale.to_ascii_lowercase().replace('-', "").contains("utf8") {
        let remedy = "set LANG to a UTF-8 locale, for example C.UTF-8";
        return CheckResult::warn(NAME, format!("{kind}; the locale {locale:?} is not UTF-8"), remedy);
    }
    CheckResult::ok(NAME, format!("{kind}, {locale}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::CheckStatus;

    #[test]
    fn shell_without_bash_fails() {
        assert_eq!(shell_finding(None).health, CheckStatus::Fail);
        assert_eq!(shell_finding(Some(PathBuf::from("/nix/store/x/bin/bash"))).health, CheckStatus::Ok);
    }
}
