//! Plan mode, worktrees, other backends, and machines with fewer features.

use std::path::Path;

use haft_sandbox::SandboxFeatures;

use super::*;

#[tokio::test]
async fn plan_mode_writes_nothing_and_reads_everything() {
    for features in ["", "namespaces"] {
        let walls = Walls::without(features);
        let scratch = walls.top.join("scratch");
        let policy = || {
            SandboxPolicy::read_only(
                &scratch,
                "plan mode: nothing may be written before the plan is approved",
            )
        };
        if walls.sandbox.report(&policy()).backend.is_none() {
            eprintln!("SKIPPED: nothing confines commands here without {features:?}");
            continue;
        }
        let work = walls.work();
        let git = "git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m first";
        assert!(walls.rig.run(git).await.1.is_success());
        std::fs::write(work.join("f"), "text\n").unwrap();
        let before = walls.everything("work");
        for attempt in [
            "cat > g",
            "echo x > f",
            "python3 -c 'open(\"g\", \"w\")'",
            "git -c user.name=a -c user.email=b commit --amend --allow-empty -m y",
            "sed -i s/text/other/ f",
            "echo x | tee g",
            "touch g; mkdir h; rm f; mv f g",
        ] {
            walls.run(policy(), attempt).await.0.gone().await;
            assert_eq!(walls.everything("work"), before, "{features:?} {attempt}");
        }
        for (command, want) in [
            ("git log --format=%s | head -1", "first\n"),
            ("grep -r text f", "text\n"),
            ("echo x > $TMPDIR/t && cat $TMPDIR/t", "x\n"),
            ("git status --short", "?? f\n"),
        ] {
            assert_eq!(walls.text(policy(), command).await, want, "{features:?} {command}");
        }
        let (job, _) = walls.run(policy(), "echo x > f").await;
        let said = blocked(&policy(), &work, &text(&job));
        assert_eq!(
            said,
            [format!(
                "write {} (plan mode: nothing may be written before the plan is approved)",
                work.join("f").display()
            )]
        );
    }
}

#[tokio::test]
async fn git_works_in_a_linked_worktree() {
    let walls = Walls::new();
    if !walls.has(SandboxBackend::Namespaces) {
        return;
    }
    let main = walls.top.join("outside/main");
    let (work, main_text) = (walls.work(), main.display().to_string());
    std::fs::remove_dir(&work).unwrap();
    let setup = format!(
        "cd {0} && git init -q main && cd main && git config user.name a && git config user.email b && git commit -q --allow-empty -m first && git worktree add -q {1}",
        walls.top.join("outside").display(),
        work.display()
    );
    let done = Command::new("bash").args(["-c", &setup]).status().unwrap();
    assert!(done.success());
    let got = walls
        .text(walls.policy(), "echo x > f && git add f && git commit -q -m second && git log --format=%s")
        .await;
    assert_eq!(got, "second\nfirst\n");
    for attempt in [
        "echo x > MAIN/.git/hooks/pre-commit",
        "git config core.pager evil",
        "echo x > MAIN/file",
        "echo x >> MAIN/.git/config",
    ] {
        let before = (
            std::fs::read(main.join(".git/config")).unwrap(),
            std::fs::read_dir(main.join(".git/hooks")).unwrap().count(),
        );
        walls.run(walls.policy(), &attempt.replace("MAIN", &main_text)).await;
        let after = (
            std::fs::read(main.join(".git/config")).unwrap(),
            std::fs::read_dir(main.join(".git/hooks")).unwrap().count(),
        );
        assert!(before == after && !main.join("file").exists(), "{attempt}");
    }
    // A directory that only claims to be a worktree gets no access.
    let victim = walls.top.join("outside/victim");
    std::fs::create_dir_all(victim.join("objects")).unwrap();
    std::fs::create_dir_all(victim.join("worktrees/x")).unwrap();
    std::fs::write(victim.join("HEAD"), "x").unwrap();
    std::fs::write(victim.join("worktrees/x/commondir"), "../..\n").unwrap();
    std::fs::write(victim.join("worktrees/x/gitdir"), "/somewhere/else/.git\n").unwrap();
    std::fs::remove_file(work.join(".git")).unwrap();
    std::fs::write(work.join(".git"), format!("gitdir: {}\n", victim.join("worktrees/x").display())).unwrap();
    assert!(!walls.policy().write.iter().any(|it| it.starts_with(&victim)), "{:?}", walls.policy().write);
}

#[tokio::test]
async fn unenforceable_policy_is_reported_and_refused() {
    for (without, backend, gaps) in [
        ("", Some(SandboxBackend::Namespaces), false),
        ("namespaces,bubblewrap", Some(SandboxBackend::Landlock), true),
        ("namespaces,bubblewrap,landlock", None, true),
        ("seccomp", None, true),
    ] {
        let walls = Walls::without(without);
        if !Walls::new().has(SandboxBackend::Namespaces) {
            return;
        }
        let report = walls.sandbox.report(&walls.policy());
        assert_eq!((report.backend, !report.gaps.is_empty()), (backend, gaps), "{without}: {report}");
        let strict = walls.sandbox.confine(walls.policy(), SandboxStrictness::Complete);
        assert_eq!(strict.is_ok(), !gaps, "{without}");
        let loose = walls.sandbox.confine(walls.policy(), SandboxStrictness::BestEffort);
        assert_eq!(loose.is_ok(), backend.is_some(), "{without}");
    }
    let walls = Walls::without("namespaces,bubblewrap");
    let report = walls.sandbox.report(&walls.policy()).to_string();
    assert!(
        report.contains("NOT enforced: ") && report.contains("protected paths inside writable directories"),
        "{report}"
    );
}

#[tokio::test]
async fn landlock_backend_hides_files_and_blocks_network() {
    let walls = Walls::without("namespaces,bubblewrap");
    if !walls.has(SandboxBackend::Landlock) {
        return;
    }
    let secret = walls.top.join("outside/secret");
    std::fs::write(&secret, "CANARY\n").unwrap();
    let hide = vec![Hidden { path: secret.clone(), rule: String::from("Read(secret)") }];
    let policy = SandboxPolicy { hide, ..walls.policy() };
    let outside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = outside.local_addr().unwrap().port();
    let confined = walls.confine(policy);
    // Without namespaces, outside processes have visible pids.
    let us = std::process::id();
    for attempt in [
        format!("cat {}", secret.display()),
        format!("prlimit --pid {us} --core=0:0 && echo CANARY"),
        format!("prlimit --pid {us} --nofile && echo CANARY"),
        format!("exec 5<>/dev/tcp/127.0.0.1/{port} && echo CANARY"),
        String::from(
            "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM); print(\"CANARY\")'",
        ),
    ] {
        let (job, _) = walls.run_with(&confined, &attempt).await;
        assert!(!text(&job).contains("CANARY\n"), "{attempt}: {}", text(&job));
    }
    let (job, _) = walls
        .run_with(
            &confined,
            &format!("cat {} && echo new > n && cat n", walls.top.join("outside/file").display()),
        )
        .await;
    assert_eq!(text(&job), "outside\nnew\n");
}

#[tokio::test]
async fn bubblewrap_backend_enforces_the_same_policy() {
    let walls = Walls::without("namespaces");
    if !walls.has(SandboxBackend::Bubblewrap) {
        return;
    }
    let work = walls.work();
    std::fs::write(work.join(".env"), "CANARY\n").unwrap();
    std::fs::create_dir_all(work.join(".git/hooks")).unwrap();
    let hide = vec![Hidden { path: work.join(".env"), rule: String::from("Read(.env)") }];
    let confined = walls.confine(SandboxPolicy { hide, ..walls.policy() });
    let before = walls.everything("outside");
    let outside = walls.top.join("outside").display().to_string();
    for attempt in [
        "echo x > OUT/new",
        "cat .env",
        "mv .git g; echo x > .git/hooks/y",
        "echo x > .mcp.json",
        "chmod 777 OUT/file",
        "exec 5<>/dev/tcp/192.0.2.1/80 && echo CANARY",
    ] {
        let (job, _) = walls.run_with(&confined, &attempt.replace("OUT", &outside)).await;
        assert!(!text(&job).contains("CANARY"), "{attempt}: {}", text(&job));
        job.gone().await;
    }
    assert_eq!(walls.everything("outside"), before);
    assert!(!work.join(".git/hooks/y").exists() && !work.join(".mcp.json").exists());
    let (job, end) = walls.run_with(&confined, "echo ok > f && cat f && grep CapEff /proc/self/status").await;
    assert_eq!((text(&job).as_str(), end.is_success()), ("ok\nCapEff:\t0000000000000000\n", true));
}

#[tokio::test]
async fn failed_sandbox_setup_prevents_the_command() {
    let walls = Walls::new();
    if !walls.has(SandboxBackend::Namespaces) {
        return;
    }
    // Without the mount point nothing can be mounted.
    std::fs::remove_dir(walls.top.join("sandbox/hollow")).unwrap();
    let (_, end) = walls.run(walls.policy(), "touch ran").await;
    let Exit::NotStarted(why) = &end.exit else { panic!("{end:?}") };
    assert!(why.contains("sandbox could not mount"), "{why}");
    assert!(!walls.work().join("ran").exists());
}

#[test]
fn denial_detection_distinguishes_denials_from_other_errors() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(top.join("work/.git/hooks")).unwrap();
    std::fs::create_dir_all(top.join("other")).unwrap();
    std::fs::write(top.join("work/mine"), "").unwrap();
    let work = top.join("work");
    let policy = SandboxPolicy {
        write: vec![work.clone()],
        write_rule: String::from("only the workspace"),
        protect: vec![Protected {
            path: work.join(".git/hooks"),
            kind: PathKind::Directory,
            absent: IfMissing::Prevent,
        }],
        ..SandboxPolicy::default()
    };
    let other = top.join("other/x").display().to_string();
    let write = |path: &str, rule: &str| format!("write {path} ({rule})");
    let hook = work.join(".git/hooks/y").display().to_string();
    for (output, want) in [
        (format!("bash: {other}: Read-only file system"), vec![write(&other, "only the workspace")]),
        (
            format!("touch: cannot touch '{other}': Read-only file system"),
            vec![write(&other, "only the workspace")],
        ),
        (
            format!("PermissionError: [Errno 13] Permission denied: '{other}'"),
            vec![write(&other, "only the workspace")],
        ),
        (String::from("bash: ../other/x: Permission denied"), vec![write(&other, "only the workspace")]),
        (
            String::from("bash: .git/hooks/y: Read-only file system"),
            vec![write(&hook, &format!("protected path {}", work.join(".git/hooks").display()))],
        ),
        (String::from("cat: mine: Permission denied"), vec![]),
        (String::from("error: permission denied by the server for table users"), vec![]),
        (String::from("all good"), vec![]),
        (format!("wrote {other}"), vec![]),
        (String::from("curl: (6) Could not resolve host: x"), vec![]),
    ] {
        assert_eq!(blocked(&policy, &work, &output), want, "{output}");
    }
    let closed = SandboxPolicy { network: Network::Off, ..policy };
    for (output, is_wall) in [
        ("curl: (6) Could not resolve host: x", true),
        ("curl: (7) Failed to connect to 10.1.2.3 port 80 after 0 ms: Couldn't connect to server", true),
        ("psql: error: connection to server at \"db.internal.example\" (10.0.0.9), port 5432 failed", true),
        ("Error: connect ECONNREFUSED 192.168.7.7:6379", true),
        ("ssh: connect to host build.example.org port 22: Connection refused", true),
        ("dial tcp [2001:db8::5]:443: connect: permission denied", true),
        ("wget: unable to resolve host address \u{2018}example.org\u{2019}", true),
        ("wget: bad address 'example.org'", true),
        ("dial tcp: lookup proxy.golang.org: no such host", true),
        ("lookup registry.example on 10.0.0.2:53: server misbehaving", true),
        ("Exception in thread \"main\" java.net.UnknownHostException: repo.example.org", true),
        ("npm error code ENOTFOUND", true),
        (";; communications error to 192.0.2.53#53: network unreachable", true),
        (";; connection timed out; no servers could be reached", true),
        ("ERROR 2005 (HY000): Unknown MySQL server host 'db.example' (-3)", true),
        ("error: dns error: failed to lookup address information: Name does not resolve", true),
        ("<urlopen error [Errno 101] Network is unreachable>", true),
        ("Can't connect to cpan.example:80 (Bad hostname)", true),
        ("read: Bad address", false),
        ("no such file or directory", false),
        // No server listens on this machine: not caused by the sandbox.
        ("curl: (7) Failed to connect to localhost port 3000 after 0 ms: Couldn't connect to server", false),
        ("Error: connect ECONNREFUSED 127.0.0.1:5432", false),
        ("Connection refused", false),
        ("GET https://example.org 200", false),
    ] {
        let want: &[&str] = if is_wall { &["connect (the network is off)"] } else { &[] };
        assert_eq!(blocked(&closed, &work, output), want, "{output}");
    }
}

/// If the seccomp system call does not exist although `/proc` lists filter actions (as in emulators),
/// the feature is not reported.
#[test]
fn missing_seccomp_call_is_not_reported_as_supported() {
    let helper = Path::new(env!("CARGO_BIN_EXE_haft-sandbox-helper"));
    let usual = SandboxFeatures::probe(helper, "bubblewrap", None);
    if usual.kernel.seccomp.is_some() {
        eprintln!("SKIPPED: calls cannot be filtered here: {:?}", usual.kernel.seccomp);
        return;
    }
    // Applies to this thread and its children only.
    let without = std::thread::spawn(move || {
        use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
        let missing = [(libc::SYS_seccomp, Vec::new())].into_iter().collect();
        let answer = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
        let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
        let filter = SeccompFilter::new(missing, SeccompAction::Allow, answer, arch).unwrap();
        seccompiler::apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
        SandboxFeatures::probe(helper, "bubblewrap", None)
    });
    let why = without.join().unwrap().kernel.seccomp;
    assert!(why.as_ref().is_some_and(|why| why.contains("Function not implemented")), "{why:?}");
}
