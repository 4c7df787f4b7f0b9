use std::fmt::Write;

use crate::{
    Behavior, Decision, Destination, PermissionUpdate, RuleText, display_text, rule::CommandPattern,
};

/// A decision for people: the answer, every part with what decided it, what
/// each agent of the chain said, and what would change it.
pub fn explain(decision: &Decision) -> String {
    let mut out = format!("{}: {}\n", decision.behavior, decision.reason);
    for part in &decision.parts {
        let _ = writeln!(out, "  {:5}  {}", part.decision, part.subject);
        if part.reason != decision.reason || 1 < decision.parts.len() {
            let _ = writeln!(out, "         {}", part.reason);
        }
    }
    if !decision.chain.is_empty() {
        out.push_str("agents, the calling one first:\n");
        for link in &decision.chain {
            let _ = writeln!(out, "  {:5}  {}: {}", link.decision, link.agent, link.reason);
        }
    }
    for update in &decision.suggestions {
        let _ = writeln!(out, "to allow it: {}", preview(update).summary);
    }
    for note in &decision.notes {
        let _ = writeln!(out, "{note}");
    }
    out
}

/// What a change would do, shown before it is made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UpdatePreview {
    /// One line: the rules, what they cover, and for how long.
    pub summary: String,
    /// Calls that would run without asking.
    pub matches: Vec<String>,
    /// Similar calls that would still ask.
    pub misses: Vec<String>,
}

/// Shows what a change would do.
pub fn preview(update: &PermissionUpdate) -> UpdatePreview {
    let kept = kept(update.destination());
    let summary =
        |text: String| UpdatePreview { summary: format!("{text} ({kept})"), matches: vec![], misses: vec![] };
    match update {
        PermissionUpdate::AddRules(list) | PermissionUpdate::ReplaceRules(list) => {
            let verb = match list.behavior {
                Behavior::Allow => "allow",
                Behavior::Ask => "ask before",
                Behavior::Deny => "deny",
            };
            let covered: Vec<String> =
                list.rules.iter().map(|rule| format!("`{}`: {}", rule.text(), coverage(rule))).collect();
            let mut preview = summary(format!("{verb} {}", covered.join("; ")));
            for rule in &list.rules {
                examples(rule, &mut preview);
            }
            preview
        }
        PermissionUpdate::RemoveRules(list) => {
            let texts: Vec<String> = list.rules.iter().map(|rule| format!("`{}`", rule.text())).collect();
            summary(format!("remove the {} rules {}", list.behavior, texts.join(", ")))
        }
        PermissionUpdate::SetMode { mode, .. } => summary(format!("go on in {mode} mode")),
        PermissionUpdate::AddDirectories { directories, .. } => {
            let dirs: Vec<String> = directories.iter().map(|dir| display_text::path(dir)).collect();
            summary(format!("add {} to the workspace", dirs.join(", ")))
        }
        PermissionUpdate::RemoveDirectories { directories, .. } => {
            let dirs: Vec<String> = directories.iter().map(|dir| display_text::path(dir)).collect();
            summary(format!("take {} out of the workspace", dirs.join(", ")))
        }
    }
}

fn kept(destination: Destination) -> String {
    if destination.persists() {
        format!("kept in the {}", destination.label())
    } else {
        String::from("until the session ends")
    }
}

fn coverage(rule: &RuleText) -> String {
    let spec = rule.rule_content.as_deref();
    match (&*rule.tool_name, spec.map(str::trim)) {
        (tool, None | Some("*")) => format!("every call of {tool}"),
        ("Read", Some(path)) => format!("reading {}", tree(path)),
        ("Edit", Some(path)) => format!("reading and changing {}", tree(path)),
        ("Bash", Some(command)) => match prefix_of(command) {
            Some(prefix) => format!("commands that start with `{}`", display_text::text(prefix)),
            None if command.contains('*') => {
                format!("commands of the form `{}`, `*` being anything", display_text::text(command))
            }
            None => format!("the command `{}` and no other", display_text::text(command)),
        },
        ("WebFetch", Some(domain)) => {
            format!("fetching from {}", display_text::text(domain.strip_prefix("domain:").unwrap_or(domain)))
        }
        (tool, Some(name)) => format!("{tool} {}", display_text::text(name)),
    }
}

fn tree(path: &str) -> String {
    match path.strip_suffix("/**") {
        Some(dir) => format!("everything below {}", display_text::text(dir.strip_prefix('/').unwrap_or(dir))),
        None => display_text::text(path.strip_prefix('/').unwrap_or(path)),
    }
}

/// What every command begins with that the rule is about, if that is all it says.
fn prefix_of(command: &str) -> Option<&str> {
    let prefix = command.strip_suffix(":*").or_else(|| command.strip_suffix(" *"));
    prefix.filter(|prefix| !prefix.contains('*'))
}

/// Commands a rule would match, and some it would not. A rule about every
/// command needs none.
fn examples(rule: &RuleText, preview: &mut UpdatePreview) {
    let ("Bash", Some(command)) = (&*rule.tool_name, rule.rule_content.as_deref().map(str::trim)) else {
        return;
    };
    if command == "*" {
        return;
    }
    match prefix_of(command) {
        Some(prefix) => {
            preview.matches.push(prefix.to_owned());
            preview.matches.push(format!("{prefix} --any arguments"));
            preview.misses.push(format!("{prefix}x"));
            preview.misses.push(format!("{prefix} && anything else"));
        }
        None => {
            let Ok(pattern) = CommandPattern::parse(command) else { return };
            let filled = command.strip_suffix(":*").unwrap_or(command).replace('*', "anything");
            for example in [filled.clone(), format!("{filled} more")] {
                let matches = pattern.matches_text(&example);
                if matches { &mut preview.matches } else { &mut preview.misses }.push(example);
            }
        }
    }
}
