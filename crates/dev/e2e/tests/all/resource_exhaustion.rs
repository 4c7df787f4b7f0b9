//! A machine without resources: full home, read-only home, too few threads.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs, reason = "test code")]

use std::{
    path::Path,
    process::{Command, Output},
};

use crate::common::Haft;
use haft_testkit::haft_binary;

/// A home on a tmpfs that is full or read-only. Unmounted when dropped.
struct MountedHome<'a>(&'a Path);

impl<'a> MountedHome<'a> {
    fn mount(at: &'a Path, options: &str) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at);
        mount.output().ok()?.status.success().then_some(Self(at))
    }
}

impl Drop for MountedHome<'_> {
    fn drop(&mut self) {
        Command::new("umount").arg(self.0).output().ok();
    }
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// With an unwritable home reading, commands and edits still work, and what does not is reported.
#[test]
fn a_home_that_takes_nothing_keeps_nobody_from_working() {
    for options in ["size=64k", "ro"] {
        let haft = Haft::new();
        haft.write("a.txt", "alpha\n");
        let home = haft.home();
        let Some(_mounted) = MountedHome::mount(&home, options) else {
            return eprintln!("SKIPPED: a tmpfs cannot be mounted here (needs root)");
        };
        if options != "ro" {
            let full = std::fs::write(home.join("fill"), vec![0; 1 << 20]);
            assert!(full.is_err(), "the home is not full");
        }
        let temp = haft.dir.path().join("temp");
        std::fs::create_dir_all(&temp).unwrap();
        let run = |args: &[&str]| haft.command().args(args).env("TMPDIR", &temp).output().unwrap();
        let call = |name: &str, input: &str| {
            run(&["tool", "call", name, input, "--permission-mode", "bypassPermissions"])
        };
        let read = call("Read", r#"{"file_path": "a.txt"}"#);
        assert!(read.status.success() && said(&read).contains("alpha"), "{options}: {}", said(&read));
        let ran = call("Bash", r#"{"command": "seq 5000 6000; echo done"}"#);
        assert!(ran.status.success() && said(&ran).contains("done"), "{options}: {}", said(&ran));
        assert!(said(&ran).contains("cannot be written"), "{options}: {}", said(&ran));
        let wrote = call("Write", r#"{"file_path": "b.txt", "content": "new\n"}"#);
        assert!(wrote.status.success(), "{options}: {}", said(&wrote));
        assert_eq!(std::fs::read_to_string(haft.ws().join("b.txt")).unwrap(), "new\n");
        // The sandbox is still set up and verified.
        let check = run(&["sandbox", "check"]);
        assert!(!said(&check).contains("cannot be used"), "{options}: {}", said(&check));
        if check.status.success() {
            let held = run(&["sandbox", "run", "--", "sh", "-c", "echo held"]);
            // The sandbox stores its records on disk; without space none is set up.
            let told = ["held", "this cannot be confined: ", "keeps its notes in "];
            assert!(told.iter().any(|it| said(&held).contains(it)), "{options}: {}", said(&held));
            assert!(options != "ro" || !said(&held).contains("notes in"), "{}", said(&held));
        }
        // With a read-only home the undo journal is in the temporary directory. Without space there is
        // none, which is reported before anything changes.
        let undo = run(&["undo"]);
        assert_eq!(undo.status.success(), options == "ro", "{options}: {}", said(&undo));
        assert_eq!(haft.ws().join("b.txt").exists(), options != "ro", "{options}: {}", said(&undo));
        assert!(!said(&undo).contains("panicked"), "{options}: {}", said(&undo));
        let told = String::from_utf8_lossy(&wrote.stderr).contains("changes cannot be undone");
        assert_eq!(told, options != "ro", "{options}: {}", said(&wrote));
    }
}

/// `haft doctor` reports the actual problem of a home, and how to fix it.
#[test]
fn doctor_names_what_is_wrong_with_a_home() {
    enum Odd {
        Full,
        File,
        Unset,
    }
    for (odd, wanted) in [
        (Odd::Full, ["No space left", "make room there"]),
        (Odd::File, ["is not a directory", "set HOME or HAFT_CONFIG_DIR"]),
        (Odd::Unset, ["HOME is not set", "set HOME or HAFT_CONFIG_DIR"]),
    ] {
        let haft = Haft::new();
        let home = haft.home();
        let mut mounted = None;
        let mut command = haft.command();
        command.args(["doctor"]);
        match odd {
            Odd::Full => {
                mounted = MountedHome::mount(&home, "size=64k");
                if mounted.is_none() {
                    eprintln!("SKIPPED: a tmpfs cannot be mounted here (needs root)");
                    continue;
                }
                std::fs::write(home.join("fill"), vec![0; 1 << 20]).unwrap_err();
            }
            Odd::File => {
                haft.write("file", "");
                command.env("HOME", haft.ws().join("file")).env_remove("HAFT_CONFIG_DIR");
            }
            Odd::Unset => {
                command.env_remove("HOME").env_remove("HAFT_CONFIG_DIR");
            }
        }
        let output = command.output().unwrap();
        let text = said(&output);
        wanted.iter().for_each(|part| assert!(text.contains(part), "{part}: {text}"));
        // Haft removes its probe file. Other programs that it ran may leave files.
        let left = mounted.iter().flat_map(|it| std::fs::read_dir(it.0).unwrap().flatten());
        let left: Vec<_> = left.map(|it| it.file_name()).collect();
        let is_probe = |name: &std::ffi::OsString| name.to_string_lossy().starts_with(".haft-doctor");
        assert!(!left.iter().any(is_probe), "{left:?}");
    }
}

/// Files that setup commands create are complete or absent: the next run would take a partial file for
/// the user's own.
#[test]
fn a_project_without_room_gets_no_half_files() {
    let haft = Haft::new();
    let place = haft.ws().join("full");
    std::fs::create_dir(&place).unwrap();
    let Some(_mounted) = MountedHome::mount(&place, "size=64k") else {
        return eprintln!("SKIPPED: a tmpfs cannot be mounted here (needs root)");
    };
    std::fs::write(place.join("fill"), vec![0; 1 << 20]).unwrap_err();
    let cwd = place.display().to_string();
    let full = haft.run(&["--cwd", &cwd, "init", "--yes"], "");
    assert!(!full.status.success() && said(&full).contains("No space left"), "{}", said(&full));
    std::fs::remove_file(place.join("fill")).unwrap();
    let again = haft.run(&["--cwd", &cwd, "init", "--yes"], "");
    assert!(again.status.success(), "{}", said(&again));
    assert!(std::fs::read_to_string(place.join("AGENTS.md")).unwrap().contains("## Commands"));
}

/// With any number of threads the work is done, or an error says why not.
#[test]
fn too_few_threads_are_a_clear_error() {
    /// A user id that no other process has.
    const USER: &str = "61273";
    let haft = Haft::new();
    haft.write("a.txt", "alpha\n");
    let top = haft.dir.path();
    let given = Command::new("chown").args(["-R", USER]).arg(top).status();
    let limited = |most: usize, args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid",
            USER,
            "--regid",
            USER,
            "--clear-groups",
            "prlimit",
            &format!("--nproc={most}"),
        ]);
        command.arg(haft_binary()).args(args).current_dir(haft.ws()).env("HOME", haft.home());
        command.stdin(std::process::Stdio::null()).output()
    };
    let works = |output: &std::io::Result<Output>| output.as_ref().is_ok_and(|it| it.status.success());
    if !given.is_ok_and(|it| it.success()) || !works(&limited(1000, &["tool", "list"])) {
        return eprintln!("SKIPPED: cannot become another user here (needs root, setpriv and prlimit)");
    }
    for most in [1, 2, 3, 4, 6, 7, 9, 12, 100] {
        for args in [
            &["tool", "call", "Read", r#"{"file_path": "a.txt"}"#][..],
            &["tool", "call", "Bash", r#"{"command": "cat a.txt"}"#],
            &["mcp", "serve"],
        ] {
            let output = limited(most, args).unwrap();
            let said = said(&output);
            assert!(!said.contains("panicked"), "{most} {args:?}: {said}");
            if output.status.success() {
                assert!(args[0] == "mcp" || said.contains("alpha"), "{most} {args:?}: {said}")
            } else {
                let is_clear =
                    said.contains("too few threads") || said.contains("Resource temporarily unavailable");
                assert!(is_clear, "{most} {args:?}: {said}");
            }
        }
    }
}
