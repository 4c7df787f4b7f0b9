//! Import from Claude Code: Haft reads its files in place, so only a report is made.

use std::path::Path;

use serde_json::Value;

use super::{ImportDirs, dirs_with, files_in, import_plan::ImportPlan, text_of};

pub(super) fn plan(places: &ImportDirs, plan: &mut ImportPlan) {
    let own = places.own.clone().unwrap_or_else(|| places.home.join(".claude"));
    let roots = [(own.clone(), "every project"), (places.project.join(".claude"), "this project")];
    for (root, whose) in &roots {
        for name in ["settings.json", "settings.local.json", "CLAUDE.md"] {
            read_in_place(&root.join(name), whose, plan);
        }
        for (dir, what) in [("agents", "agents"), ("commands", "commands"), ("output-styles", "styles")] {
            let count = count_of_files(&root.join(dir), 0);
            if count > 0 {
                plan.in_place(root.join(dir).display().to_string(), format!("{count} {what} for {whose}"));
            }
        }
        if root.join("plugins").is_dir() {
            let ours = format!("installed plugins for {whose}: `haft plugins` lists them");
            plan.in_place(root.join("plugins").display().to_string(), ours);
        }
        let skills = dirs_with(&root.join("skills"), "SKILL.md").len();
        if skills > 0 {
            plan.in_place(root.join("skills").display().to_string(), format!("{skills} skills for {whose}"));
        }
        let talks = root.join("projects");
        if talks.is_dir() {
            plan.add_skipped(
                talks.display().to_string(),
                "earlier conversations stay there; Haft writes logs of its own",
            );
        }
    }
    for name in ["CLAUDE.md", "CLAUDE.local.md", ".mcp.json"] {
        read_in_place(&places.project.join(name), "this project", plan);
    }
    let json = match &places.own {
        Some(own) => own.join(".claude.json"),
        None => places.home.join(".claude.json"),
    };
    if let Some(text) = text_of(&json, plan) {
        let servers = serde_json::from_str::<Value>(&text)
            .map(|it| it["mcpServers"].as_object().map_or(0, |it| it.len()));
        match servers {
            Ok(count) => {
                plan.in_place(json.display().to_string(), format!("{count} MCP servers for every project"))
            }
            Err(err) => plan.add_skipped(json.display().to_string(), format!("it is broken: {err}")),
        }
    }
    let login = own.join(".credentials.json");
    if login.is_file() {
        plan.add_skipped(
            login.display().to_string(),
            "a login of a subscription is for its own program; `haft login` keeps an API key",
        );
    }
}

/// Reports a file that Haft reads in place, or the error in it.
fn read_in_place(path: &Path, whose: &str, plan: &mut ImportPlan) {
    let Some(text) = text_of(path, plan) else { return };
    let file = path.display().to_string();
    let is_json = path.extension().is_some_and(|it| it == "json");
    match serde_json::from_str::<Value>(&text) {
        Err(err) if is_json => plan.add_skipped(file, format!("it is broken: {err}")),
        _ => plan.in_place(file, format!("read by Haft for {whose}")),
    }
}

/// Counts Markdown files, including subdirectories up to 8 levels below.
fn count_of_files(dir: &Path, depth: usize) -> usize {
    const DEEPEST: usize = 8;
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let below = entries.filter(|it| depth < DEEPEST && it.file_type().is_ok_and(|kind| kind.is_dir()));
    files_in(dir, "md").len() + below.map(|it| count_of_files(&it.path(), depth + 1)).sum::<usize>()
}
