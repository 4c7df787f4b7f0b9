//! Repositories that try to run programs or redirect paths.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use haft_worktree::{RemovalBackup, WorktreeBase};

use crate::rig::{Repo, origin, write};

#[test]
fn hostile_repository_settings_run_no_program() {
    let repo = Repo::new();
    let mark = repo.root().join("ran");
    let run = format!("touch {}", mark.display());
    for hook in ["post-checkout", "pre-commit", "reference-transaction", "post-commit", "post-index-change"] {
        let path = repo.top().join(".git/hooks").join(hook);
        write(&path, format!("#!/bin/sh\n{run}\n").as_bytes());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    write(&repo.top().join(".gitattributes"), b"*.txt filter=evil diff=evil\n");
    repo.git(&["-c", "core.hooksPath=/dev/null", "add", ".gitattributes"]);
    repo.git(&["-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "attributes"]);
    for (key, value) in [
        ("filter.evil.smudge", format!("{run}; cat")),
        ("filter.evil.clean", format!("{run}; cat")),
        ("filter.evil.required", String::from("true")),
        ("diff.evil.textconv", run.clone()),
        ("core.fsmonitor", run.clone()),
        ("core.sshCommand", run.clone()),
        ("gpg.program", run.clone()),
        ("commit.gpgSign", String::from("true")),
        ("core.editor", run.clone()),
    ] {
        let config = repo.top().join(".git/config");
        let mut text = std::fs::read_to_string(&config).unwrap();
        let (section, name) = key.rsplit_once('.').unwrap();
        let header = match section.split_once('.') {
            Some((kind, sub)) => format!("[{kind} \"{sub}\"]"),
            None => format!("[{section}]"),
        };
        text.push_str(&format!("{header}\n\t{name} = \"{value}\"\n"));
        std::fs::write(config, text).unwrap();
    }
    let (keeper, workspace) = (repo.keeper(), repo.workspace());
    let mut record = repo.make(&keeper, "w").record;
    write(&record.path.join("a.txt"), b"changed\n");
    write(&record.path.join("x.log"), b"ignored\n");
    keeper.inspect(&record).unwrap();
    let removed = keeper.remove(&mut record, RemovalBackup::Everything, &workspace, &origin()).unwrap();
    assert_eq!(removed.rescued.len(), 1);
    assert!(!mark.exists(), "something of the repository ran");
}

#[test]
fn symlinked_worktree_directory_is_refused() {
    for link in [".claude", ".claude/worktrees"] {
        let repo = Repo::new();
        let elsewhere = repo.root().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        if link.contains('/') {
            std::fs::create_dir(repo.top().join(".claude")).unwrap();
        }
        symlink(&elsewhere, repo.top().join(link)).unwrap();
        let refused = repo.try_make(&repo.keeper(), "w", WorktreeBase::Head).unwrap_err();
        assert!(refused.contains("no plain directory"), "{refused}");
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
}
