use std::path::{Path, PathBuf};

use haft_tool::{CallContext, CommandLine};
use haft_types::PermissionMode;

use crate::{
    Behavior, CommandContext, Destination, PermissionUpdate, Policy, RuleList, RuleText,
    evaluate::NeededAllowance, rule::escape,
};

/// Maximum number of rules per suggestion.
const MAX_RULES: usize = 5;

/// Suggests updates that would allow the same call next time, as narrow as a user would write them.
pub(crate) fn suggest(
    policy: &Policy,
    wishes: &[NeededAllowance],
    cx: &CallContext,
) -> Vec<PermissionUpdate> {
    let mut updates: Vec<PermissionUpdate> = Vec::new();
    let mut add = |update: PermissionUpdate| {
        if !updates.contains(&update) {
            updates.push(update);
        }
    };
    for wish in wishes {
        match wish {
            NeededAllowance::Tool(tool) => add(rules(vec![rule(tool, None)], Destination::LocalSettings)),
            NeededAllowance::Named { tool, name } => {
                add(rules(vec![rule(tool, Some(name.clone()))], Destination::LocalSettings));
            }
            NeededAllowance::Fetch(host) => {
                let spec = Some(format!("domain:{host}"));
                add(rules(vec![rule("WebFetch", spec)], Destination::LocalSettings));
            }
            NeededAllowance::Read { forms } => add(path_rules(policy, "Read", forms, cx)),
            NeededAllowance::Edit { forms, inside: true } => {
                let (mode, destination) = (PermissionMode::AcceptEdits, Destination::Session);
                add(PermissionUpdate::SetMode { mode, destination });
                let files = forms.iter().map(|form| rule("Edit", Some(absolute(form))));
                add(rules(files.collect(), destination));
            }
            NeededAllowance::Edit { forms, inside: false } => add(path_rules(policy, "Edit", forms, cx)),
            NeededAllowance::Line(line) => {
                let found = command_rules(policy, line, cx);
                if !found.is_empty() {
                    add(rules(found, Destination::LocalSettings));
                }
            }
        }
    }
    updates
}

/// Suggests the directory of each path if it belongs to the user and is specific enough, else only the
/// file. System directories and hidden directories in the home directory are never suggested as a whole.
fn path_rules(policy: &Policy, tool: &str, forms: &[PathBuf], cx: &CallContext) -> PermissionUpdate {
    let anchors = policy.anchors(cx);
    let spec = |path: &PathBuf| match path.parent() {
        Some(dir) if !anchors.is_broad(dir) && is_narrow(dir) => format!("{}/**", absolute(dir)),
        _ => absolute(path),
    };
    let texts = forms.iter().map(|form| rule(tool, Some(spec(form))));
    rules(texts.collect(), Destination::Session)
}

/// Whether a directory is specific enough.
fn is_narrow(dir: &Path) -> bool {
    let system = [
        "/bin", "/boot", "/dev", "/etc", "/lib", "/opt", "/proc", "/root", "/run", "/sbin", "/sys", "/usr",
        "/var",
    ];
    let hidden = dir.components().any(|it| it.as_os_str().as_encoded_bytes().starts_with(b"."));
    3 < dir.components().count() && !hidden && !system.iter().any(|it| dir.starts_with(it))
}

fn command_rules(policy: &Policy, line: &CommandLine, cx: &CallContext) -> Vec<RuleText> {
    let anchors = policy.anchors(cx);
    let roots = anchors.root_paths();
    let home = cx.home.as_deref().or_else(|| policy.home());
    let place = CommandContext { cwd: &cx.cwd, home, roots: &roots };
    let proposed = policy.commands().propose(line, &place);
    proposed.into_iter().take(MAX_RULES).map(|spec| rule("Bash", Some(spec))).collect()
}

/// An absolute path in path rule syntax.
fn absolute(path: &Path) -> String {
    format!("/{}", escape(&path.to_string_lossy()))
}

fn rule(tool: &str, spec: Option<String>) -> RuleText {
    RuleText { tool_name: tool.to_owned(), rule_content: spec }
}

fn rules(mut rules: Vec<RuleText>, destination: Destination) -> PermissionUpdate {
    rules.dedup();
    PermissionUpdate::AddRules(RuleList { rules, behavior: Behavior::Allow, destination })
}
