//! Workspace directories in addition to the working directory.

use haft_permission::{Destination, PermissionUpdate};
use haft_session::{Prompt, Session};
use haft_tool_runtime::PermissionAnswer;
use haft_types::PermissionMode;
use serde_json::json;

use crate::{
    agents::main_results,
    known_pitfalls::{asked, until_turn_ends},
    rig::{Place, Said, call},
};

/// Commands can change into additional directories and stay there, whether given at the start or added
/// by an answer.
#[tokio::test]
async fn commands_work_in_added_directories() {
    for from_start in [true, false] {
        let place = Place::new();
        place.write("other/kept.txt", "before\n");
        let other = place.ws().parent().unwrap().join("other").canonicalize().unwrap();
        let named = other.clone();
        let (mut spec, _) = place.answering(move |request| match request.messages.len() {
            1 => Said::Blocks(call("w", "Write", json!({"file_path": named.join("new"), "content": "x"}))),
            3 => Said::Blocks(call("c", "Bash", json!({"command": format!("cd {}", named.display())}))),
            5 => Said::Blocks(call("p", "Bash", json!({"command": "pwd"}))),
            _ => Said::text("done"),
        });
        if from_start {
            spec.place.extra_dirs = vec![other.clone()];
        }
        let (handle, mut events) = Session::open(asked(spec, PermissionMode::Default)).unwrap();
        handle.prompt(Prompt::text("go"));
        let directories = vec![other.clone()];
        let add = PermissionUpdate::AddDirectories { directories, destination: Destination::Session };
        let all = until_turn_ends(&handle, &mut events, |tool| {
            let updates = if tool == "Write" && !from_start { vec![add.clone()] } else { Vec::new() };
            Some(PermissionAnswer::Allow { updated_input: None, updates })
        });
        let said = main_results(&all.await);
        assert_eq!(said[2].1.lines().next(), Some(&*other.display().to_string()), "{from_start}: {said:?}");
        handle.close().await;
    }
}
