//! Protection of undo data and state from commands, in every mode.
#![allow(clippy::print_stderr, reason = "test code")]

use haft_sandbox::{BaselinePolicy, BaselineSandbox};
use haft_types::PermissionMode;
use serde_json::json;

use crate::rig::{Place, call, results, run, text};

#[tokio::test]
async fn the_home_and_the_undo_store_outlive_every_command_in_bypass_mode() {
    let somewhere = tempfile::tempdir().unwrap();
    let freeze = vec![somewhere.path().canonicalize().unwrap()];
    if let Err(why) = BaselineSandbox::build(BaselinePolicy { freeze, home: None }) {
        return eprintln!("SKIPPED: {why}");
    }
    for line in [
        "d=HOME; python3 -c 'import shutil,os,sys; shutil.rmtree(os.environ[sys.argv[1]], True)' $d",
        "bash -c 'rm -rf \"$1\"' _ \"$(printf %s \"$HOME\")\"",
        "printf 'rm -rf \"$HOME\"' > x.sh; sh x.sh",
        "env -C / find \"${HOME}\" -delete",
        "perl -e 'rename($ENV{HOME}, \"$ENV{HOME}.gone\")'",
        "rm -rf ~/.haft",
        "find ~/.haft -type f -exec truncate -s0 {} +",
    ] {
        let place = Place::new();
        place.write("home/photos/a.jpg", "picture");
        place.write("home/notes.txt", "notes");
        place.write("home/.cache/x/y", "cache");
        let mut spec = place.spec(vec![
            call("0", "Write", json!({"file_path": "first.txt", "content": "first"})),
            call("1", "Bash", json!({"command": line})),
            text("Done."),
        ]);
        spec.permissions.mode = Some(PermissionMode::BypassPermissions);
        let told = run(spec, "go").await;
        let said = results(&told, place.dir.path());
        for kept in ["photos/a.jpg", "notes.txt"] {
            assert!(place.home().join(kept).exists(), "{line}: {kept}: {said:?}");
        }
        let workspace = haft_workspace::Workspace::open(haft_workspace::WorkspaceConfig {
            state_dir: place.home().join(".haft"),
            root: place.ws(),
            limits: haft_workspace::JournalLimits::default(),
        });
        let history = workspace.unwrap().history().unwrap();
        let is_first = |path: &std::path::Path| path.ends_with("first.txt");
        assert!(
            history.iter().flat_map(|it| &it.entry.changes).any(|it| is_first(&it.path)),
            "{line}: {said:?}"
        );
    }
}

#[tokio::test]
async fn commands_still_do_their_work_in_the_home() {
    let place = Place::new();
    place.write("home/photos/a.jpg", "picture");
    place.write("home/.cache/x/y", "cache");
    let line = "rm -r ~/.cache/x && touch ~/new && mkdir ~/made && echo a > b && mv b c && rm ~/photos/a.jpg && echo worked";
    let mut spec = place.spec(vec![call("1", "Bash", json!({"command": line})), text("Done.")]);
    spec.permissions.mode = Some(PermissionMode::BypassPermissions);
    let said = results(&run(spec, "go").await, place.dir.path());
    assert!(!said[0].1 && said[0].2.contains("worked"), "{said:?}");
}

#[tokio::test]
async fn nobody_else_sees_into_our_own_directory() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    for before in [None, Some(0o755)] {
        let place = Place::new();
        let state = place.home().join(".haft");
        if let Some(mode) = before {
            std::fs::create_dir(&state).unwrap();
            std::fs::set_permissions(&state, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        run(place.spec(vec![text("Done.")]), "go").await;
        assert_eq!(state.metadata().unwrap().mode() & 0o777, 0o700, "{before:?}");
    }
}
