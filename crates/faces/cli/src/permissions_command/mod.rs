//! `haft permissions test | explain | list`: decisions without running anything.

mod batch;
mod phantom;

use std::{path::Path, process::ExitCode, sync::Arc};

use haft_permission::{Behavior, Decision, Opinion, Policy, explain};
use haft_tool::CallContext;
use haft_types::PermissionMode;
use serde_json::{Value, json};

use crate::{
    args::{Options, PermissionsCommand},
    output::{Ended, Failure, print_bytes, print_line},
    show,
    tool_command::read_input,
    wiring::{Setup, policy_of_rules},
};

pub(crate) fn run(command: PermissionsCommand, options: &Options) -> Ended {
    match command {
        PermissionsCommand::Test { batch: true, .. } => batch::run(),
        PermissionsCommand::Test { command, .. } => {
            let command = command.unwrap_or_default();
            decide("Bash", json!({"command": command}), options)
        }
        PermissionsCommand::Explain { tool, input: Some(input) } => {
            decide(&tool, read_input(&input)?, options)
        }
        PermissionsCommand::Explain { tool, input: None } => {
            decide("Bash", json!({"command": tool}), options)
        }
        PermissionsCommand::List => list(options),
    }
}

/// Shows the decision on one call; exits with 0 for allow, 1 for ask, 2 for
/// deny, so that scripts can branch on it.
fn decide(tool: &str, input: Value, options: &Options) -> Ended {
    let setup = Setup::new(options)?;
    let policy = setup.policy()?;
    let pool = setup.pool()?;
    let cx = CallContext {
        home: setup.home.as_deref().map(Arc::from),
        ..CallContext::detached("test", setup.cwd.as_path())
    };
    let decision = judge(&policy, &pool, tool, input, &cx);
    if options.json {
        print_line(&serde_json::to_string(&decision).map_err(|err| err.to_string())?)?;
    } else {
        print_bytes(painted(&decision).as_bytes())?;
    }
    Ok(ExitCode::from(match decision.behavior {
        Behavior::Allow => 0,
        Behavior::Ask => 1,
        Behavior::Deny => 2,
    }))
}

/// Judges a call of a tool that may not even exist here.
fn judge(policy: &Policy, pool: &haft_runtime::Pool, tool: &str, input: Value, cx: &CallContext) -> Decision {
    let call = phantom::call(pool, tool, input, cx);
    let name = pool.get(tool).map_or(tool, |tool| tool.name());
    policy.judge(name, call.as_ref(), cx, &Opinion::None)
}

/// Whether rules for these commands speak for every part of a command line that
/// does more than read.
pub(crate) fn rules_cover(patterns: &[String], line: &str, cwd: &Path, home: Option<&Path>) -> bool {
    let pool = haft_runtime::Pool::assemble(Vec::new(), Vec::new());
    let cx = CallContext { home: home.map(Arc::from), ..CallContext::detached("sandbox", cwd) };
    let allows = |rules: Vec<String>| {
        let rules = [(Behavior::Allow, rules), (Behavior::Ask, Vec::new()), (Behavior::Deny, Vec::new())];
        let policy = policy_of_rules(cwd, home, PermissionMode::Default, rules, Vec::new());
        let input = serde_json::json!({"command": line});
        judge(&policy, &pool, "Bash", input, &cx).behavior == Behavior::Allow
    };
    !allows(Vec::new()) && allows(patterns.iter().map(|it| format!("Bash({it})")).collect())
}

fn painted(decision: &Decision) -> String {
    let text = show::clean(&explain(decision));
    let paint = match decision.behavior {
        Behavior::Allow => "32",
        Behavior::Ask => "33",
        Behavior::Deny => "31",
    };
    match text.split_once('\n') {
        Some((first, rest)) => format!("{}\n{rest}", show::painted(first, paint, show::colours())),
        None => text,
    }
}

fn list(options: &Options) -> Ended {
    let setup = Setup::new(options)?;
    let policy = setup.policy()?;
    if options.json {
        let rules: Vec<Value> = policy
            .rules_as_written()
            .iter()
            .map(|rule| json!({"behavior": rule.behavior, "rule": rule.text, "source": rule.origin.label}))
            .collect();
        print_line(&json!({"mode": policy.mode, "rules": rules}).to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = format!("mode: {}\n", policy.mode);
    for behavior in [Behavior::Deny, Behavior::Ask, Behavior::Allow] {
        for rule in policy.rules_as_written().iter().filter(|rule| rule.behavior == behavior) {
            let source = show::painted(&format!("({})", rule.origin.label), "2", show::colours());
            out.push_str(&show::clean(&format!("{:5}  {}  ", behavior, rule.text)));
            out.push_str(&format!("{source}\n"));
        }
    }
    for warning in policy.warnings() {
        out.push_str(&show::clean(&format!("warning: {}: {}\n", warning.rule.text, warning.message)));
    }
    if let Some(pending) = &setup.loaded.pending_trust {
        out.push_str(&format!("{} settings of this project wait for your trust\n", pending.items.len()));
    }
    print_bytes(out.as_bytes())
}

impl From<Decision> for Failure {
    fn from(decision: Decision) -> Self {
        Self::Message(decision.reason)
    }
}
