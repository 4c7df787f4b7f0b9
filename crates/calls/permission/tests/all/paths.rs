//! Real symlinks and directories: the identity of a path, under any name.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::{Path, PathBuf},
};

use common::{Call, Rules, context, with_rules};
use haft_permission::{Behavior, Decision, HookOpinion, OutsideWorkspace, Policy, PolicyBuilder};
use haft_types::PermissionMode;

use Behavior::{Allow, Ask, Deny};

struct Place {
    _dir: tempfile::TempDir,
    root: PathBuf,
}

impl Place {
    /// `ws` with a few files, `out` beside it, `home`, and a symlink `link` to `ws`.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for path in ["ws/src", "ws/secrets", "out", "home/.ssh"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        for file in ["ws/.env", "ws/src/main.rs", "ws/secrets/key", "out/secret.txt", "home/.ssh/id_rsa"] {
            fs::write(root.join(file), "x").unwrap();
        }
        symlink("ws", root.join("link")).unwrap();
        Self { _dir: dir, root }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn builder(&self, workspace: &str) -> PolicyBuilder {
        Policy::builder(self.at(workspace)).home(self.at("home"))
    }

    fn judge(&self, policy: &Policy, cwd: &str, call: &Call) -> Decision {
        let tool = if call.read_only { "Read" } else { "Write" };
        policy.judge(tool, call, &context(&self.at(cwd), Some(&self.at("home"))), &HookOpinion::None)
    }

    #[track_caller]
    fn check(&self, builder: PolicyBuilder, rules: Rules<'_>, cwd: &str, call: &Call, want: Behavior) {
        let decision = self.judge(&with_rules(builder, rules).build(), cwd, call);
        assert_eq!(decision.behavior, want, "{rules:?} {call:?}\n{decision:?}");
    }
}

#[test]
fn workspace_opened_through_symlink_is_recognised() {
    let place = Place::new();
    let deny = Rules { deny: &["Read(./.env)"], ..Rules::default() };
    for path in [".env", "../ws/.env", "../link/.env", "src/../.env"] {
        place.check(place.builder("link"), deny, "link", &Call::read(path), Deny);
        place.check(place.builder("link"), deny, "link", &Call::write(path), Deny);
    }
    let ws = place.at("ws/src/main.rs");
    place.check(place.builder("link"), deny, "link", &Call::read(&ws), Allow);
    place.check(place.builder("link"), deny, "link", &Call::read("src/main.rs"), Allow);
    place.check(place.builder("link"), deny, "link", &Call::read("../out/secret.txt"), Ask);
    let edits = || place.builder("link").mode(PermissionMode::AcceptEdits);
    place.check(edits(), Rules::default(), "link", &Call::write(&ws), Allow);
    // The workspace is a real path; a symlink to it from elsewhere is not part of it.
    symlink(place.at("ws"), place.at("out/ws2")).unwrap();
    place.check(
        place.builder("ws"),
        Rules::default(),
        "ws",
        &Call::read(place.at("out/ws2/src/main.rs")),
        Ask,
    );
}

#[test]
fn relative_rules_use_session_directory_after_cd() {
    let place = Place::new();
    let deny = Rules { deny: &["Read(./.env)"], allow: &["Edit(./src/**)"], ..Rules::default() };
    place.check(place.builder("ws"), deny, "ws/src", &Call::read("../.env"), Deny);
    place.check(place.builder("ws"), deny, "ws/src", &Call::read(".env"), Allow);
    place.check(place.builder("ws"), deny, "ws/src", &Call::write("x"), Allow);
    place.check(place.builder("ws"), deny, "out", &Call::read("secret.txt"), Ask);
}

#[test]
fn deny_rule_applies_to_symlink_target() {
    let place = Place::new();
    fs::create_dir_all(place.at("vault")).unwrap();
    fs::write(place.at("vault/key"), "x").unwrap();
    symlink(place.at("vault"), place.at("home/.keys")).unwrap();
    symlink(place.at("out/secret.txt"), place.at("ws/token")).unwrap();
    let deny = Rules { deny: &["Read(~/.keys/**)", "Read(./token)"], allow: &["Read"], ..Rules::default() };
    for path in ["vault/key", "home/.keys/key", "out/secret.txt", "ws/token"] {
        place.check(place.builder("ws"), deny, "ws", &Call::read(place.at(path)), Deny);
    }
    // An allow rule covers only the path as written.
    let allow = Rules { allow: &["Read(~/.keys/**)"], ..Rules::default() };
    place.check(place.builder("ws"), allow, "ws", &Call::read("~/.keys/key"), Ask);
}

#[test]
fn allow_rule_must_match_lexical_and_real_path() {
    let place = Place::new();
    symlink(place.at("out"), place.at("ws/o")).unwrap();
    symlink(place.at("out/secret.txt"), place.at("ws/src/s")).unwrap();
    let ws_only = Rules { allow: &["Read(./**)", "Edit(./**)"], ..Rules::default() };
    for path in ["o/secret.txt", "src/s", "o/new/file"] {
        place.check(place.builder("ws"), ws_only, "ws", &Call::read(path), Ask);
        place.check(place.builder("ws"), ws_only, "ws", &Call::write(path), Ask);
    }
    let out = format!("Edit(/{}/**)", place.at("out").display());
    let both = [&*out, "Edit(./**)"];
    let both = Rules { allow: &both, ..Rules::default() };
    place.check(place.builder("ws"), both, "ws", &Call::write("o/new/file"), Allow);
    let added = place.builder("ws").additional_dir(place.at("out"), None);
    place.check(added, Rules::default(), "ws", &Call::read("o/secret.txt"), Allow);
}

#[test]
fn hard_links_of_denied_files() {
    let place = Place::new();
    fs::hard_link(place.at("ws/.env"), place.at("ws/src/copy")).unwrap();
    fs::hard_link(place.at("ws/secrets/key"), place.at("ws/src/key2")).unwrap();
    fs::hard_link(place.at("ws/src/main.rs"), place.at("ws/src/other")).unwrap();
    for rule in ["Read(./.env)", "Read(.env)", "Read(**/.env)"] {
        let rules = Rules { deny: &[rule], ..Rules::default() };
        place.check(place.builder("ws"), rules, "ws", &Call::read("src/copy"), Deny);
        place.check(place.builder("ws"), rules, "ws", &Call::read("src/other"), Allow);
    }
    let rules = Rules { deny: &["Read(./secrets/**)"], ..Rules::default() };
    place.check(place.builder("ws"), rules, "ws", &Call::read("src/key2"), Deny);
    let policy = with_rules(place.builder("ws"), rules).build();
    let permit = place.judge(&policy, "ws", &Call::read(".")).permit().unwrap();
    assert!(!permit.may_read(&place.at("ws/src/key2")));
    assert!(permit.may_read(&place.at("ws/src/other")));
}

#[test]
fn protected_path_asks_despite_allow_rules() {
    let place = Place::new();
    symlink(".git/hooks", place.at("ws/hooks")).unwrap();
    let own = place.at("state");
    let everything = Rules { allow: &["Edit", "Write", "Edit(//**)"], ..Rules::default() };
    for path in [
        ".git/config",
        ".GIT/config",
        "src/.Git/hooks/x",
        ".git",
        "hooks/pre-commit",
        ".claude/settings.json",
        ".haft/settings.json",
        ".mcp.json",
        ".npmrc",
        "a/b/.envrc",
        "~/.ssh/authorized_keys",
        "~/.bashrc",
        "~/.config/git/config",
        "../state/trust.json",
        "/proc/sys/kernel/core_pattern",
        "/proc/self/mem",
        "/dev/sda",
        "/sys/power/state",
    ] {
        for (mode, want) in [
            (PermissionMode::Default, Ask),
            (PermissionMode::AcceptEdits, Ask),
            (PermissionMode::DontAsk, Deny),
            (PermissionMode::Plan, Deny),
            (PermissionMode::BypassPermissions, Allow),
        ] {
            let builder = place.builder("ws").protect(&own).mode(mode);
            place.check(builder, everything, "ws", &Call::write(path), want);
        }
    }
    for path in [".gitignore", ".github/x.yml", ".claude/worktrees/a/x.rs", "src/git/x"] {
        let builder = place.builder("ws").mode(PermissionMode::AcceptEdits);
        place.check(builder, Rules::default(), "ws", &Call::write(path), Allow);
    }
    let hook = place.judge(&place.builder("ws").build(), "ws", &Call::write(".git/config"));
    assert_eq!(hook.suggestions, vec![], "no rule would help");
}

#[test]
fn kernel_files_are_outside_a_root_workspace() {
    let place = Place::new();
    for path in ["/dev/zero", "/proc/self/environ", "/sys/kernel"] {
        place.check(Policy::builder("/"), Rules::default(), "ws", &Call::read(path), Ask);
    }
    place.check(Policy::builder("/dev/shm"), Rules::default(), "ws", &Call::read("/dev/shm/x"), Allow);
    place.check(Policy::builder("/"), Rules::default(), "ws", &Call::read("/etc/hostname"), Allow);
}

#[test]
fn unusable_paths_are_denied_in_every_mode() {
    let place = Place::new();
    symlink("b", place.at("ws/a")).unwrap();
    symlink("a", place.at("ws/b")).unwrap();
    let long = "x".repeat(5000);
    for path in ["", "a\0b", "a/x", &long] {
        for mode in PermissionMode::ALL {
            let builder = place.builder("ws").mode(mode);
            place.check(
                builder,
                Rules { allow: &["Read"], ..Rules::default() },
                "ws",
                &Call::read(path),
                Deny,
            );
        }
    }
}

#[test]
fn non_utf8_paths_are_decided() {
    let place = Place::new();
    let odd = place.at("ws").join(OsStr::from_bytes(b"\xff\xfe.env"));
    let deny = Rules { deny: &["Read(*.env)"], ..Rules::default() };
    place.check(place.builder("ws"), deny, "ws", &Call::read(&odd), Deny);
    place.check(place.builder("ws"), Rules::default(), "ws", &Call::read(&odd), Allow);
    // Two encodings of é are two files.
    let deny = Rules { deny: &["Read(./caf\u{e9})"], ..Rules::default() };
    place.check(place.builder("ws"), deny, "ws", &Call::read("caf\u{e9}"), Deny);
    place.check(place.builder("ws"), deny, "ws", &Call::read("cafe\u{301}"), Allow);
}

#[test]
fn outside_workspace_deny_is_enforced() {
    let place = Place::new();
    let closed =
        || place.builder("ws").reads_outside(OutsideWorkspace::Deny).writes_outside(OutsideWorkspace::Deny);
    let out = place.at("out/secret.txt");
    place.check(closed(), Rules::default(), "ws", &Call::read(&out), Deny);
    place.check(closed(), Rules::default(), "ws", &Call::write(&out), Deny);
    place.check(closed(), Rules::default(), "ws", &Call::read("src/main.rs"), Allow);
    let readable = closed().readable_dir(place.at("out"));
    place.check(readable.clone(), Rules::default(), "ws", &Call::read(&out), Allow);
    place.check(readable.mode(PermissionMode::AcceptEdits), Rules::default(), "ws", &Call::write(&out), Deny);
}

#[test]
fn permit_grants_contain_real_paths() {
    let place = Place::new();
    symlink("src/main.rs", place.at("ws/m")).unwrap();
    let policy = place.builder("ws").build();
    let permit = place.judge(&policy, "ws", &Call::read("m")).permit().unwrap();
    assert_eq!(permit.granted(Path::new("m")), Some(&*place.at("ws/src/main.rs")));
    assert_eq!(permit.granted(Path::new("src/main.rs")), None);
    let asked = place.judge(&policy, "ws", &Call::write("new/file"));
    let permit = asked.approved().unwrap();
    assert_eq!(permit.granted(Path::new("new/file")), Some(&*place.at("ws/new/file")));
}

#[test]
fn may_read_excludes_forbidden_files() {
    let place = Place::new();
    symlink(place.at("out"), place.at("ws/dir")).unwrap();
    symlink("../.env", place.at("ws/src/e")).unwrap();
    symlink("src", place.at("ws/alias")).unwrap();
    symlink(place.at("out/secret.txt"), place.at("ws/src/s")).unwrap();
    let rules =
        Rules { deny: &["Read(./.env)", "Read(*.pem)"], ask: &["Read(./secrets/**)"], ..Rules::default() };
    let policy = with_rules(place.builder("ws"), rules).build();
    let permit = place.judge(&policy, "ws", &Call::read(".")).permit().unwrap();
    for (path, want) in [
        ("ws/src/main.rs", true),
        ("ws/alias/main.rs", true),
        ("ws/new", true),
        ("ws/.env", false),
        ("ws/src/../.env", false),
        ("ws/src/e", false),
        ("ws/alias/e", false),
        ("ws/a/b/k.pem", false),
        ("ws/a/k.pem/inner", false),
        ("ws/secrets/key", false),
        ("ws/dir/secret.txt", false),
        ("ws/src/s", false),
        ("out/secret.txt", false),
        ("link/src/main.rs", true),
        ("link/.env", false),
    ] {
        assert_eq!(permit.may_read(&place.at(path)), want, "{path}");
    }
    assert!(!permit.may_read(Path::new("")) || !permit.may_read(Path::new("\0")));
    // Approval for the forbidden directory includes its content.
    let asked = place.judge(&policy, "ws", &Call::read("secrets"));
    assert_eq!(asked.behavior, Ask);
    assert!(asked.approved().unwrap().may_read(&place.at("ws/secrets/key")));
    // So does approval for a directory outside.
    let permit = place.judge(&policy, "ws", &Call::read(place.at("out"))).approved().unwrap();
    assert!(permit.may_read(&place.at("out/secret.txt")));
    assert!(!permit.may_read(&place.at("home/.ssh/id_rsa")));
    let bypass = place.builder("ws").mode(PermissionMode::BypassPermissions);
    let permit = place.judge(&with_rules(bypass, rules).build(), "ws", &Call::read(".")).permit().unwrap();
    assert!(permit.may_read(&place.at("home/.ssh/id_rsa")));
    assert!(!permit.may_read(&place.at("ws/.env")));
}
