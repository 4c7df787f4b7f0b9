//! Real file systems with unusual behaviour: FUSE does not support rename flags, and exFAT ignores case.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs, reason = "test code")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::common::Haft;

/// A mounted directory. Unmounted when dropped.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        Command::new("umount").arg(&self.0).output().ok();
    }
}

fn works(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|it| it.status.success())
}

/// A directory in the workspace that is a FUSE mount of another one. `None` without bindfs.
fn bindfs(haft: &Haft) -> Option<Mounted> {
    let (source, at) = (haft.dir.path().join("source"), haft.ws().join("mounted"));
    std::fs::create_dir_all(&source).unwrap();
    std::fs::create_dir_all(&at).unwrap();
    works("bindfs", &[source.to_str()?, at.to_str()?]).then_some(Mounted(at))
}

/// A directory in the workspace with an exFAT file system. `None` if it cannot be mounted.
fn exfat(haft: &Haft) -> Option<Mounted> {
    let (image, at) = (haft.dir.path().join("image"), haft.ws().join("mounted"));
    std::fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    std::fs::create_dir_all(&at).unwrap();
    let (image, target) = (image.to_str()?, at.to_str()?);
    let made = works("mkfs.exfat", &[image]);
    (made && works("mount", &["-t", "exfat-fuse", "-o", "loop", image, target])).then_some(Mounted(at))
}

fn call(haft: &Haft, at: &Path, name: &str, input: &str) -> Output {
    let mut command = haft.command();
    command.args(["tool", "call", name, input, "--permission-mode", "bypassPermissions"]);
    command.current_dir(at).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn files_are_made_changed_and_undone_through_fuse() {
    for mount in [bindfs, exfat] {
        let haft = Haft::new();
        let Some(mounted) = mount(&haft) else {
            eprintln!("SKIPPED: bindfs or exfat-fuse cannot be mounted here (needs root and both programs)");
            continue;
        };
        let file = mounted.0.join("new.txt");
        let text = || std::fs::read_to_string(&file).ok();
        for (name, input, want) in [
            ("Write", r#"{"file_path": "new.txt", "content": "one\n"}"#, "one\n"),
            ("Bash", r#"{"command": "echo two > new.txt"}"#, "two\n"),
            ("Write", r#"{"file_path": "sub/deep.txt", "content": "deep\n"}"#, "two\n"),
        ] {
            let done = call(&haft, &mounted.0, name, input);
            assert!(done.status.success(), "{name}: {}", said(&done));
            assert_eq!(text().as_deref(), Some(want), "{name}: {}", said(&done));
        }
        for want in [Some("two\n"), Some("one\n"), None] {
            let undone = haft.command().arg("undo").current_dir(&mounted.0).output().unwrap();
            assert!(undone.status.success(), "{}", said(&undone));
            assert_eq!(text().as_deref(), want, "{}", said(&undone));
        }
        assert!(!mounted.0.join("sub").exists());
    }
}

#[test]
fn deny_rule_holds_for_every_case_of_a_name_on_exfat() {
    let haft = Haft::new();
    let Some(mounted) = exfat(&haft) else {
        return eprintln!("SKIPPED: exfat-fuse cannot be mounted here (needs root and exfat-fuse)");
    };
    std::fs::write(mounted.0.join(".env"), "KEY\n").unwrap();
    std::fs::create_dir(mounted.0.join("secret")).unwrap();
    std::fs::write(mounted.0.join("secret/key.txt"), "KEY\n").unwrap();
    std::fs::create_dir_all(haft.home().join(".haft")).unwrap();
    let rules = r#"{"permissions": {"deny": ["Read(**/.env)", "Read(**/secret/**)"]}}"#;
    std::fs::write(haft.home().join(".haft/settings.json"), rules).unwrap();
    for (name, input) in [
        ("Read", r#"{"file_path": ".env"}"#),
        ("Read", r#"{"file_path": ".ENV"}"#),
        ("Read", r#"{"file_path": "SECRET/key.txt"}"#),
        ("Read", r#"{"file_path": "secret/KEY.TXT"}"#),
        ("Bash", r#"{"command": "cat .Env"}"#),
        ("Bash", r#"{"command": "cat Secret/key.txt"}"#),
        ("Bash", r#"{"command": "head -1 < .ENV"}"#),
    ] {
        let told = said(&call(&haft, &mounted.0, name, input));
        assert!(!told.contains("KEY\n") && told.contains("denies reading"), "{name} {input}: {told}");
    }
}
