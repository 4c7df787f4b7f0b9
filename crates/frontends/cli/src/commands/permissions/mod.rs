//! `haft permissions`: evaluates calls without running them, lists and edits rules, prints past
//! decisions.

mod batch_test;
mod edit_rules;
mod log;

pub(crate) use edit_rules::unknown_tool;

use std::{process::ExitCode, sync::Arc};

use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, print_bytes, print_line},
    style,
};
use haft_permission::{Behavior, Decision, explain};
use haft_session::judge;
use haft_tool::CallContext;
use serde_json::{Value, json};

use crate::{args::PermissionsCommand, commands::tool::read_input, run::session_spec};

pub(crate) fn run(command: PermissionsCommand, options: &GlobalArgs) -> CommandExit {
    match command {
        PermissionsCommand::Test { batch: true, .. } => batch_test::run(),
        PermissionsCommand::Test { command, .. } => {
            let command = command.unwrap_or_default();
            decide("Bash", json!({"command": command}), None, options)
        }
        PermissionsCommand::Explain { tool, input: Some(input), agent } => {
            decide(&tool, read_input(&input)?, agent.as_deref(), options)
        }
        PermissionsCommand::Explain { tool, input: None, agent } => {
            refuse_bare_name(&tool, options)?;
            decide("Bash", json!({"command": tool}), agent.as_deref(), options)
        }
        PermissionsCommand::List => list(options),
        PermissionsCommand::Allow(args) => edit_rules::add(Behavior::Allow, &args, options),
        PermissionsCommand::Ask(args) => edit_rules::add(Behavior::Ask, &args, options),
        PermissionsCommand::Deny(args) => edit_rules::add(Behavior::Deny, &args, options),
        PermissionsCommand::Revoke { rules } => edit_rules::revoke(&rules, options),
        PermissionsCommand::Log { session } => log::run(session.as_deref(), options),
    }
}

/// Fails if only a tool's name was given where a shell command, or a tool and its input, are expected.
fn refuse_bare_name(name: &str, options: &GlobalArgs) -> Result<(), CliError> {
    let pool = session_spec::premises(options)?.pool()?;
    if pool.names().any(|it| it == name) {
        let help = format!("haft permissions explain {name} '{{…}}'");
        return Err(CliError::Message(format!("{name} is a tool: say with which input, {help}")));
    }
    Ok(())
}

/// Prints the decision on one call. Exit code 0 for allow, 1 for ask, 2 for deny.
fn decide(tool: &str, input: Value, agent: Option<&str>, options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let (policy, pool) = match agent {
        Some(agent) => premises.agent_rights(agent)?,
        None => (premises.policy()?, premises.pool()?),
    };
    let cx = CallContext {
        home: premises.home.as_deref().map(Arc::from),
        ..CallContext::detached("test", premises.cwd.as_path())
    };
    let decision = judge(&policy, &pool, tool, input, &cx);
    let lattice = agent.map(|_| policy.lattice());
    if options.json {
        let mut shown = serde_json::to_value(&decision).map_err(|err| err.to_string())?;
        if let Some(lattice) = lattice {
            shown["agent"] = json!(policy.agent_name());
            shown["levels"] = json!(lattice.lines().collect::<Vec<_>>());
        }
        print_line(&shown.to_string())?;
    } else {
        print_bytes(painted(&decision).as_bytes())?;
        if let Some(lattice) = lattice {
            print_bytes(style::clean(&format!("\n{lattice}")).as_bytes())?;
        }
    }
    Ok(ExitCode::from(match decision.behavior {
        Behavior::Allow => 0,
        Behavior::Ask => 1,
        Behavior::Deny => 2,
    }))
}

fn painted(decision: &Decision) -> String {
    let text = style::clean(&explain(decision));
    let paint = match decision.behavior {
        Behavior::Allow => "32",
        Behavior::Ask => "33",
        Behavior::Deny => "31",
    };
    match text.split_once('\n') {
        Some((first, rest)) => format!("{}\n{rest}", style::painted(first, paint, style::colours())),
        None => text,
    }
}

fn list(options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let policy = premises.policy()?;
    if options.json {
        let rules: Vec<Value> = policy
            .source_rules()
            .iter()
            .map(|rule| json!({"behavior": rule.behavior, "rule": rule.text, "source": rule.origin.label}))
            .collect();
        print_line(&json!({"mode": policy.mode, "rules": rules}).to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = format!("mode: {}\n", policy.mode);
    for behavior in [Behavior::Deny, Behavior::Ask, Behavior::Allow] {
        for rule in policy.source_rules().iter().filter(|rule| rule.behavior == behavior) {
            let source = style::painted(&format!("({})", rule.origin.label), "2", style::colours());
            out.push_str(&style::clean(&format!("{:5}  {}  ", behavior, rule.text)));
            out.push_str(&format!("{source}\n"));
        }
    }
    for warning in policy.warnings() {
        out.push_str(&style::clean(&format!("warning: {}: {}\n", warning.rule.text, warning.message)));
    }
    if let Some(pending) = &premises.loaded().pending_trust {
        out.push_str(&format!("{} settings of this project wait for your trust\n", pending.items.len()));
    }
    print_bytes(out.as_bytes())
}
