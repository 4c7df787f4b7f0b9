//! What git is kept from: waiting for a signature, losing commits with a branch, committing conflict
//! markers, skipping hooks.

use crate::git_rig::Repo;

use std::time::{Duration, Instant};

use serde_json::json;

/// A signing program that waits forever.
fn waiting_signer(repo: &Repo) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = repo.rig.outside.join("gpg-that-waits");
    let pids = repo.rig.outside.join("signers");
    std::fs::write(&path, format!("#!/bin/sh\necho $$ >> '{}'\nexec sleep 1000\n", pids.display())).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_string_lossy().into_owned()
}

/// A branch may be given as `name` or `rev`; neither is silently ignored.
#[tokio::test]
async fn switch_takes_branch_from_name_or_rev() {
    let repo = Repo::new();
    repo.git(&["branch", "side"]);
    repo.git(&["branch", "other"]);
    for (input, at, said) in [
        (json!({"operation": "switch", "rev": "side"}), "side", "Switched"),
        (json!({"operation": "switch", "name": "other"}), "other", "Switched"),
        (json!({"operation": "switch", "name": "side", "rev": "main"}), "other", "give create"),
        (json!({"operation": "switch", "rev": "side", "create": true}), "other", "needs name"),
        (json!({"operation": "switch"}), "other", "needs name"),
        (json!({"operation": "switch", "name": "new", "rev": "HEAD~1", "create": true}), "new", "Switched"),
    ] {
        let got = repo.said(input.clone()).await;
        assert!(got.contains(said), "{input}: {got}");
        assert_eq!(repo.git(&["branch", "--show-current"]), at, "{input}");
    }
}

/// A signing program that waits for the user is stopped in time, and no unsigned commit is made.
#[tokio::test]
async fn waiting_signer_times_out_without_a_commit() {
    let repo = Repo::new();
    repo.git(&["config", "gpg.program", &waiting_signer(&repo)]);
    repo.git(&["config", "commit.gpgsign", "yes"]);
    repo.git(&["config", "tag.gpgSign", "true"]);
    repo.put("a.txt", "mine\n");
    let head = repo.git(&["rev-parse", "HEAD"]);
    let before = repo.git(&["ls-files", "-s"]);
    let began = Instant::now();
    let commit = repo.said(json!({"operation": "commit", "message": "x", "paths": ["a.txt"]}));
    let said = commit.await;
    assert!(said.contains("has to be signed") && said.contains("not committed unsigned"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(120), "{:?}", began.elapsed());
    assert_eq!(repo.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(repo.git(&["ls-files", "-s"]), before);
    let said = repo.said(json!({"operation": "tag", "action": "create", "name": "v1", "message": "m"})).await;
    assert!(said.contains("has to be signed") && said.contains("unsigned"), "{said}");
    assert_eq!(repo.git(&["tag"]), "");
    // No started process is left.
    let pids = std::fs::read_to_string(repo.rig.outside.join("signers")).unwrap();
    assert_eq!(pids.lines().count(), 2, "{pids}");
    let gone = || pids.lines().all(|pid| !std::path::Path::new("/proc").join(pid).join("exe").exists());
    crate::shell_rig::eventually("the end of the signers", gone).await;
}

/// With hooks, which may take long, the signature still has its own timeout, whatever is signed.
#[tokio::test]
async fn waiting_signer_times_out_with_hooks() {
    let check = async |input: serde_json::Value, hook: &str, place: Option<&str>| {
        let repo = Repo::new();
        repo.git(&["switch", "-qc", "side"]);
        repo.put("side.txt", "side\n");
        repo.git(&["add", "side.txt"]);
        repo.git(&["commit", "-qm", "Side"]);
        repo.git(&["switch", "-q", "main"]);
        repo.put("b.txt", "more\n");
        repo.git(&["commit", "-qam", "Main"]);
        repo.put("a.txt", "mine\n");
        let hooks = repo.dir().join(place.unwrap_or(".git/hooks"));
        crate::lsp_rig::program(
            &hooks,
            hook,
            "#!/bin/sh\necho ran >> \"$(git rev-parse --git-dir)/hooked\"\n",
        );
        if let Some(place) = place {
            repo.git(&["config", "core.hooksPath", place]);
        }
        repo.git(&["config", "gpg.program", &waiting_signer(&repo)]);
        repo.git(&["config", "commit.gpgsign", "yes"]);
        let head = repo.git(&["rev-parse", "HEAD"]);
        let said = repo.said(input.clone()).await;
        assert!(
            said.contains("signed") && said.contains("unsigned") && said.contains("gpg"),
            "{input}: {said}"
        );
        assert_eq!(repo.git(&["rev-parse", "HEAD"]), head, "{input}");
        assert!(!repo.dir().join(".git/index.lock").exists(), "{input}");
        let pids = std::fs::read_to_string(repo.rig.outside.join("signers")).unwrap();
        let gone = || pids.lines().all(|pid| !std::path::Path::new("/proc").join(pid).join("exe").exists());
        crate::shell_rig::eventually("the end of the signers", gone).await;
        repo.dir().join(".git/hooked").exists()
    };
    let commit = || json!({"operation": "commit", "message": "x", "paths": ["a.txt"]});
    let (pre, message, picked, merged) = tokio::join!(
        check(commit(), "pre-commit", None),
        check(commit(), "commit-msg", Some(".husky")),
        check(json!({"operation": "cherry_pick", "rev": "side"}), "post-commit", None),
        check(json!({"operation": "merge", "rev": "side"}), "commit-msg", None),
    );
    assert!(pre && message && merged, "the hooks ran");
    assert!(!picked, "nothing was committed");
}

#[tokio::test]
async fn branch_with_unmerged_commits_is_not_deleted() {
    let repo = Repo::new();
    repo.git(&["switch", "-qc", "work"]);
    for number in 1..=3 {
        repo.put("work.txt", &format!("{number}\n"));
        repo.git(&["add", "."]);
        repo.git(&["commit", "-qm", &format!("Work {number}")]);
    }
    repo.git(&["switch", "-q", "main"]);
    let delete = || json!({"operation": "branch", "action": "delete", "name": "work"});
    let said = repo.said(delete()).await;
    for want in ["Work 1", "Work 2", "Work 3", "force: true", "neither in HEAD nor on a remote"] {
        assert!(said.contains(want), "{want}: {said}");
    }
    assert!(repo.git(&["branch"]).contains("work"));
    // A squash merge brings the content without the commits.
    repo.git(&["merge", "-q", "--squash", "work"]);
    repo.git(&["commit", "-qm", "All of the work"]);
    repo.put("more.txt", "and on\n");
    repo.git(&["add", "."]);
    repo.git(&["commit", "-qm", "On"]);
    let before = repo.picture();
    let (id, got) = repo.call(delete()).await;
    let said = got.unwrap().content.to_text();
    assert!(said.contains("what they changed is"), "{said}");
    assert!(!repo.git(&["branch"]).contains("work"));
    repo.undo(&id);
    assert!(repo.picture() == before);
}

#[tokio::test]
async fn staged_conflict_markers_are_not_committed() {
    let repo = Repo::new();
    repo.git(&["switch", "-qc", "side", "HEAD~1"]);
    repo.put("a.txt", "one\nside\nthree\n");
    repo.git(&["commit", "-qam", "Side"]);
    repo.git(&["switch", "-q", "main"]);
    repo.call(json!({"operation": "merge", "rev": "side"})).await.1.unwrap_err();
    // Another process stages the file with its markers.
    repo.git(&["add", "a.txt"]);
    for input in [
        json!({"operation": "merge", "action": "continue"}),
        json!({"operation": "commit", "message": "x", "staged": true}),
    ] {
        let said = repo.said(input.clone()).await;
        assert!(said.contains("a.txt is staged with the markers of a conflict"), "{input}: {said}");
    }
    assert_eq!(repo.git(&["log", "-1", "--format=%s"]), "Second");
    repo.put("a.txt", "one\nboth\nthree\n");
    repo.ok(json!({"operation": "add", "paths": ["a.txt"]})).await;
    repo.ok(json!({"operation": "merge", "action": "continue"})).await;
    assert_eq!(repo.git(&["rev-list", "--count", "--merges", "HEAD"]), "1");
    // Lines that only resemble conflict markers are ordinary text.
    repo.put("b.txt", "Title\n=======\n>>>>>>> quoted\n");
    repo.ok(json!({"operation": "commit", "message": "Text", "paths": ["b.txt"]})).await;
}

/// No parameter skips hooks or changes the author.
#[tokio::test]
async fn parameters_that_skip_hooks_or_fake_authors_are_rejected() {
    let repo = Repo::new();
    repo.put("a.txt", "mine\n");
    for more in [
        json!({"no_verify": true}),
        json!({"noVerify": true}),
        json!({"author": "Somebody Else <else@example.test>"}),
        json!({"sign": false}),
        json!({"no_gpg_sign": true}),
        json!({"date": "2000-01-01"}),
        json!({"message": ["--no-verify"]}),
        json!({"paths": ["--no-verify", "a.txt"]}),
    ] {
        let mut input = json!({"operation": "commit", "message": "x", "paths": ["a.txt"]});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert!(repo.call(input.clone()).await.1.is_err(), "{input}");
    }
    assert_eq!(repo.git(&["log", "-1", "--format=%s %ae"]), "Second ann@example.test");
    repo.ok(json!({"operation": "commit", "message": "--no-verify", "paths": ["a.txt"]})).await;
    assert_eq!(repo.git(&["log", "-1", "--format=%s %ae"]), "--no-verify ann@example.test");
}
