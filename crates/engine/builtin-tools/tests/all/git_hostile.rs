//! Repositories that configure programs, or point outside themselves: reading runs none of their
//! programs and shows no foreign files, and a change runs only what was requested.

use crate::git_rig::{Repo, git_in};

use std::{path::Path, sync::Arc};

use haft_permission::{BashJudge, Behavior, Destination, HookOpinion, Policy, RuleSource};
use haft_tool::CallContext;
use serde_json::{Value, json};

/// Writes a program that leaves a marker file when it is run.
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

fn wipe(repo: &Repo) {
    for mark in marks(repo) {
        std::fs::remove_file(repo.rig.outside.join(mark)).unwrap();
    }
}

/// Configuration keys that make git run a program.
const PROGRAMS: &[(&str, &str)] = &[
    ("core.fsmonitor", "fsmonitor"),
    ("core.pager", "pager"),
    ("core.editor", "editor"),
    ("core.sshCommand", "ssh"),
    ("core.askPass", "askpass"),
    ("core.gitProxy", "proxy"),
    ("core.alternateRefsCommand", "alternates"),
    ("diff.external", "external"),
    ("diff.evil.textconv", "textconv"),
    ("diff.evil.command", "diffcommand"),
    ("filter.evil.clean", "clean"),
    ("filter.evil.smudge", "smudge"),
    ("filter.evil.process", "process"),
    ("filter.Other.clean", "other"),
    ("filter.a=b.clean", "equals"),
    ("filter.x y'$(z).clean", "quotes"),
    ("merge.evil.driver", "merge"),
    ("mergetool.evil.cmd", "mergetool"),
    ("difftool.evil.cmd", "difftool"),
    ("gpg.program", "gpg"),
    ("gpg.ssh.program", "gpgssh"),
    ("gpg.ssh.defaultKeyCommand", "gpgkey"),
    ("credential.helper", "credential"),
    ("sequence.editor", "sequence"),
    ("uploadpack.packObjectsHook", "pack"),
    ("pager.diff", "pagerdiff"),
    ("pager.log", "pagerlog"),
    ("interactive.diffFilter", "interactive"),
    ("trailer.x.command", "trailer"),
    ("remote.origin.uploadpack", "uploadpack"),
    ("sendemail.smtpServer", "mail"),
    ("web.browser", "browser"),
    ("browser.x.cmd", "browsercmd"),
    ("man.x.cmd", "man"),
    ("init.templateDir", "template"),
    ("lfs.extension.x.clean", "lfs"),
];

/// Places where a repository can set them.
const PLACES: &[&str] = &["config", "include", "includeIf", "worktree"];

/// Configures every program that reading could trigger.
fn set_traps(repo: &Repo, place: &str) {
    let git_dir = repo.dir().join(".git");
    let file = match place {
        "config" => git_dir.join("config"),
        "worktree" => {
            repo.git(&["config", "extensions.worktreeConfig", "true"]);
            git_dir.join("config.worktree")
        }
        _ => repo.dir().join("shipped.cfg"),
    };
    let file = file.to_str().unwrap();
    let set = |key: &str, value: &str| drop(repo.git(&["config", "--file", file, key, value]));
    for (key, name) in PROGRAMS {
        set(key, &trap(repo, name));
    }
    set("filter.evil.required", "true");
    set("log.showSignature", "true");
    set("merge.verifySignatures", "true");
    set("diff.submodule", "diff");
    set("status.submoduleSummary", "true");
    set("core.attributesFile", repo.dir().join("more.attributes").to_str().unwrap());
    set("alias.status", &format!("!{}", trap(repo, "alias")));
    match place {
        "include" => drop(repo.git(&["config", "include.path", "../shipped.cfg"])),
        "includeIf" => drop(repo.git(&["config", "includeIf.onbranch:main.path", "../shipped.cfg"])),
        _ => {}
    }
    let hooks = git_dir.join("hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    for hook in
        ["post-index-change", "reference-transaction", "post-checkout", "pre-auto-gc", "fsmonitor-watchman"]
    {
        std::fs::copy(trap(repo, hook), hooks.join(hook)).unwrap();
    }
    std::fs::create_dir_all(git_dir.join("info")).unwrap();
    std::fs::write(git_dir.join("info/attributes"), "a.txt filter=evil diff=evil merge=evil\n").unwrap();
    let odd = "b.txt filter=Other diff=evil\nd.txt filter=a=b\ne.txt filter=\u{fffd}\n";
    let odd = [odd.as_bytes(), b"f.txt filter=\xff\xfe\n"].concat();
    std::fs::write(repo.dir().join(".gitattributes"), odd).unwrap();
    let name =
        [b"[filter \"\xff\xfe\"]\n\tclean = ".as_slice(), trap(repo, "bytes").as_bytes(), b"\n"].concat();
    let before = std::fs::read(file).unwrap();
    std::fs::write(file, [before, name].concat()).unwrap();
    std::fs::write(repo.dir().join("more.attributes"), "c.txt filter=evil diff=evil\n").unwrap();
    // Programs run during the setup do not count.
    wipe(repo);
}

/// Every operation that only reads.
fn looks() -> Vec<Value> {
    vec![
        json!({"operation": "status"}),
        json!({"operation": "status", "paths": ["a.txt"]}),
        json!({"operation": "diff"}),
        json!({"operation": "diff", "stat": true, "paths": ["a.txt", "b.txt"]}),
        json!({"operation": "diff", "staged": true}),
        json!({"operation": "diff", "from": "HEAD~1", "to": "HEAD"}),
        json!({"operation": "diff", "from": "HEAD~1"}),
        json!({"operation": "log", "patch": true}),
        json!({"operation": "log", "paths": ["a.txt"], "author": "Ann", "since": "9 years ago", "grep": "S"}),
        json!({"operation": "show"}),
        json!({"operation": "show", "rev": "v1"}),
        json!({"operation": "show", "rev": "HEAD:a.txt"}),
        json!({"operation": "show", "rev": "stash"}),
        json!({"operation": "blame", "paths": ["a.txt"]}),
        json!({"operation": "blame", "paths": ["a.txt"], "rev": "HEAD", "lines": "1,2"}),
        json!({"operation": "branch"}),
        json!({"operation": "tag"}),
        json!({"operation": "stash"}),
        json!({"operation": "stash", "action": "show"}),
        json!({"operation": "worktree"}),
    ]
}

#[tokio::test]
async fn reading_runs_no_program_of_the_repository() {
    for place in PLACES {
        let repo = Repo::new();
        for name in ["c.txt", "d.txt", "e.txt", "f.txt"] {
            repo.put(name, "c\n");
        }
        repo.git(&["add", "."]);
        repo.git(&["commit", "-qm", "Third"]);
        repo.put("a.txt", "changed\n");
        repo.git(&["stash", "-q"]);
        for name in ["a.txt", "b.txt", "c.txt", "d.txt", "e.txt", "f.txt"] {
            repo.put(name, "changed again\n");
        }
        repo.git(&["tag", "-a", "v1", "-m", "tag"]);
        set_traps(&repo, place);
        let index = std::fs::read(repo.dir().join(".git/index")).unwrap();
        for input in looks() {
            repo.ok(input.clone()).await;
            assert_eq!(marks(&repo), Vec::<String>::new(), "{place}: {input}");
        }
        assert_eq!(std::fs::read(repo.dir().join(".git/index")).unwrap(), index, "the index is not written");
        let said = repo.said(json!({"operation": "status"})).await;
        assert!(said.contains("Filters did not run"), "{place}: {said}");
        // Plain git does run the programs, so the test setup works.
        let mut plain = std::process::Command::new("git");
        plain.args(["diff"]).current_dir(repo.dir()).output().unwrap();
        assert!(!marks(&repo).is_empty(), "{place}");
    }
}

/// Reading needs no prompt in such repositories; deny rules and foreign repositories stay protected.
#[test]
fn reading_hostile_repository_needs_no_prompt() {
    for place in PLACES {
        let repo = Repo::new();
        set_traps(&repo, place);
        repo.git(&["branch", "a.txt"]);
        let judge = |deny: &[&str], input: Value| {
            let origin = RuleSource::new("table", Destination::CliArg);
            let policy = Policy::builder(repo.dir())
                .commands(Arc::new(BashJudge))
                .rules(&origin, Behavior::Deny, deny.iter().map(|it| (*it).to_owned()))
                .build();
            let cx = CallContext::detached("call_1", repo.dir());
            let call = Arc::clone(&repo.tool).parse(input, &cx).unwrap();
            policy.judge("Git", &*call, &cx, &HookOpinion::None).behavior
        };
        for input in looks() {
            assert_eq!(judge(&[], input.clone()), Behavior::Allow, "{place}: {input}");
        }
        let changes = json!({"operation": "add", "paths": ["a.txt"]});
        assert_eq!(judge(&[], changes), Behavior::Ask, "{place}");
        assert_eq!(judge(&["Bash(git log:*)"], json!({"operation": "log"})), Behavior::Deny, "{place}");
        for input in [
            json!({"operation": "log", "patch": true}),
            json!({"operation": "show"}),
            // A branch with the name of a file is not taken for the file.
            json!({"operation": "diff", "from": "a.txt~1", "to": "a.txt"}),
            json!({"operation": "log", "patch": true, "to": "a.txt"}),
        ] {
            assert_ne!(judge(&["Read(./b.txt)"], input.clone()), Behavior::Allow, "{place}: {input}");
        }
        assert_eq!(judge(&["Read(./b.txt)"], json!({"operation": "status"})), Behavior::Allow, "{place}");
        let outside = repo.rig.outside.join("other");
        git_in(&repo.rig.outside, &["init", "-q", "other"]);
        assert_eq!(judge(&[], json!({"operation": "log", "dir": outside})), Behavior::Ask, "{place}");
        repo.put("pointing/.git", &format!("gitdir: {}\n", outside.join(".git").display()));
        assert_eq!(judge(&[], json!({"operation": "log", "dir": "pointing"})), Behavior::Ask, "{place}");
    }
}

/// In a partial clone, reading never fetches missing contents, whatever program or protocol the
/// repository configures.
#[tokio::test]
async fn reading_partial_clone_fetches_nothing() {
    let from = Repo::new();
    from.git(&["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", from.dir().display());
    for (address, program) in [(url.as_str(), true), ("ssh://127.0.0.1:1/x", false), ("trap::x", false)] {
        let repo = Repo::empty();
        repo.git(&["clone", "-q", "--filter=blob:none", "--no-checkout", &url, "."]);
        repo.git(&["config", "remote.origin.url", address]);
        if program {
            let path = trap(&repo, "upload");
            // A program that answers nothing and exits at once.
            let text = std::fs::read_to_string(&path).unwrap().replace("cat\n", "");
            std::fs::write(&path, text).unwrap();
            repo.git(&["config", "remote.origin.uploadpack", &path]);
        }
        for protocol in ["file", "ssh", "trap", "ext"] {
            repo.git(&["config", &format!("protocol.{protocol}.allow"), "always"]);
        }
        repo.git(&["config", "core.sshCommand", &trap(&repo, "ssh")]);
        for input in [
            json!({"operation": "log", "patch": true}),
            json!({"operation": "show"}),
            json!({"operation": "diff", "from": "HEAD~1", "to": "HEAD"}),
            json!({"operation": "blame", "paths": ["a.txt"], "rev": "HEAD"}),
            json!({"operation": "status"}),
        ] {
            let said = repo.said(input.clone()).await;
            assert_eq!(marks(&repo), Vec::<String>::new(), "{address}: {input}");
            let shows = matches!(input["operation"].as_str(), Some("log" | "show" | "diff"));
            assert_eq!(said.contains("This clone left contents out"), shows, "{address}: {input}: {said}");
        }
        // Without the protection it would have been fetched.
        if program {
            std::process::Command::new("git").args(["log", "-p"]).current_dir(repo.dir()).output().unwrap();
            assert!(!marks(&repo).is_empty(), "the trap works");
        }
    }
}

/// Filters the user configured run only if the repository sets no configuration that the filter could
/// obey.
#[tokio::test]
async fn user_filters_run_only_without_repository_configuration() {
    let home = tempfile::tempdir().unwrap();
    let global = home.path().join("gitconfig");
    // A filter that reads git configuration, as many do.
    let filter =
        "sh -c 'c=$(git config helper.cmd || git config lfs.extension.x.clean); sh -c \"${c:-cat}\"'";
    for (key, value) in [("filter.own.clean", filter), ("filter.own.smudge", "cat")] {
        git_in(home.path(), &["config", "--file", global.to_str().unwrap(), key, value]);
    }
    for (key, runs) in [
        ("user.name", true),
        ("core.hooksPath", true),
        ("helper.cmd", false),
        ("lfs.extension.x.clean", false),
    ] {
        let variables = |config: &mut haft_shell::run::ShellConfig| {
            config.variables = config.variables.clone().with("GIT_CONFIG_GLOBAL", &global);
        };
        let repo = Repo::with(variables);
        repo.put(".gitattributes", "* filter=own\n");
        repo.put("a.txt", "changed\n");
        repo.git(&["config", key, &trap(&repo, "directed")]);
        for input in looks().into_iter().filter(|it| it["rev"] != "v1" && it["operation"] != "stash") {
            repo.said(input.clone()).await;
            assert_eq!(marks(&repo), Vec::<String>::new(), "{key}: {input}");
        }
        let said = repo.said(json!({"operation": "status"})).await;
        assert_eq!(said.contains("Filters did not run"), !runs, "{key}: {said}");
    }
}

/// Reading does not use the configuration of embedded repositories.
#[tokio::test]
async fn reading_runs_no_program_of_embedded_repositories() {
    let inner = Repo::new();
    let repo = Repo::new();
    let from = inner.dir().to_str().unwrap();
    repo.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", from, "sub"]);
    repo.git(&["commit", "-qm", "With a submodule"]);
    let sub = repo.dir().join("sub");
    for words in [
        &["config", "user.name", "Sub"][..],
        &["config", "user.email", "sub@example.test"],
        &["commit", "-q", "--allow-empty", "-m", "Moved on"],
    ] {
        git_in(&sub, words);
    }
    repo.git(&["commit", "-qam", "Submodule moved on"]);
    git_in(&sub, &["commit", "-q", "--allow-empty", "-m", "And on"]);
    std::fs::write(sub.join("a.txt"), "changed\n").unwrap();
    for (key, name) in PROGRAMS {
        git_in(&sub, &["config", key, &trap(&repo, name)]);
    }
    repo.git(&["config", "diff.submodule", "diff"]);
    repo.git(&["config", "status.submoduleSummary", "true"]);
    repo.git(&["config", "submodule.recurse", "true"]);
    std::fs::write(repo.dir().join(".git/modules/sub/info/attributes"), "* filter=evil diff=evil\n").unwrap();
    // A directory that git takes for a bare repository, as an archive could contain it.
    let bare = repo.dir().join("vendor/lib");
    std::fs::create_dir_all(bare.join("refs")).unwrap();
    std::fs::create_dir_all(bare.join("objects")).unwrap();
    std::fs::write(bare.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    let config = format!(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = {}\n\tfsmonitor = {}\n",
        repo.dir().display(),
        trap(&repo, "embedded")
    );
    std::fs::write(bare.join("config"), config).unwrap();
    wipe(&repo);
    for dir in [Value::Null, json!("sub"), json!("vendor/lib")] {
        for mut input in [
            json!({"operation": "status"}),
            json!({"operation": "diff"}),
            json!({"operation": "diff", "from": "HEAD~1", "to": "HEAD"}),
            json!({"operation": "log", "patch": true}),
            json!({"operation": "show"}),
        ] {
            if !dir.is_null() {
                input["dir"] = dir.clone();
            }
            repo.call(input.clone()).await.1.ok();
            assert_eq!(marks(&repo), Vec::<String>::new(), "{input}");
        }
    }
    let said = repo.said(json!({"operation": "add", "dir": "vendor/lib", "paths": ["a.txt"]})).await;
    assert!(said.contains("core.worktree"), "{said}");
    // Submodules and worktrees are ordinary repositories.
    let said = repo.said(json!({"operation": "log", "dir": "sub"})).await;
    assert!(said.contains("And on"), "{said}");
    repo.git(&["worktree", "add", "-q", "../other", "HEAD~1"]);
    let said = repo.said(json!({"operation": "status", "dir": "../other"})).await;
    assert!(said.contains("on no branch"), "{said}");
}

/// Files outside the repository are never shown or changed, whatever the call or the repository says.
#[tokio::test]
async fn files_outside_the_repository_are_never_accessed() {
    let repo = Repo::new();
    let outside = repo.rig.outside.clone();
    for name in ["one", "two"] {
        std::fs::write(outside.join(name), format!("secret-{name}\n")).unwrap();
    }
    let at = |name: &str| outside.join(name).to_str().unwrap().to_owned();
    for paths in [
        json!([at("one"), at("two")]),
        json!([at("one"), "a.txt"]),
        json!(["a.txt", at("two")]),
        json!(["../outside/one", "../outside/two"]),
        json!([at("one")]),
    ] {
        for operation in ["diff", "log", "status", "blame"] {
            let said = repo.said(json!({"operation": operation, "paths": paths})).await;
            assert!(!said.contains("secret-"), "{operation} {paths}: {said}");
        }
    }
    repo.git(&["config", "blame.ignoreRevsFile", &at("one")]);
    let said = repo.said(json!({"operation": "blame", "paths": ["a.txt"]})).await;
    assert!(said.contains("blame.ignoreRevsFile") && !said.contains("secret-"), "{said}");
    // Makes files of another directory look like those of the repository.
    let blob = repo.git(&["hash-object", "-w", "a.txt"]);
    repo.git(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},one")]);
    for elsewhere in [outside.as_path(), outside.parent().unwrap(), Path::new("../..")] {
        repo.git(&["config", "core.worktree", elsewhere.to_str().unwrap()]);
        for mut input in looks().into_iter().chain([
            json!({"operation": "restore", "paths": ["one"]}),
            json!({"operation": "reset", "mode": "hard", "rev": "HEAD"}),
            json!({"operation": "stash", "action": "push"}),
            json!({"operation": "commit", "message": "x", "paths": ["one"]}),
        ]) {
            let said = repo.said(input.take()).await;
            assert!(said.contains("core.worktree") && !said.contains("secret-"), "{input}: {said}");
        }
        repo.git(&["config", "--unset", "core.worktree"]);
    }
    assert_eq!(std::fs::read_to_string(outside.join("one")).unwrap(), "secret-one\n");
}

/// Network operations run git, and no program the repository configures.
#[tokio::test]
async fn network_operations_run_no_program_of_the_repository() {
    for (key, value) in [
        ("remote.origin.uploadpack", "TRAP"),
        ("remote.origin.receivepack", "TRAP"),
        ("remote.origin.vcs", "trap"),
        ("remote.origin.url", "ext::TRAP %S"),
        ("url.ext::TRAP .insteadOf", "REMOTE"),
        ("core.sshCommand", "TRAP"),
        ("core.gitProxy", "TRAP"),
        ("credential.helper", "!TRAP"),
        ("credential.helper", "TRAP"),
        ("core.alternateRefsCommand", "TRAP"),
        ("core.fsmonitor", "TRAP"),
        ("core.askPass", "TRAP"),
    ] {
        let repo = Repo::new();
        let program = trap(&repo, "caller");
        git_in(&repo.rig.outside, &["init", "-q", "--bare", "-b", "main", "remote.git"]);
        let remote = repo.rig.outside.join("remote.git").to_str().unwrap().to_owned();
        let url = match key {
            "core.sshCommand" => "ssh://git@127.0.0.1:1/x.git",
            "core.gitProxy" => "git://127.0.0.1:1/x.git",
            _ => &remote,
        };
        repo.git(&["remote", "add", "origin", url]);
        repo.git(&["config", "protocol.ext.allow", "always"]);
        let fill = |text: &str| text.replace("TRAP", &program).replace("REMOTE", url);
        repo.git(&["config", &fill(key), &fill(value)]);
        for operation in ["fetch", "pull", "push"] {
            for branch in [json!({}), json!({"remote": "origin", "branch": "main"})] {
                let mut input = json!({"operation": operation});
                input.as_object_mut().unwrap().extend(branch.as_object().unwrap().clone());
                repo.call(input.clone()).await.1.ok();
                assert_eq!(marks(&repo), Vec::<String>::new(), "{key} = {value}: {input}");
            }
        }
    }
}

/// No repository configuration and no branch name makes a push overwrite or delete anything.
#[tokio::test]
async fn repository_configuration_cannot_force_a_push() {
    for settings in [
        &[("remote.origin.push", "+refs/heads/*:refs/heads/*")][..],
        &[("remote.origin.mirror", "true")],
        &[("push.default", "matching"), ("remote.origin.push", "+:")],
        &[("branch.main.remote", "origin"), ("branch.main.merge", "refs/heads/theirs")],
        &[("push.followTags", "true"), ("push.recurseSubmodules", "on-demand")],
    ] {
        let repo = Repo::new();
        git_in(&repo.rig.outside, &["init", "-q", "--bare", "-b", "main", "remote.git"]);
        let remote = repo.rig.outside.join("remote.git");
        repo.git(&["remote", "add", "origin", remote.to_str().unwrap()]);
        repo.git(&["push", "-q", "origin", "main", "main:theirs", "main:mine"]);
        let pushed = repo.git(&["rev-parse", "HEAD"]);
        repo.git(&["reset", "-q", "--hard", "HEAD~1"]);
        repo.git(&["commit", "-q", "--allow-empty", "-m", "Other"]);
        for (key, value) in settings {
            repo.git(&["config", key, value]);
        }
        let refs = || git_in(&remote, &["for-each-ref", "--format=%(refname) %(objectname)"]);
        let before = refs();
        for input in [
            json!({"operation": "push"}),
            json!({"operation": "push", "remote": "origin"}),
            json!({"operation": "push", "remote": "origin", "branch": "main"}),
            json!({"operation": "push", "remote": "origin", "branch": "+main"}),
            json!({"operation": "push", "remote": "origin", "branch": "+main:main"}),
            json!({"operation": "push", "remote": "origin", "branch": "main:+main"}),
            json!({"operation": "push", "remote": "origin", "branch": ":mine"}),
            json!({"operation": "push", "remote": "origin", "branch": ":"}),
            json!({"operation": "push", "remote": "origin", "branch": "refs/heads/*"}),
            json!({"operation": "push", "remote": "origin", "branch": "main", "force": true, "expect": "1".repeat(40)}),
        ] {
            let (_, got) = repo.call(input.clone()).await;
            assert!(got.is_err(), "{settings:?}: {input}");
            assert_eq!(refs(), before, "{settings:?}: {input}");
        }
        if settings.iter().any(|it| it.0 == "remote.origin.mirror") {
            continue;
        }
        repo.ok(json!({"operation": "push", "remote": "origin", "branch": "main:mine", "force": true, "expect": pushed}))
            .await;
        assert_eq!(git_in(&remote, &["rev-parse", "mine"]), repo.git(&["rev-parse", "HEAD"]), "{settings:?}");
        assert_eq!(git_in(&remote, &["rev-parse", "main"]), pushed, "{settings:?}");
    }
}
