//! `haft sandbox check | run`: shows the sandbox features of this machine; runs a command in the
//! sandbox.

use std::{ffi::OsString, process::ExitCode};

use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, print_bytes, print_error, print_line},
};
use haft_sandbox::{Network, SandboxPolicy, SandboxReport, SandboxStrictness};
use haft_session::{CallLimits, CommandSandbox, SandboxDemand, SessionEnvironment};
use haft_tool::PathRestrictions;
use serde_json::json;

use crate::{
    args::SandboxCommand,
    run::session_spec::{self, runtime},
};

pub(crate) fn run(command: SandboxCommand, options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let walls = &premises.walls;
    let rules = premises.policy()?;
    let fence = || rules.fence(&premises.cwd, premises.home.as_deref());
    let limits =
        CallLimits { wanted: SandboxDemand::ByName, read_only: rules.forbids_changes(), fence: &fence };
    let policy = walls.policy(&limits)?;
    match command {
        SandboxCommand::Check => check(walls, &policy, &fence(), options),
        SandboxCommand::Run { command } => confined(&premises, walls, policy, command),
    }
}

fn check(
    walls: &CommandSandbox,
    policy: &SandboxPolicy,
    fence: &PathRestrictions,
    options: &GlobalArgs,
) -> CommandExit {
    let report = walls.report(policy)?;
    let features = walls.sandbox()?.features();
    let probes = [
        ("namespaces", features.kernel.namespaces.clone().unwrap_or_else(|| String::from("work"))),
        ("seccomp", features.kernel.seccomp.clone().unwrap_or_else(|| String::from("works"))),
        (
            "landlock",
            match features.kernel.landlock {
                0 => String::from("the kernel has none"),
                version => format!("version {version}"),
            },
        ),
        (
            "bubblewrap",
            match &features.bubblewrap {
                Some(path) => format!("works ({})", path.display()),
                None if features.kernel.namespaces.is_none() => String::from("not needed"),
                None => String::from("not found, or it does not work"),
            },
        ),
    ];
    let gaps: Vec<&String> = report.gaps.iter().chain(&fence.missed).collect();
    if options.json {
        let probes: serde_json::Map<String, serde_json::Value> =
            probes.iter().map(|(name, found)| ((*name).to_owned(), json!(found))).collect();
        let complete = report.is_complete() && fence.missed.is_empty();
        let line = json!({
            "enabled": walls.is_wanted(), "backend": report.backend.map(|it| format!("{it:?}").to_lowercase()),
            "complete": complete, "readingHeld": walls.restricts_read_only().is_ok(), "storeKept": walls.guards_state().is_ok(), "enforced": report.enforced, "notEnforced": gaps, "probes": probes,
        });
        print_line(&line.to_string())?;
    } else {
        print_bytes(text(walls, &report, &gaps, &probes, policy).as_bytes())?;
    }
    Ok(if report.backend.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn text(
    walls: &CommandSandbox,
    report: &SandboxReport,
    gaps: &[&String],
    probes: &[(&str, String)],
    policy: &SandboxPolicy,
) -> String {
    let mut out = String::from(if walls.is_wanted() {
        "The sandbox is on: commands run in it.\n"
    } else {
        "The sandbox is off (sandbox.enabled). This is what it would do:\n"
    });
    let shown = SandboxReport { gaps: gaps.iter().map(|it| (*it).clone()).collect(), ..report.clone() };
    out.push_str(&shown.to_string());
    if policy.network == Network::Off {
        out.push_str("  sandbox.network.allowedDomains opens the network for some hosts.\n");
    }
    out.push_str(&match walls.restricts_read_only() {
        Ok(()) => String::from(
            "Commands that run without a question because they only read are held to it, sandbox or not: they write nothing, talk to nobody, and start nothing but installed programs.\n",
        ),
        Err(why) => format!(
            "Commands that only read cannot be held to it here ({why}), so those ask that run a program inside their words or obey files (awk, sed, jq, xargs, cargo, npm).\n"
        ),
    });
    out.push_str(&match walls.guards_state() {
        Ok(()) => String::from(
            "No command can change Haft's own directory, in any mode, sandbox or not: what undo needs stays.\n",
        ),
        Err(why) => format!(
            "Without the sandbox, commands could reach Haft's own directory and what undo needs in it ({why}).\n"
        ),
    });
    out.push_str("Found out just now by trying each in a process of its own:\n");
    for (name, found) in probes {
        out.push_str(&format!("  {name}: {found}\n"));
    }
    haft_console::style::clean(&out)
}

fn confined(
    premises: &SessionEnvironment,
    walls: &CommandSandbox,
    policy: SandboxPolicy,
    command: Vec<OsString>,
) -> CommandExit {
    let mut words = command.into_iter();
    let Some(program) = words.next() else { return Err(CliError::Message(String::from("nothing to run"))) };
    let arguments: Vec<OsString> = words.collect();
    let path = found(&program, premises)?;
    let runtime = runtime()?;
    let _inside = runtime.enter();
    let walls = walls.build(policy, SandboxStrictness::Complete).map_err(|why| {
        CliError::Message(format!("this cannot be confined: {why}. `haft sandbox check` says more"))
    })?;
    let (code, violations) = walls.run(&path, &arguments, &premises.cwd).map_err(|err| {
        let (path, notes) = (path.display(), premises.state_dir().join("sandbox"));
        format!("{path} could not be run in the sandbox, which keeps its notes in {}: {err}", notes.display())
    })?;
    for line in violations {
        print_error(&format!("blocked by sandbox: {line}"));
    }
    Ok(ExitCode::from(u8::try_from(code.clamp(0, 255)).unwrap_or(125)))
}

/// Resolves a program like the shell: a name with `/` relative to the working directory, others in
/// `PATH`.
fn found(program: &OsString, premises: &SessionEnvironment) -> Result<std::path::PathBuf, CliError> {
    if program.as_encoded_bytes().contains(&b'/') {
        return Ok(premises.cwd.join(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|dir| dir.join(program));
    places
        .find(|place| place.is_file())
        .ok_or_else(|| CliError::Message(format!("no program {} in PATH", program.to_string_lossy())))
}
