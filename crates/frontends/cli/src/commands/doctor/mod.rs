//! `haft doctor`: checks whether everything works on this machine, and says what to do where it does
//! not.
//!
//! It connects to nothing without `--online`, and it never sends a key. It writes only a probe file,
//! which it removes, and the sandbox's own state.

mod machine_checks;
mod setup_checks;

use std::{process::ExitCode, time::Instant};

use haft_console::{
    GlobalArgs,
    stdout::{CommandExit, print_bytes, print_line},
    style,
};
use serde::Serialize;
use serde_json::json;

use crate::{
    args::DoctorArgs,
    commands::{models::columns, update::InstallChannel},
    run::session_spec,
};

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CheckStatus {
    Ok,
    Warn,
    Fail,
}

/// Result of one check.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CheckResult {
    pub(crate) name: &'static str,
    pub(crate) health: CheckStatus,
    /// What the check found, for the user.
    pub(crate) found: String,
    /// What to do about it; empty if nothing.
    #[serde(rename = "do")]
    pub(crate) remedy: String,
}

impl CheckResult {
    pub(crate) fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, health: CheckStatus::Ok, found: found.into(), remedy: String::new() }
    }

    pub(crate) fn warn(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, health: CheckStatus::Warn, found: found.into(), remedy: remedy.into() }
    }

    pub(crate) fn fail(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, health: CheckStatus::Fail, found: found.into(), remedy: remedy.into() }
    }
}

pub(crate) fn run(args: &DoctorArgs, options: &GlobalArgs) -> CommandExit {
    let (_, program) = InstallChannel::here();
    if args.binary {
        print_line(&program.display().to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let began = Instant::now();
    let findings = findings(options, args.online);
    let took = began.elapsed().as_millis();
    let worst = |health: CheckStatus| findings.iter().any(|it| it.health == health);
    if options.json {
        let line = json!({"ok": !worst(CheckStatus::Fail), "checks": findings, "took_ms": took});
        print_line(&line.to_string())?;
    } else {
        print_bytes(style::clean(&text(&findings)).as_bytes())?;
        print_line(match (worst(CheckStatus::Fail), worst(CheckStatus::Warn)) {
            (true, _) => "\nIt does not work yet: see the lines with ✗.",
            (false, true) => "\nIt works; the lines with ! say what could be better.",
            (false, false) => "\nIt works.",
        })?;
    }
    Ok(ExitCode::from(u8::from(worst(CheckStatus::Fail))))
}

/// Runs all checks. Blocks; `online` also checks whether the provider can be reached.
pub(crate) fn findings(options: &GlobalArgs, online: bool) -> Vec<CheckResult> {
    let mut out = vec![machine_checks::program()];
    out.extend(machine_checks::twins());
    match session_spec::premises(options) {
        Ok(premises) => {
            out.push(setup_checks::key(&premises));
            out.push(machine_checks::home(&premises));
            out.extend(setup_checks::settings(&premises));
            out.push(setup_checks::mcp(&premises));
            out.push(machine_checks::shell(&premises));
            out.push(machine_checks::git(&premises));
            out.push(machine_checks::sandbox(&premises));
            out.push(machine_checks::language_servers(&premises));
            out.push(setup_checks::timer(&premises));
            if cfg!(feature = "web") {
                out.push(setup_checks::web_search(&premises));
            }
            if online {
                out.extend(setup_checks::reach(&premises));
            }
        }
        Err(failure) => {
            let remedy = match std::env::current_dir() {
                Ok(_) => "repair this first; the rest was not looked at",
                Err(_) => "`cd` to a directory that is there; the rest was not looked at",
            };
            out.push(CheckResult::fail("settings", failure.words(), remedy));
        }
    }
    out.push(CheckResult::ok("search", "built in; ripgrep is not needed"));
    out.push(machine_checks::certificates());
    out.push(machine_checks::terminal());
    out
}

fn text(findings: &[CheckResult]) -> String {
    let mut rows: Vec<[String; 3]> = Vec::new();
    for it in findings {
        let mark = match it.health {
            CheckStatus::Ok => "✓",
            CheckStatus::Warn => "!",
            CheckStatus::Fail => "✗",
        };
        let mut lines = it.found.lines();
        rows.push([mark.to_owned(), it.name.to_owned(), lines.next().unwrap_or_default().to_owned()]);
        rows.extend(lines.map(|line| [String::new(), String::new(), line.to_owned()]));
        if !it.remedy.is_empty() {
            rows.push([String::new(), String::new(), format!("→ {}", it.remedy)]);
        }
    }
    columns(&rows)
}
