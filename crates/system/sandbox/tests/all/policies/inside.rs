//! Work succeeds inside the sandbox and changes nothing outside.

use super::*;

#[tokio::test]
async fn sandboxed_commands_work_inside_the_workspace() {
    let walls = Walls::new();
    if !walls.has(SandboxBackend::Namespaces) {
        return;
    }
    assert!(walls.sandbox.report(&walls.policy()).is_complete(), "{}", walls.sandbox.report(&walls.policy()));
    for (command, want) in [
        ("echo hi > f && cat f && mkdir -p d/e && mv f d/e/g && rm -r d && ls", ""),
        ("echo x > $TMPDIR/y && cat $TMPDIR/y", "x\n"),
        ("echo gone > /dev/null; head -c 3 /dev/zero | wc -c", "3\n"),
        ("echo out > /dev/stdout; echo err > /dev/stderr", "out\nerr\n"),
        ("touch /dev/shm/x && echo ok", "ok\n"),
        ("cat <<< 'here'", "here\n"),
        ("cat <(echo piped)", "piped\n"),
        ("sleep 0.01 & wait; echo $HAFT_SANDBOX", "network=off\n"),
        ("id -u; pwd", &format!("{}\n{}\n", rustix::process::getuid().as_raw(), walls.work().display())),
        (
            "python3 -c 'import tempfile, multiprocessing; print(tempfile.gettempdir()); multiprocessing.Lock()'",
            &format!("{}\n", walls.top.join("scratch").display()),
        ),
        (
            "grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status",
            "CapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n",
        ),
    ] {
        let (job, end) = walls.run(walls.policy(), command).await;
        assert_eq!(
            (text(&job).as_str(), end.is_success()),
            (if want.is_empty() { "hi\n" } else { want }, true),
            "{command}: {end:?}"
        );
    }
}

#[tokio::test]
async fn sandboxed_command_changes_nothing_outside() {
    for features in ["", "namespaces", "landlock"] {
        let walls = Walls::without(features);
        let backend = walls.sandbox.report(&walls.policy()).backend;
        let Some(backend) = backend else {
            eprintln!("SKIPPED: nothing confines commands here without {features:?}");
            continue;
        };
        let outside = walls.top.join("outside");
        std::os::unix::fs::symlink(&outside, walls.work().join("link")).unwrap();
        std::os::unix::fs::symlink(outside.join("file"), walls.work().join("file-link")).unwrap();
        let before = walls.everything("outside");
        for attempt in [
            "echo x > OUT/new",
            "echo x > OUT/file",
            "echo x >> OUT/file",
            "rm OUT/file",
            "mv OUT/file stolen",
            "mkdir OUT/d",
            "echo x > link/new",
            "echo x > file-link",
            "ln -s /etc/passwd OUT/l",
            "mkfifo OUT/fifo",
            "cp f OUT/ ; truncate -s 0 OUT/file",
            "python3 -c 'import os; os.link(\"f\", \"OUT/hard\")'",
            "python3 -c 'import os; os.rename(\"f\", \"OUT/moved\")'",
            "python3 -c 'open(\"/proc/self/cwd/../outside/p\", \"w\")'",
            "cd link && echo x > y",
            "bash -c 'cd OUT && touch z'",
            "env -i /bin/sh -c 'echo x > OUT/e'",
            "exec 9<OUT; echo x > /proc/self/fd/9/w",
            "echo core > /proc/sys/kernel/core_pattern",
            "unshare -Urm sh -c 'mount -o remount,rw / ; echo x > OUT/u'",
            "umount -l WORK; echo x > OUT/after",
            "mount --bind OUT sub",
        ] {
            let out = outside.display().to_string();
            let attempt = attempt.replace("OUT", &out).replace("WORK", &walls.work().display().to_string());
            let (job, _) = walls.run(walls.policy(), &format!("touch f; mkdir -p sub; {attempt}")).await;
            assert_eq!(walls.everything("outside"), before, "{features:?} {attempt}: {}", text(&job));
        }
        // Only mounts enforce these.
        if backend != SandboxBackend::Landlock {
            let attempt = format!(
                "chmod 777 {0}; touch -d 2001-01-01 {0}; chown 1:1 {0}",
                outside.join("file").display()
            );
            walls.run(walls.policy(), &attempt).await;
            assert_eq!(walls.everything("outside"), before, "{attempt}");
        }
        let core = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
        assert_ne!(core.trim(), "core-of-a-test");
    }
}

#[tokio::test]
async fn protected_paths_are_unchanged_even_when_absent() {
    let walls = Walls::new();
    if !walls.has(SandboxBackend::Namespaces) {
        return;
    }
    let work = walls.work();
    std::fs::create_dir_all(work.join(".git/hooks")).unwrap();
    std::fs::write(work.join(".git/config"), "[core]\n").unwrap();
    std::fs::write(work.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(work.join(".envrc"), "old\n").unwrap();
    std::fs::create_dir(work.join("dotfiles")).unwrap();
    std::fs::write(work.join("dotfiles/profile"), "old\n").unwrap();
    std::os::unix::fs::symlink("dotfiles/profile", work.join(".profile")).unwrap();
    let before = walls.protected();
    for attempt in [
        "echo x > .git/hooks/pre-commit",
        "echo x >> .git/config",
        "mv .git git2",
        "rm -rf .git/hooks .git/config",
        "mv .git/hooks h",
        "ln -sfn /tmp .git/hooks",
        "mkdir -p .claude && echo x > .claude/settings.json",
        "echo x > .mcp.json",
        "mkdir .vscode && echo x > .vscode/settings.json",
        "mkdir .haft",
        "ln -s /tmp .haft",
        "ln -s f .mcp.json",
        "mv d .vscode",
        "echo x > .envrc",
        "mv .envrc e; echo x > .envrc",
        "echo x > .profile",
        "rm .profile && echo x > .profile",
        "echo x > dotfiles/profile",
        "mv dotfiles dots",
        "chmod 777 .git/config",
        "git config core.fsmonitor x",
        "git init -q --template=/dev/null . ; echo x > .git/hooks/y",
        // Not prevented, but moved to quarantine.
        "echo x > .npmrc",
        "mkdir .husky && echo x > .husky/pre-commit",
        "echo .. > .git/commondir",
    ] {
        let (job, _) = walls.run(walls.policy(), &format!("mkdir d; {attempt}")).await;
        job.gone().await;
        std::fs::remove_dir_all(work.join("d")).ok();
        assert_eq!(walls.protected(), before, "{attempt}: {}", text(&job));
    }
    let (_, end) = walls.run(walls.policy(), "echo x > .npmrc").await;
    assert!(end.violations[0].contains(".npmrc (protected path"), "{:?}", end.violations);
    // Everything else in a repository is writable.
    let got = walls
        .text(
            walls.policy(),
            "echo x > .git/index && mkdir -p .git/refs/heads && echo ok && rm -r .git/index .git/refs",
        )
        .await;
    assert_eq!(got, "ok\n");
}

#[tokio::test]
async fn leftover_process_cannot_keep_protected_names() {
    let walls = Walls::new();
    if !walls.has(SandboxBackend::Namespaces) {
        return;
    }
    let work = walls.work();
    std::fs::create_dir_all(work.join(".git/hooks")).unwrap();
    std::fs::write(work.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    let wait = |name: &str| format!("until [ -e {name} ]; do sleep 0.01; done");
    let writes = "echo x > .envrc; mkdir -p .yarn .husky; echo .. > .git/commondir; mkdir .yarn/plugins";
    let line =
        format!("({}; {writes}; touch done; {}) >/dev/null 2>&1 & echo started", wait("go"), wait("end"));
    let (job, end) = walls.run(walls.policy(), &line).await;
    assert!(!end.left.is_empty(), "{end:?}");
    std::fs::write(work.join("go"), "").unwrap();
    common::eventually("it writes", || work.join("done").exists());
    for name in [".envrc", ".husky", ".git/commondir", ".yarn/plugins"] {
        common::eventually(name, || !work.join(name).exists());
    }
    assert!(job.end().is_some(), "it is still running meanwhile");
    common::eventually("it is told", || text(&job).contains("blocked by sandbox: create"));
    std::fs::write(work.join("end"), "").unwrap();
    job.gone().await;
}

#[tokio::test]
async fn concurrent_commands_share_placeholders() {
    let walls = Walls::new();
    if !walls.has(SandboxBackend::Namespaces) {
        return;
    }
    let confined = walls.confine(walls.policy());
    let mut long = walls.rig.spec("touch up; until [ -e go ]; do sleep 0.01; done; echo x > .mcp.json");
    let nothing = || [".mcp.json", ".claude"].iter().all(|it| !walls.work().join(it).exists());
    long.confinement = Some(Arc::clone(&confined));
    let long = walls.rig.shell.start(long).unwrap();
    common::eventually("it runs", || walls.work().join("up").exists());
    let (short, _) = walls.run_with(&confined, "echo x > .mcp.json").await;
    short.gone().await;
    assert!(walls.work().join(".mcp.json").exists(), "still held by the other");
    std::fs::write(walls.work().join("go"), "").unwrap();
    assert!(!long.ended().await.is_success());
    long.gone().await;
    common::eventually("the stand-ins go", nothing);
}

/// Two sessions in one directory: neither removes placeholders that the other uses, and their commands
/// start and end concurrently.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_in_one_directory_keep_each_others_placeholders() {
    let walls = Walls::new();
    if !walls.has(SandboxBackend::Namespaces) {
        return;
    }
    let second = Sandbox::open(SandboxConfig {
        helper: PathBuf::from(env!("CARGO_BIN_EXE_haft-sandbox-helper")),
        ..SandboxConfig::new("second", walls.top.join("sandbox")).unwrap()
    });
    let second = second.unwrap().confine(walls.policy(), SandboxStrictness::BestEffort).unwrap();
    let first = walls.confine(walls.policy());
    let until = |name: &str| {
        format!("touch {name}.up; until [ -e {name}.go ]; do sleep 0.01; done; echo x > .mcp.json")
    };
    let start = |walls_of: &Arc<Confinement>, command: &str| {
        let mut spec = walls.rig.spec(command);
        spec.confinement = Some(Arc::clone(walls_of));
        walls.rig.shell.start(spec).unwrap()
    };
    let owner = start(&first, &until("owner"));
    common::eventually("the owner runs", || walls.work().join("owner.up").exists());
    let guest = start(&second, &until("guest"));
    common::eventually("the guest runs", || walls.work().join("guest.up").exists());
    std::fs::write(walls.work().join("owner.go"), "").unwrap();
    assert!(!owner.ended().await.is_success());
    owner.gone().await;
    std::fs::write(walls.work().join("guest.go"), "").unwrap();
    assert!(!guest.ended().await.is_success(), "it was protected to the end");
    guest.gone().await;
    assert_eq!(std::fs::read_to_string(walls.work().join(".mcp.json")).unwrap(), "{\"mcpServers\": {}}\n");

    let walls_of = |number: usize| if number.is_multiple_of(2) { &first } else { &second };
    let many = async |number| {
        for _ in 0..15 {
            let (job, end) = walls.run_with(walls_of(number), "echo ok").await;
            assert_eq!((text(&job).as_str(), end.is_success()), ("ok\n", true), "{end:?}");
        }
    };
    tokio::join!(many(0), many(1), many(2), many(3));
}

#[tokio::test]
async fn placeholders_left_by_a_crash_are_removed() {
    let walls = Walls::new();
    let state = walls.top.join("sandbox");
    let journal = state.join("stand-ins/dead");
    let (empty, full) = (walls.work().join(".mcp.json"), walls.work().join(".haft"));
    std::fs::write(&empty, "{}\n").unwrap();
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("settings.json"), "mine").unwrap();
    std::fs::write(&journal, format!("{}\0{}\0", empty.display(), full.display())).unwrap();
    let config =
        SandboxConfig { session: String::from("next"), ..SandboxConfig::new("next", &state).unwrap() };
    Sandbox::open(config).unwrap();
    assert!(!empty.exists() && full.join("settings.json").exists() && !journal.exists());
}

/// `~/.haft` may be a link, as those make it who keep their configuration in a repository.
#[tokio::test]
async fn state_directory_behind_a_link_confines_commands() {
    let walls = Walls::new();
    let link = walls.top.join("link");
    std::os::unix::fs::symlink(walls.top.join("sandbox"), &link).unwrap();
    let config = SandboxConfig {
        helper: PathBuf::from(env!("CARGO_BIN_EXE_haft-sandbox-helper")),
        session: String::from("linked"),
        ..SandboxConfig::new("linked", &link).unwrap()
    };
    let walls = Walls { sandbox: Sandbox::open(config).unwrap(), ..walls };
    if walls.sandbox.report(&walls.policy()).backend.is_none() {
        eprintln!("SKIPPED: nothing confines commands here");
        return;
    }
    assert_eq!(walls.text(walls.policy(), "echo in > f; cat f").await, "in\n");
}
