//! Lines that are harmless only in a certain state of the disk: file names passed between commands, and
//! `git -C`.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use common::{Call, Rules, context, with_rules};
use haft_permission::{BashJudge, Behavior, HookOpinion, Policy};

use Behavior::{Allow, Ask, Deny};

struct Place {
    _dir: tempfile::TempDir,
    root: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for path in ["ws/.git", "ws/src/deep", "ws/other", "out"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        for file in ["ws/src/a.txt", "ws/src/deep/b.txt", "ws/other/c.txt", "out/secret"] {
            fs::write(root.join(file), "x").unwrap();
        }
        Self { _dir: dir, root }
    }

    fn ws(&self) -> PathBuf {
        self.root.join("ws")
    }

    fn judge(&self, deny: &[&str], line: &str) -> Behavior {
        let rules = Rules { allow: &[], ask: &[], deny };
        let policy = with_rules(Policy::builder(self.ws()), rules)
            .commands(std::sync::Arc::new(BashJudge))
            .reading(haft_permission::ReadOnlyEnforced::Yes)
            .build();
        policy.judge("Bash", &Call::command(line), &context(&self.ws(), None), &HookOpinion::None).behavior
    }

    #[track_caller]
    fn check(&self, line: &str, want: Behavior) {
        assert_eq!(self.judge(&[], line), want, "{line}");
    }
}

const FED: &[&str] = &[
    "find . -type f | xargs cat",
    "find . -name '*.txt' -print0 | xargs -0 grep -n x",
    "find . -type f | sort | head -3 | xargs wc -l",
    "rg -l x | xargs -I{} head -1 {}",
];

#[test]
fn piped_workspace_file_names_are_allowed() {
    let place = Place::new();
    for line in FED {
        place.check(line, Allow);
    }
    place.check("find /etc -type f | xargs cat", Ask);
    place.check("find .. -type f | xargs cat", Ask);
    place.check("cat list | xargs cat", Ask);
}

#[test]
fn piped_name_with_separator_asks() {
    for name in ["a /etc/passwd", "a\n/etc/passwd", "a\t/etc/passwd", "'x", "\"x", "x\\y"] {
        let place = Place::new();
        fs::write(place.ws().join("other").join(name.replace('/', "_")), "").unwrap();
        for line in FED {
            place.check(line, Ask);
        }
        // Allowed below a directory without that name.
        place.check("find src -type f | xargs cat", Allow);
    }
}

#[test]
fn piped_symlink_to_outside_asks() {
    let place = Place::new();
    symlink(place.root.join("out/secret"), place.ws().join("other/link")).unwrap();
    for line in FED {
        place.check(line, Ask);
    }
    place.check("find src | xargs cat", Allow);
    let inside = Place::new();
    symlink("../src/a.txt", inside.ws().join("other/link")).unwrap();
    inside.check(FED[0], Allow);
}

#[test]
fn piped_names_including_denied_file_are_not_allowed() {
    let place = Place::new();
    fs::write(place.ws().join(".env"), "KEY").unwrap();
    for line in FED {
        assert_ne!(place.judge(&["Read(.env)"], line), Allow, "{line}");
    }
    assert_eq!(place.judge(&["Bash(cat *)"], "find src | xargs cat"), Deny);
    assert_eq!(place.judge(&["Bash(xargs *)"], "find src | xargs cat"), Deny);
}

#[test]
fn git_c_into_same_repository_is_allowed() {
    let place = Place::new();
    place.check("git -C . status", Allow);
    place.check("git -C src status", Allow);
    place.check("git -C src/deep log --oneline -3", Allow);
    place.check("git -C src -C deep diff --stat", Allow);
    place.check(&format!("git -C {} status", place.ws().join("src").display()), Allow);
    place.check("git -C gone status", Ask);
    place.check("git -C .. status", Ask);
    place.check("git -C src/../.. status", Ask);
    place.check("git -C /tmp status", Ask);
    place.check("git -C src commit -m x", Ask);
    place.check("git -C src -c core.pager=x log", Ask);
}

#[test]
fn git_c_into_nested_repository_asks() {
    type Make = fn(&Path);
    let ways: [Make; 5] = [
        |dir| fs::create_dir(dir.join(".git")).unwrap(),
        |dir| fs::write(dir.join(".git"), "gitdir: /tmp/evil\n").unwrap(),
        |dir| symlink("/tmp", dir.join(".git")).unwrap(),
        |dir| fs::write(dir.join("HEAD"), "ref: refs/heads/main\n").unwrap(),
        |dir| fs::create_dir(dir.join("objects")).unwrap(),
    ];
    for make in ways {
        let place = Place::new();
        make(&place.ws().join("src"));
        place.check("git -C src status", Ask);
        place.check("git -C src/deep status", Ask);
        place.check("git -C other status", Allow);
    }
    let place = Place::new();
    symlink(place.root.join("out"), place.ws().join("link")).unwrap();
    place.check("git -C link status", Ask);
    symlink("src", place.ws().join("inner")).unwrap();
    place.check("git -C inner status", Ask);
}
