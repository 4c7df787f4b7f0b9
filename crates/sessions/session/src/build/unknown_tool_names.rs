//! Reports unknown tool names in flags and rules: a misspelt deny rule forbids nothing.

use std::sync::Arc;

use haft_permission::{Behavior, Destination, Names, Policy};
use haft_tool::DynTool;
use haft_types::nearest;

use crate::{EventSender, SessionSpec};

/// Reports names in the spec and in deny and ask rules that match no tool. Skips MCP tools, which are
/// added later, and rules of settings files about tools of other programs, unless they look like a typo.
pub(super) fn tell_unknown(
    policy: &Policy,
    spec: &SessionSpec,
    all: &[Arc<dyn DynTool>],
    events: &EventSender,
) {
    let names = Names::built_in();
    let mut known: Vec<String> = TOOLS_OF_SESSIONS.map(str::to_owned).to_vec();
    for tool in all.iter().chain(&spec.tools.own) {
        known.push(tool.name().to_owned());
        known.extend(tool.aliases());
    }
    let is_known = |name: &str| known.iter().any(|it| it == name || it == names.canonical(name));
    let meant =
        |name: &str| nearest(name, known.iter().map(String::as_str), 1).first().map(|it| (*it).to_owned());
    for name in spec.tools.only.iter().flatten().filter(|it| !is_pattern(it) && !is_known(it)) {
        let hint = meant(name).map(|it| format!("; did you mean {it}?")).unwrap_or_default();
        events.notice(format!("--tools: there is no tool {name}{hint}"));
    }
    for rule in policy.source_rules() {
        let name = rule.text.split('(').next().unwrap_or_default().trim();
        if name.is_empty() || is_pattern(name) || is_known(name) {
            continue;
        }
        let meant = meant(name);
        let is_slip = meant.as_ref().is_some_and(|it| it.len().abs_diff(name.len()) <= 2);
        let is_flag = matches!(rule.origin.destination, Some(Destination::CliArg | Destination::Session));
        // Allow rules in settings files may be meant for other programs that share them.
        let is_told = match rule.behavior {
            Behavior::Allow => is_slip && rule.origin.destination == Some(Destination::CliArg),
            _ => is_slip || is_flag,
        };
        if is_told {
            let hint = meant.map(|it| format!("; did you mean {it}?")).unwrap_or_default();
            let effect = match rule.behavior {
                Behavior::Allow => "allows",
                Behavior::Deny => "forbids",
                _ => "asks before",
            };
            events.notice(format!(
                "the {} rule {} ({}) {effect} nothing: there is no tool {name}{hint}",
                rule.behavior, rule.text, rule.origin.label
            ));
        }
    }
}

/// Names of tools that depend on what a session is opened with.
pub const TOOLS_OF_SESSIONS: [&str; 7] =
    ["ToolSearch", "StructuredOutput", "Skill", "Agent", "WebFetch", "WebSearch", "AskUserQuestion"];

fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?']) || name.starts_with("mcp__")
}
