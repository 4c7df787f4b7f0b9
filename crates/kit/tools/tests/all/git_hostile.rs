//! A repository that brings programs along: reading runs none of them.

use crate::git_rig::Repo;

use serde_json::json;

/// A program that leaves a mark.
fn trap(repo: &Repo, name: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = repo.rig.outside.join(format!("trap-{name}"));
    let mark = repo.rig.outside.join(format!("mark-{name}"));
    std::fs::write(&path, format!("#!/bin/sh\ntouch '{}'\ncat\n", mark.display())).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_string_lossy().into_owned()
}

fn marks(repo: &Repo) -> Vec<String> {
    let names = std::fs::read_dir(&repo.rig.outside).unwrap().flatten();
    names
        .map(|it| it.file_name().to_string_lossy().into_owned())
        .filter(|it| it.starts_with("mark-"))
        .collect()
}

#[tokio::test]
async fn reading_runs_nothing_of_the_repository() {
    let repo = Repo::new();
    repo.git(&["stash", "list"]);
    repo.put("a.txt", "changed\n");
    repo.git(&["stash", "-q"]);
    repo.put("a.txt", "changed again\n");
    repo.git(&["tag", "-a", "v1", "-m", "tag"]);
    for (key, name) in [
        ("core.fsmonitor", "fsmonitor"),
        ("core.pager", "pager"),
        ("core.editor", "editor"),
        ("core.sshCommand", "ssh"),
        ("core.askPass", "askpass"),
        ("core.alternateRefsCommand", "alternates"),
        ("diff.external", "external"),
        ("diff.evil.textconv", "textconv"),
        ("diff.evil.command", "diffcommand"),
        ("filter.evil.clean", "clean"),
        ("filter.evil.smudge", "smudge"),
        ("filter.evil.process", "process"),
        ("filter.Other.clean", "other"),
        ("merge.evil.driver", "merge"),
        ("gpg.program", "gpg"),
        ("credential.helper", "credential"),
        ("sequence.editor", "sequence"),
        ("uploadpack.packObjectsHook", "pack"),
        ("pager.diff", "pagerdiff"),
        ("interactive.diffFilter", "interactive"),
    ] {
        let program = trap(&repo, name);
        repo.git(&["config", key, &program]);
    }
    repo.git(&["config", "filter.evil.required", "true"]);
    repo.git(&["config", "log.showSignature", "true"]);
    repo.git(&["config", "alias.status", &format!("!{}", trap(&repo, "alias"))]);
    let hooks = repo.dir().join(".git/hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    for hook in ["post-index-change", "reference-transaction", "post-checkout", "pre-auto-gc"] {
        std::fs::copy(trap(&repo, hook), hooks.join(hook)).unwrap();
    }
    std::fs::create_dir_all(repo.dir().join(".git/info")).unwrap();
    std::fs::write(repo.dir().join(".git/info/attributes"), "*.txt filter=evil diff=evil\n").unwrap();
    std::fs::write(repo.dir().join(".gitattributes"), "b.txt filter=Other diff=evil\n").unwrap();
    // Whatever setting the traps ran does not count.
    for mark in marks(&repo) {
        std::fs::remove_file(repo.rig.outside.join(mark)).unwrap();
    }
    let index = std::fs::read(repo.dir().join(".git/index")).unwrap();
    for input in [
        json!({"operation": "status"}),
        json!({"operation": "diff"}),
        json!({"operation": "diff", "staged": true}),
        json!({"operation": "diff", "from": "HEAD~1", "to": "HEAD"}),
        json!({"operation": "diff", "from": "HEAD~1"}),
        json!({"operation": "log", "patch": true}),
        json!({"operation": "show"}),
        json!({"operation": "show", "rev": "v1"}),
        json!({"operation": "show", "rev": "HEAD:a.txt"}),
        json!({"operation": "blame", "paths": ["a.txt"]}),
        json!({"operation": "branch"}),
        json!({"operation": "tag"}),
        json!({"operation": "stash"}),
        json!({"operation": "stash", "action": "show"}),
        json!({"operation": "worktree"}),
    ] {
        repo.ok(input.clone()).await;
        assert_eq!(marks(&repo), Vec::<String>::new(), "{input}");
    }
    assert_eq!(std::fs::read(repo.dir().join(".git/index")).unwrap(), index, "the index is not written");
    let said = repo.said(json!({"operation": "status"})).await;
    assert!(said.contains("filters of its own"), "{said}");
    // The traps do work.
    let mut plain = std::process::Command::new("git");
    plain.args(["diff"]).current_dir(repo.dir()).output().unwrap();
    assert!(!marks(&repo).is_empty());
}
