//! The baseline sandbox, which applies to commands in every mode.
#![allow(clippy::print_stderr, clippy::unwrap_used, missing_docs, reason = "test code")]

use std::{fs, path::Path, process::Command, sync::Arc};

use haft_sandbox::{BaselinePolicy, BaselineSandbox, HomeProtection};

/// Runs a command line in the sandbox. Returns whether it succeeded.
fn run(walls: &Arc<BaselineSandbox>, dir: &Path, line: &str) -> bool {
    let (dir, line) = (dir.to_owned(), line.to_owned());
    let ran = walls.run(move || Command::new("bash").args(["-c", &line]).current_dir(dir).status());
    ran.unwrap().unwrap().success()
}

struct Place {
    _dir: tempfile::TempDir,
    home: std::path::PathBuf,
}

/// A home directory with a workspace, pictures, a cache, keys and Haft's own directory.
fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().canonicalize().unwrap().join("home");
    for name in [
        "ws/src",
        "pictures/old",
        ".cache/tool",
        ".ssh",
        ".haft/journal",
        "go/pkg",
        "code/mine",
        "code/other",
    ] {
        fs::create_dir_all(home.join(name)).unwrap();
        fs::write(home.join(name).join("file"), "x").unwrap();
    }
    fs::write(home.join("notes.txt"), "x").unwrap();
    Place { _dir: dir, home }
}

#[test]
fn baseline_frozen_paths_survive_any_command() {
    let Place { home, .. } = &place();
    let store = home.join(".haft");
    let walls = match BaselineSandbox::build(BaselinePolicy { freeze: vec![store.clone()], home: None }) {
        Ok(walls) => walls,
        Err(why) => return eprintln!("SKIPPED: {why}"),
    };
    for line in [
        "rm -rf .haft",
        "rm -rf .haft/journal",
        "echo y > .haft/journal/file",
        "truncate -s0 .haft/journal/file",
        "mv .haft elsewhere",
        "mv .haft/journal/file .",
        "ln -sfn /tmp .haft/journal",
        "chmod 000 .haft/journal",
        "find .haft -delete",
        "touch .haft/new",
        "python3 -c 'import shutil; shutil.rmtree(\".haft\")'",
        "cd .. && rm -rf home/.haft",
    ] {
        run(&walls, home, line);
        let kept = fs::read_to_string(store.join("journal/file"));
        assert_eq!(kept.ok().as_deref(), Some("x"), "{line}");
    }
    // Everything else works, and changes from outside are visible inside.
    assert!(run(
        &walls,
        home,
        "rm -r pictures/old && mv notes.txt ws/ && touch new && ln ws/notes.txt again"
    ));
    fs::write(store.join("later"), "y").unwrap();
    assert!(run(&walls, home, "grep -q y .haft/later"));
    // The home survives an attempt to delete it.
    run(&walls, home, "cd / && rm -rf \"$OLDPWD\"");
    assert!(store.join("journal/file").exists() && !home.join("pictures").exists());
}

#[test]
fn baseline_home_keeps_entries_the_command_does_not_name() {
    for (line, kept) in [
        ("cd ws && rm -r src; rm -rf \"$OLDPWD\"", "pictures/old/file"),
        (
            "python3 -c 'import shutil, os; shutil.rmtree(os.getcwd(), ignore_errors=True)'",
            "pictures/old/file",
        ),
        ("find . -delete", "notes.txt"),
        ("printf %s \"$PWD\" | xargs rm -rf", ".ssh/file"),
        ("cd .. && mv home elsewhere", "notes.txt"),
        ("perl -e 'rename(\"../home\", \"../gone\")'", "notes.txt"),
        ("rm -f notes.txt", "notes.txt"),
        ("mv pictures ..", "pictures/old/file"),
        ("truncate -s0 notes.txt pictures/old/file; echo y > notes.txt", "notes.txt"),
        ("rm -rf code", "code/other/file"),
    ] {
        let Place { home, .. } = &place();
        let roots = [home.join("ws"), home.join("code/mine")];
        let policy = BaselinePolicy { freeze: Vec::new(), home: HomeProtection::new(home, &roots, &[]) };
        assert!(policy.home.is_some());
        let walls = match BaselineSandbox::build(policy) {
            Ok(walls) => walls,
            Err(why) => return eprintln!("SKIPPED: {why}"),
        };
        let works = "cd ws && touch a && mv a b && rm b && rm -rf ../.cache/tool ../go/pkg && touch ../new \
            && mkdir -p ../.fresh/x && touch ../.fresh/x/1 && mv ../.fresh/x/1 ../.fresh/2 && rm ../.fresh/2 \
            && echo x > ../.config.lock && mv ../.config.lock ../.config && rm ../code/mine/file && echo y > ../code/mine/new";
        assert!(run(&walls, home, works), "{works}");
        run(&walls, home, line);
        assert_eq!(fs::read_to_string(home.join(kept)).ok().as_deref(), Some("x"), "{line}");
    }
}

#[test]
fn baseline_home_leaves_named_and_workspace_paths_writable() {
    let Place { home, .. } = &place();
    let ws = home.join("ws");
    let of = |roots: &[&Path], named: &[&Path]| {
        let owned = |list: &[&Path]| list.iter().map(|it| it.to_path_buf()).collect::<Vec<_>>();
        HomeProtection::new(home, &owned(roots), &owned(named))
    };
    assert_eq!(of(&[home], &[]), None, "the home is the workspace");
    assert_eq!(of(&[home.parent().unwrap()], &[]), None);
    let kept = of(&[&ws], &[&home.join("notes.txt"), &home.join("pictures/old")]).unwrap();
    for (name, stays) in [
        ("ws", false),
        (".cache", false),
        ("go", false),
        ("notes.txt", false),
        ("pictures", true),
        (".ssh", true),
    ] {
        assert_eq!(kept.freeze.contains(&home.join(name)), stays, "{name}");
    }
    assert_eq!(kept.open, [home.join("pictures/old")]);
    let made = of(&[&ws], &[&home.join("new"), &home.join("pictures/new.jpg")]).unwrap();
    assert!(!made.freeze.contains(&home.join("pictures")) && made.freeze.contains(&home.join("notes.txt")));
    let bare = tempfile::tempdir().unwrap();
    for name in ["ws", ".npm", ".ssh", ".haft"] {
        fs::create_dir_all(bare.path().join(name)).unwrap();
    }
    assert_eq!(
        HomeProtection::new(bare.path(), &[bare.path().join("ws")], &[]),
        None,
        "there is nothing to keep"
    );
}
