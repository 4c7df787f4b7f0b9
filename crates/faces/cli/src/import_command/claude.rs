//! Claude Code: everything is read where it is.

use super::{ImportPlaces, dirs_with, files_in, plan::ImportPlan, text_of};
use serde_json::Value;

pub(super) fn plan(places: &ImportPlaces, plan: &mut ImportPlan) {
    let own = places.own.clone().unwrap_or_else(|| places.home.join(".claude"));
    let roots = [(own.clone(), "every project"), (places.project.join(".claude"), "this project")];
    for (root, whose) in &roots {
        for name in ["settings.json", "settings.local.json", "CLAUDE.md"] {
            let path = root.join(name);
            if path.is_file() {
                plan.in_place(path.display().to_string(), format!("read by Haft for {whose}"));
            }
        }
        for (dir, what) in [("agents", "agents"), ("commands", "commands")] {
            let count = files_in(&root.join(dir), "md").len();
            if count > 0 {
                plan.in_place(root.join(dir).display().to_string(), format!("{count} {what} for {whose}"));
            }
        }
        let skills = dirs_with(&root.join("skills"), "SKILL.md").len();
        if skills > 0 {
            plan.in_place(root.join("skills").display().to_string(), format!("{skills} skills for {whose}"));
        }
        for (dir, why) in [
            (
                "plugins",
                "plugins of a marketplace are not installed by Haft; --plugin-dir takes one for a run",
            ),
            ("output-styles", ""),
            ("projects", "earlier conversations stay there; Haft writes logs of its own"),
        ] {
            let path = root.join(dir);
            if path.is_dir() && !why.is_empty() {
                plan.not_taken(path.display().to_string(), why);
            }
        }
    }
    for name in ["CLAUDE.md", "CLAUDE.local.md", ".mcp.json"] {
        let path = places.project.join(name);
        if path.is_file() {
            plan.in_place(path.display().to_string(), "read by Haft for this project");
        }
    }
    let json = match &places.own {
        Some(own) => own.join(".claude.json"),
        None => places.home.join(".claude.json"),
    };
    if let Some(text) = text_of(&json) {
        let servers = serde_json::from_str::<Value>(&text)
            .map(|it| it["mcpServers"].as_object().map_or(0, |it| it.len()));
        match servers {
            Ok(count) => {
                plan.in_place(json.display().to_string(), format!("{count} MCP servers for every project"))
            }
            Err(err) => plan.not_taken(json.display().to_string(), format!("it is broken: {err}")),
        }
    }
    let login = own.join(".credentials.json");
    if login.is_file() {
        plan.not_taken(
            login.display().to_string(),
            "a login of a subscription is for its own program; `haft login` keeps an API key",
        );
    }
}
