//! Generates the reference page about hook events.

use crate::{BlockEffect, ErrorEffect, HandlerKind, HookEvent};

/// Answers and failures, as Markdown.
const ANSWERS: &str = include_str!("reference_answers.md");

/// The page: answers and failures, then for each event when it occurs, the effect of a denial and of a
/// failed hook, and its fields.
pub fn events_page() -> String {
    let mut page = String::from(
        "# Hooks\n\nEvents, what a hook gets, what it may answer, and what happens when it fails. How to write one: \
         [Hooks](../guides/hooks.md). Written by `cargo xtask docs`; do not edit.\n",
    );
    page.push_str(ANSWERS);
    page.push_str(
        "\n## Events\n\n| event | when | a denial | a failed hook | timeout of a command |\n|---|---|---|---|---|\n",
    );
    for event in HookEvent::ALL.iter().filter(|event| event.happens()) {
        page.push_str(&row(*event));
    }
    let silent: Vec<String> =
        HookEvent::ALL.iter().filter(|event| !event.happens()).map(|event| format!("`{event}`")).collect();
    page.push_str(&format!(
        "\nEvents that are known and never happen in Haft: {}. A hook for one of them is accepted and never runs.\n",
        silent.join(", ")
    ));
    page.push_str(
        "\nEvery hook gets `hook_event_name`, `session_id`, `transcript_path`, `cwd`, and where there is one \
         `prompt_id`, `permission_mode`, `agent_id`, `agent_type` and `effort`; in addition:\n",
    );
    for event in HookEvent::ALL.iter().filter(|event| !event.input_fields().is_empty()) {
        page.push_str(&format!("\n### {event}\n\n| field | |\n|---|---|\n"));
        for (name, about) in event.input_fields() {
            page.push_str(&format!("| `{name}` | {} |\n", about.trim().replace('|', "\\|")));
        }
    }
    page
}

fn row(event: HookEvent) -> String {
    let no = match event.block_effect() {
        _ if event == HookEvent::PermissionRequest => "answers in place of the user",
        BlockEffect::Prevents => "prevents it",
        BlockEffect::TellsModel => "is reported to the model",
        BlockEffect::Nothing => "is shown to the user",
    };
    let broken = match event.default_on_error() {
        ErrorEffect::Closed => "counts as a denial; a failing command does not",
        ErrorEffect::Open => "is ignored",
    };
    let time = event.default_timeout(HandlerKind::Command).as_secs_f64();
    let about = event.about().trim_end_matches('.');
    format!("| `{event}` | {about} | {no} | {broken} | {time} s |\n")
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// The program's source, without this crate and tests.
    fn sources(dir: &Path, out: &mut String) {
        for path in fs::read_dir(dir).unwrap().map(|it| it.unwrap().path()) {
            let is_ours = !["tests", "benches", "hooks", "target"].iter().any(|it| path.ends_with(it));
            if path.is_dir() && is_ours {
                sources(&path, out);
            } else if path.extension().is_some_and(|it| it == "rs") {
                out.push_str(&fs::read_to_string(&path).unwrap());
            }
        }
    }

    #[test]
    fn event_happens_matches_where_events_are_created() {
        let mut source = String::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), &mut source);
        // Typed events are created where their type is used.
        for event in HookEvent::ALL.iter().filter(|event| event.input_fields().is_empty()) {
            let makes = [format!("event: HookEvent::{event}"), format!("run(HookEvent::{event}")];
            let is_made = makes.iter().any(|it| source.contains(it));
            assert_eq!(is_made, event.happens(), "{event}");
        }
    }
}
