//! Commands that only read, and follow the links they find in the trees they walk: what a
//! link leads to is judged as if the command named it.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use std::{fs, os::unix::fs::symlink, sync::Arc};

use haft_permission::{BashJudge, Behavior, Destination, HookOpinion, Policy, ReadOnlyEnforced, RuleSource};

use crate::common::{Call, context};

#[test]
fn search_that_follows_links_keeps_denials_of_what_they_lead_to() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let ws = root.join("ws");
    fs::create_dir_all(root.join("out/deep")).unwrap();
    fs::write(root.join("out/secret.txt"), "SECRET\n").unwrap();
    fs::create_dir_all(ws.join("t")).unwrap();
    fs::create_dir_all(ws.join("src")).unwrap();
    fs::write(ws.join("src/main.rs"), "x\n").unwrap();
    symlink("../../out", ws.join("t/up")).unwrap();
    symlink("../out/secret.txt", ws.join("ln")).unwrap();
    symlink("main.rs", ws.join("src/alias.rs")).unwrap();
    let deny = format!("Read(/{}/**)", root.join("out").display());
    let origin = RuleSource::new("test", Destination::Session).rooted(ws.as_path());
    let judge = |allow: &str, deny: Option<&str>, line: &str| {
        let mut builder = Policy::builder(&ws)
            .commands(Arc::new(BashJudge))
            .reading(ReadOnlyEnforced::Yes)
            .home(root.join("home"))
            .rules(&origin, Behavior::Allow, [allow.to_owned()]);
        if let Some(deny) = deny {
            builder = builder.rules(&origin, Behavior::Deny, [deny.to_owned()]);
        }
        let cx = context(&ws, Some(&root.join("home")));
        builder.build().judge("Bash", &Call::command(line), &cx, &HookOpinion::None).behavior
    };
    for (allow, line) in [
        ("Bash(grep:*)", "grep -R S ."),
        ("Bash(grep:*)", "grep -R S t"),
        ("Bash(grep:*)", "grep -rR S t"),
        ("Bash(grep:*)", "grep --dereference-recursive S ."),
        ("Bash(egrep:*)", "egrep -R S t"),
        ("Bash(rg:*)", "rg -L S"),
        ("Bash(rg:*)", "rg --follow S t"),
        ("Bash(diff:*)", "diff -r t src"),
    ] {
        assert_eq!(judge(allow, None, line), Behavior::Allow, "{line}");
        assert_ne!(judge(allow, Some(&deny), line), Behavior::Allow, "{line}");
    }
    // Links within the tree lead to what is read anyway.
    for (allow, line) in [("Bash(grep:*)", "grep -R S src"), ("Bash(rg:*)", "rg -L S src")] {
        assert_eq!(judge(allow, Some(&deny), line), Behavior::Allow, "{line}");
    }
}
