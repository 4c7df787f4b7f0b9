//! `haft permissions allow | ask | deny | revoke`: edits rules in settings files.

use std::process::ExitCode;

use haft_config::{ItemKind, PendingItem, PendingTrust, SettingsScope};
use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, print_line},
    style,
};
use haft_permission::{Behavior, Destination, PermissionUpdate, RuleList, RuleText, UpdatePreview, preview};
use haft_session::policy_of_rules;
use haft_types::{PermissionMode, nearest};
use serde_json::json;

use crate::{
    args::{RuleArgs, RuleScope, is_tool_name, tool_names},
    commands::trust,
    run::session_spec,
};

/// Adds rules and prints what they match. An invalid rule is an error, and no rule is added.
pub(super) fn add(behavior: Behavior, args: &RuleArgs, options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let of = |wanted| if wanted == behavior { args.rules.clone() } else { Vec::new() };
    let rules = [Behavior::Allow, Behavior::Ask, Behavior::Deny].map(|it| (it, of(it)));
    let mode = PermissionMode::Default;
    let policy = policy_of_rules(&premises.cwd, premises.home.as_deref(), mode, rules, Vec::new());
    if let Some(warning) = policy.warnings().first() {
        return Err(CliError::Message(format!("{}: {}", warning.rule.text, warning.message)));
    }
    for rule in &args.rules {
        if let Some(why) = unknown_tool(rule) {
            return Err(CliError::Message(format!("nothing was saved: {why}")));
        }
    }
    let (scope, destination) = match args.scope {
        RuleScope::Local => (SettingsScope::Local, Destination::LocalSettings),
        RuleScope::Project => (SettingsScope::Project, Destination::ProjectSettings),
        RuleScope::User => (SettingsScope::User, Destination::UserSettings),
    };
    let added = premises.store.add_to_list(scope, key_of(behavior), &args.rules);
    added.map_err(|err| trust::store_error_text(&premises, &err))?;
    if behavior == Behavior::Allow {
        put_in_force(&args.rules, options)?;
    }
    for rule in &args.rules {
        let list = RuleList { rules: vec![rule_text(rule)], behavior, destination };
        let shown = preview(&PermissionUpdate::AddRules(list));
        if options.json {
            print_line(
                &json!({"rule": rule, "behavior": behavior, "matches": shown.matches, "misses": shown.misses})
                    .to_string(),
            )?
        } else {
            print_line(&told(&shown))?
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The error for a rule whose tool does not exist. MCP tools and patterns are not checked, because a
/// server may be added later.
pub(crate) fn unknown_tool(rule: &str) -> Option<String> {
    let name = rule.split('(').next().unwrap_or_default().trim();
    if name.contains(['*', '?']) || name.starts_with("mcp__") || is_tool_name(name) {
        return None;
    }
    let meant = nearest(name, tool_names().iter().map(String::as_str), 1);
    let hint = match meant.first() {
        Some(meant) => format!("did you mean {}?", rule.replacen(name, meant, 1)),
        None => String::from("`haft tool list` shows the tools"),
    };
    Some(format!("there is no tool {name}, so {rule} matches nothing; {hint}"))
}

/// Trusts these allow rules if they wait for the user's trust in the project: adding a rule on the
/// command line counts as agreement, also for an equal rule that was already in the file.
fn put_in_force(rules: &[String], options: &GlobalArgs) -> Result<(), CliError> {
    let premises = session_spec::premises(options)?;
    let loaded = premises.loaded();
    let Some(pending) = &loaded.pending_trust else { return Ok(()) };
    let said: Vec<String> = rules.iter().map(|rule| json!(rule).to_string()).collect();
    let is_said = |it: &&PendingItem| it.item.kind == ItemKind::AllowRule && said.contains(&it.item.text);
    let items: Vec<PendingItem> = pending.items.iter().filter(is_said).cloned().collect();
    if items.is_empty() {
        return Ok(());
    }
    let trusted = premises.store.trust(&PendingTrust { folder: pending.folder.clone(), items });
    trusted.map(drop).map_err(|err| {
        let why = trust::store_error_text(&premises, &err);
        CliError::Message(format!("the rule is written but not in force, trust could not be kept: {why}"))
    })
}

/// Removes rules from every settings file of the user and the project that contains them. Fails if no
/// rule in force has exactly this text.
pub(super) fn revoke(rules: &[String], options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let policy = premises.policy()?;
    let known = policy.source_rules();
    for rule in rules {
        let standing: Vec<_> = known.iter().filter(|it| *it.text == **rule).collect();
        if standing.is_empty() {
            return Err(CliError::Message(format!(
                "no rule {rule} is in force; `haft permissions list` shows the rules as they are written"
            )));
        }
        for entry in standing {
            let scope = match entry.origin.destination {
                Some(Destination::UserSettings) => SettingsScope::User,
                Some(Destination::ProjectSettings) => SettingsScope::Project,
                Some(Destination::LocalSettings) => SettingsScope::Local,
                _ => {
                    let place = &entry.origin.label;
                    let why = format!("{rule} stands in {place} and cannot be taken back from here");
                    return Err(CliError::Message(why));
                }
            };
            let (key, texts) = (key_of(entry.behavior), std::slice::from_ref(rule));
            premises.store.remove_from_list(scope, key, texts).map_err(|err| err.to_string())?;
        }
    }
    // The rule may also be in a file of another agent, which Haft does not change.
    let left = session_spec::premises(options)?.policy()?;
    for rule in rules {
        if let Some(entry) = left.source_rules().iter().find(|it| *it.text == **rule) {
            let place = &entry.origin.label;
            return Err(CliError::Message(format!("{rule} still stands in {place}; take it out there")));
        }
        print_line(&format!("taken back: {}", style::clean(rule)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn key_of(behavior: Behavior) -> &'static str {
    match behavior {
        Behavior::Allow => "permissions.allow",
        Behavior::Ask => "permissions.ask",
        Behavior::Deny => "permissions.deny",
    }
}

/// Splits a rule into tool and pattern. The rule was already parsed successfully.
fn rule_text(rule: &str) -> RuleText {
    match rule.strip_suffix(')').and_then(|it| it.split_once('(')) {
        Some((tool, spec)) => RuleText { tool_name: tool.to_owned(), rule_content: Some(spec.to_owned()) },
        None => RuleText { tool_name: rule.to_owned(), rule_content: None },
    }
}

fn told(shown: &UpdatePreview) -> String {
    let mut text = shown.summary.clone();
    for (what, examples) in [("matches", &shown.matches), ("does not match", &shown.misses)] {
        for example in examples {
            text.push_str(&format!("\n  {what}: {example}"));
        }
    }
    style::clean(&text)
}
