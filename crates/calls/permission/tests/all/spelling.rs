//! Rules on file systems that find a file under several spellings. Two hard links simulate the two
//! spellings.

use crate::common::{Call, Rules, context, with_rules};

use std::{fs, path::Path};

use haft_permission::{Behavior, HookOpinion, Policy};

use Behavior::{Allow, Ask, Deny};

#[track_caller]
fn check(root: &Path, rules: Rules<'_>, call: &Call, want: Behavior) {
    let policy = with_rules(Policy::builder(root), rules).build();
    let tool = if call.read_only { "Read" } else { "Write" };
    let decision = policy.judge(tool, call, &context(root, None), &HookOpinion::None);
    assert_eq!(decision.behavior, want, "{rules:?} {call:?}\n{decision:?}");
}

/// Directories in which names exist in both cases, or in one.
fn place() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for name in ["loose", "exact"] {
        fs::create_dir_all(root.join(name)).unwrap();
        fs::write(root.join(name).join("readme"), "x").unwrap();
    }
    fs::hard_link(root.join("loose/readme"), root.join("loose/README")).unwrap();
    (dir, root)
}

#[test]
fn deny_and_ask_hold_for_every_spelling_where_the_directory_folds_names() {
    let (_dir, root) = place();
    let deny = ["Read(./.env)", "Read(*.Pem)", "Read(caf\u{e9}/**)", "Read(./Sub/key[A-C])"];
    for (path, folded) in [
        (".ENV", true),
        (".Env", true),
        (".env.", true),
        ("KEY.PEM", true),
        ("x.pem", true),
        ("CAFE\u{301}/x", true),
        ("sub/KEYb", true),
        ("sub/KEYd", false),
        ("env", false),
    ] {
        let want = |is_loose: bool| if is_loose && folded { Deny } else { Allow };
        for (dir, is_loose) in [("loose", true), ("exact", false)] {
            let rules = Rules { deny: &deny, ..Rules::default() };
            let at = root.join(dir);
            check(&at, rules, &Call::read(path), want(is_loose));
            let rules = Rules { ask: &deny, ..Rules::default() };
            let want = if want(is_loose) == Deny { Ask } else { Allow };
            check(&at, rules, &Call::read(path), want);
        }
    }
}

#[test]
fn allow_holds_for_the_spelling_it_was_written_in() {
    let (_dir, root) = place();
    let at = root.join("loose");
    let rules = Rules { allow: &["Edit(./src/**)"], ..Rules::default() };
    check(&at, rules, &Call::write("src/x"), Allow);
    check(&at, rules, &Call::write("SRC/x"), Ask);
}
