//! What confined commands can and cannot do, on this machine's kernel.
#![allow(clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

mod common;

use std::{
    collections::BTreeMap,
    io,
    net::IpAddr,
    os::unix::{fs::PermissionsExt as _, net::UnixListener},
    path::PathBuf,
    pin::Pin,
    process::Command,
    sync::Arc,
};

use common::{Rig, lives, read_pid, text};
use haft_shell::{
    run::{End, Exit, Job},
    sandbox::{
        Backend, Confinement, Domains, Hidden, Lookup, Network, PathKind, Policy, Protected, Sandbox,
        SandboxConfig, Strictness, WhenAbsent, WorkspacePolicy, blocked,
    },
};

struct Walls {
    rig: Rig,
    top: PathBuf,
    sandbox: Arc<Sandbox>,
}

struct Names(BTreeMap<String, IpAddr>);

impl Lookup for Names {
    fn lookup<'a>(
        &'a self,
        host: &'a str,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        let found = self.0.get(host).copied();
        Box::pin(async move { found.map(|ip| vec![ip]).ok_or_else(|| io::ErrorKind::NotFound.into()) })
    }
}

impl Walls {
    fn new() -> Self {
        Self::without("")
    }

    fn without(features: &str) -> Self {
        let rig = Rig::new();
        let top = rig.dir.path().canonicalize().unwrap();
        for dir in ["outside", "scratch", "sandbox"] {
            std::fs::create_dir_all(top.join(dir)).unwrap();
        }
        std::fs::write(top.join("outside/file"), "outside\n").unwrap();
        let names = [("local.test", "127.0.0.1"), ("meta.test", "169.254.169.254")];
        let names = names.map(|(name, ip)| (name.to_owned(), ip.parse().unwrap())).into();
        let sandbox = Sandbox::open(SandboxConfig {
            helper: PathBuf::from(env!("CARGO_BIN_EXE_haft-sandbox-helper")),
            session: String::from("test"),
            state: top.join("sandbox"),
            bubblewrap: std::env::var_os("HAFT_BWRAP").map(PathBuf::from),
            without: features.to_owned(),
            lookup: Arc::new(Names(names)),
        });
        Self { rig, top, sandbox: sandbox.unwrap() }
    }

    fn work(&self) -> PathBuf {
        self.rig.work()
    }

    /// The usual policy, but for `/tmp`, in which these tests live.
    fn policy(&self) -> Policy {
        let mut policy = WorkspacePolicy {
            roots: &[self.work()],
            scratch: &self.top.join("scratch"),
            home: None,
            write: &[],
            protect: &[],
            hide: &[],
        }
        .policy(Network::Off);
        policy.write.retain(|it| it.starts_with(&self.top));
        policy
    }

    fn confine(&self, policy: Policy) -> Arc<Confinement> {
        self.sandbox.confine(policy, Strictness::BestEffort).unwrap()
    }

    async fn run_with(&self, walls: &Arc<Confinement>, command: &str) -> (Job, Arc<End>) {
        let mut spec = self.rig.spec(command);
        spec.confinement = Some(Arc::clone(walls));
        let job = self.rig.shell.start(spec).unwrap();
        let end = job.ended().await;
        (job, end)
    }

    async fn run(&self, policy: Policy, command: &str) -> (Job, Arc<End>) {
        self.run_with(&self.confine(policy), command).await
    }

    async fn text(&self, policy: Policy, command: &str) -> String {
        text(&self.run(policy, command).await.0)
    }

    /// Every name and content below the scratch directories, but for our own.
    fn everything(&self, below: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut all = BTreeMap::new();
        let mut open = vec![self.top.join(below)];
        while let Some(dir) = open.pop() {
            for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
                let path = entry.path();
                let mode = entry.metadata().unwrap().permissions().mode().to_string().into_bytes();
                if entry.file_type().unwrap().is_dir() {
                    all.insert(path.clone(), mode);
                    open.push(path);
                } else {
                    let content = std::fs::read(&path).unwrap_or_default();
                    all.insert(path, [mode, content].concat());
                }
            }
        }
        all
    }

    /// What of the workspace is protected in these tests.
    fn protected(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let names = [
            ".git/hooks",
            ".git/config",
            ".git/commondir",
            ".claude",
            ".mcp.json",
            ".vscode",
            ".haft",
            ".envrc",
            ".profile",
            "dotfiles/profile",
            ".npmrc",
            ".husky",
        ];
        let names = names.map(|name| self.work().join(name));
        let mut all = self.everything("work");
        all.retain(|path, _| names.iter().any(|name| path.starts_with(name)));
        all
    }

    fn has(&self, backend: Backend) -> bool {
        let found = self.sandbox.report(&self.policy()).backend;
        if found != Some(backend) {
            eprintln!("SKIPPED: this machine has {found:?} and not {backend:?}");
        }
        found == Some(backend)
    }
}

#[tokio::test]
async fn work_goes_on_inside() {
    let walls = Walls::new();
    if !walls.has(Backend::Namespaces) {
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
async fn nothing_outside_changes() {
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
        // Only mounts hold these.
        if backend != Backend::Landlock {
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
async fn protected_paths_stay_as_they_are_also_when_absent() {
    let walls = Walls::new();
    if !walls.has(Backend::Namespaces) {
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
        // Not prevented, but taken back.
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
    // Everything else of a repository can be written.
    let got = walls
        .text(
            walls.policy(),
            "echo x > .git/index && mkdir -p .git/refs/heads && echo ok && rm -r .git/index .git/refs",
        )
        .await;
    assert_eq!(got, "ok\n");
}

#[tokio::test]
async fn commands_at_the_same_time_share_stand_ins() {
    let walls = Walls::new();
    if !walls.has(Backend::Namespaces) {
        return;
    }
    let confined = walls.confine(walls.policy());
    let mut long = walls.rig.spec("touch up; until [ -e go ]; do sleep 0.01; done; echo x > .mcp.json");
    long.confinement = Some(Arc::clone(&confined));
    let long = walls.rig.shell.start(long).unwrap();
    common::eventually("it runs", || walls.work().join("up").exists());
    let (short, _) = walls.run_with(&confined, "echo x > .mcp.json").await;
    short.gone().await;
    assert!(walls.work().join(".mcp.json").exists(), "still held by the other");
    std::fs::write(walls.work().join("go"), "").unwrap();
    assert!(!long.ended().await.is_success());
    long.gone().await;
    common::eventually("the stand-in goes", || !walls.work().join(".mcp.json").exists());
}

#[tokio::test]
async fn what_a_crash_left_in_place_of_absent_paths_goes() {
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

#[tokio::test]
async fn hidden_files_cannot_be_read_by_any_way() {
    let walls = Walls::new();
    if !walls.has(Backend::Namespaces) {
        return;
    }
    let work = walls.work();
    std::fs::write(work.join(".env"), "CANARY\n").unwrap();
    std::fs::hard_link(work.join(".env"), work.join("hard")).unwrap();
    std::os::unix::fs::symlink(".env", work.join("soft")).unwrap();
    let keys = walls.top.join("outside/keys");
    std::fs::create_dir(&keys).unwrap();
    std::fs::write(keys.join("id"), "CANARY\n").unwrap();
    let hide = [
        Hidden { path: work.join(".env"), rule: String::from("Read(**/.env)") },
        Hidden { path: keys.clone(), rule: String::from("Read(keys)") },
    ];
    let policy = WorkspacePolicy {
        roots: std::slice::from_ref(&work),
        scratch: &walls.top.join("scratch"),
        home: None,
        write: &[],
        protect: &[],
        hide: &hide,
    }
    .policy(Network::Off);
    let confined = walls.confine(policy);
    let keys = keys.display();
    for attempt in [
        "cat .env",
        "cat hard soft",
        "f=.env; cat \"$f\"",
        "cat .e*",
        "grep -r CANARY .",
        "python3 -c 'print(open(\".env\").read())'",
        "tar c . | cat",
        "cp .env copy; cat copy",
        "mv .env moved; cat moved",
        "ln .env other; cat other",
        "chmod 644 .env; cat .env",
        "cat /proc/self/root$PWD/.env",
        "mkdir sub; mv sub sub2; cat ./.env",
        &format!("cat {keys}/id; ls {keys}; find {keys} -type f -exec cat {{}} +"),
        &format!("cd {keys} && cat id"),
        "umount .env; cat .env",
        "unshare -Urm sh -c 'umount -l .env; cat .env'",
    ] {
        let (job, _) = walls.run_with(&confined, attempt).await;
        assert!(!text(&job).contains("CANARY"), "{attempt}: {}", text(&job));
    }
    let (job, _) = walls.run_with(&confined, "cat .env").await;
    let said = blocked(confined.policy(), &work, &text(&job));
    assert_eq!(said, [format!("read {} (Read(**/.env))", work.join(".env").display())]);
    let (job, _) = walls.run_with(&confined, "echo visible > other && cat other").await;
    assert_eq!(text(&job), "visible\n");
}

#[tokio::test]
async fn processes_and_sockets_outside_are_out_of_reach() {
    let walls = Walls::new();
    if !walls.has(Backend::Namespaces) {
        return;
    }
    let socket = walls.work().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let mut foreign = Command::new("sleep").arg("600").env("SECRET_OF_OTHERS", "CANARY").spawn().unwrap();
    let pid = foreign.id();
    for attempt in [
        "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"socket\"); print(\"IN\")'"
            .to_owned(),
        format!("kill -9 {pid} && echo IN"),
        format!("tr '\\0' '\\n' < /proc/{pid}/environ | grep CANARY && echo IN"),
        format!("cat /proc/{pid}/mem && echo IN"),
        format!("tr '\\0' '\\n' < /proc/{}/environ > /dev/null && echo IN", std::process::id()),
        "python3 -c 'import ctypes; print(\"IN\" if ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0 else \"\")'"
            .to_owned(),
        "unshare -U true && echo IN".to_owned(),
        "mount -t tmpfs x /mnt && echo IN".to_owned(),
        "python3 -c 'import ctypes; print(\"IN\" if ctypes.CDLL(None).syscall(425, 1, 0) >= 0 else \"\")'"
            .to_owned(),
    ] {
        let got = walls.text(walls.policy(), &attempt).await;
        assert!(!got.contains("IN\n"), "{attempt}: {got}");
    }
    assert!(foreign.try_wait().unwrap().is_none());
    foreign.kill().unwrap();
    foreign.wait().unwrap();
}

#[tokio::test]
async fn a_closed_network_is_closed_and_loopback_works_across_commands() {
    let walls = Walls::new();
    if !walls.has(Backend::Namespaces) {
        return;
    }
    let outside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = outside.local_addr().unwrap().port();
    let confined = walls.confine(walls.policy());
    for attempt in [
        format!("exec 5<>/dev/tcp/127.0.0.1/{port} && echo IN"),
        String::from("exec 5<>/dev/tcp/192.0.2.1/80 && echo IN"),
        String::from(
            "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b\"x\", (\"192.0.2.1\", 53)); print(\"IN\")'",
        ),
        String::from("python3 -c 'import socket; socket.getaddrinfo(\"example.com\", 80); print(\"IN\")'"),
        String::from("python3 -c 'import socket; socket.socket(socket.AF_PACKET); print(\"IN\")'"),
    ] {
        let (job, _) = walls.run_with(&confined, &attempt).await;
        assert!(!text(&job).contains("IN\n"), "{attempt}: {}", text(&job));
    }
    let (job, _) = walls.run_with(&confined, "exec 5<>/dev/tcp/192.0.2.1/80").await;
    assert_eq!(blocked(confined.policy(), &walls.work(), &text(&job)), ["connect (the network is off)"]);
    std::fs::write(walls.work().join("page"), "served\n").unwrap();
    let server = "python3 -m http.server 8765 --bind 127.0.0.1 > log 2>&1 & echo $! > pid";
    let (server, end) = walls.run_with(&confined, server).await;
    assert_eq!(end.left.len(), 1, "{end:?}");
    let ask = "for i in $(seq 500); do if exec 5<>/dev/tcp/127.0.0.1/8765; then printf 'GET /page HTTP/1.0\\r\\n\\r\\n' >&5; tail -1 <&5; exit; fi 2>/dev/null; sleep 0.02; done";
    let (job, _) = walls.run_with(&confined, ask).await;
    assert_eq!(text(&job), "served\n");
    let pid = read_pid(&walls.work().join("pid")).unwrap();
    server.stop(haft_shell::run::Stop::Asked);
    server.gone().await;
    assert!(!lives(pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_domains_are_reached_through_the_proxy_and_others_are_not() {
    let walls = Walls::new();
    if !walls.has(Backend::Namespaces) {
        return;
    }
    let outside = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = outside.local_addr().unwrap().port();
    tokio::spawn(async move {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        loop {
            let (mut stream, _) = outside.accept().await.unwrap();
            tokio::spawn(async move {
                let mut buf = [0; 4096];
                let len = stream.read(&mut buf).await.unwrap_or(0);
                let host = String::from_utf8_lossy(&buf[..len])
                    .lines()
                    .find(|it| it.starts_with("Host"))
                    .unwrap_or("")
                    .to_owned();
                let body = format!("reached with {host}\n");
                let head =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                stream.write_all((head + &body).as_bytes()).await.ok();
            });
        }
    });
    let policy = |allow: &[&str]| Policy {
        network: Network::Domains(Domains {
            allow: allow.iter().map(ToString::to_string).collect(),
            deny: Vec::new(),
        }),
        ..walls.policy()
    };
    // An address may be private only if the user names it as it is.
    let named = walls.confine(policy(&["127.0.0.1", "local.test"]));
    let fetch = |url: &str| {
        format!(
            "python3 -c 'import urllib.request as r; r.install_opener(r.build_opener(r.ProxyHandler())); print(r.urlopen(\"{url}\", timeout=20).read().decode())' 2>&1 | tail -2"
        )
    };
    let direct = fetch(&format!("http://127.0.0.1:{port}/x"))
        .replace("python3", "env -u no_proxy -u NO_PROXY python3");
    let (job, _) = walls.run_with(&named, &direct).await;
    assert_eq!(text(&job), format!("reached with Host: 127.0.0.1:{port}\n\n"));
    for (allow, url, want) in [
        (&["local.test"][..], format!("http://local.test:{port}/"), "leads to no public address"),
        (&["meta.test"], String::from("http://meta.test/"), "leads to no public address"),
        (&["*"], String::from("http://other.test/"), "not an allowed domain"),
        (&[], String::from("http://local.test/"), "not an allowed domain"),
        (&["local.test"], String::from("http://evil.test/"), "not an allowed domain"),
    ] {
        let (job, end) = walls.run(policy(allow), &fetch(&url)).await;
        assert!(text(&job).contains("403"), "{url}: {}", text(&job));
        assert!(end.violations.iter().any(|it| it.contains(want)), "{url}: {:?}", end.violations);
    }
    // Around the proxy there is nothing. The last list that was set holds.
    let named = walls.confine(policy(&["127.0.0.1", "local.test"]));
    let (job, _) = walls.run_with(&named, &format!("exec 5<>/dev/tcp/127.0.0.1/{port} && echo IN")).await;
    assert!(!text(&job).contains("IN\n"));
    let socks = format!(
        "python3 - <<'END'\nimport os, socket\nport = int(os.environ['ALL_PROXY'].rsplit(':', 1)[1])\ndef ask(host):\n    s = socket.create_connection(('127.0.0.1', port))\n    s.sendall(b'\\x05\\x01\\x00'); s.recv(2)\n    s.sendall(b'\\x05\\x01\\x00\\x03' + bytes([len(host)]) + host + ({port}).to_bytes(2, 'big'))\n    return s.recv(10)[1]\nprint(ask(b'127.0.0.1'), ask(b'evil.test'), ask(b'local.test\\x00.evil'))\nEND"
    );
    let (job, _) = walls.run_with(&named, &socks).await;
    assert_eq!(text(&job), "0 2 8\n");
}

#[tokio::test]
async fn plan_mode_writes_nothing_and_reads_everything() {
    for features in ["", "namespaces"] {
        let walls = Walls::without(features);
        let scratch = walls.top.join("scratch");
        let policy =
            || Policy::read_only(&scratch, "plan mode: nothing may be written before the plan is approved");
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
            walls.run(policy(), attempt).await;
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
    if !walls.has(Backend::Namespaces) {
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
    // A worktree that only says it is one gets nothing.
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
async fn what_cannot_be_enforced_is_said_and_refused() {
    for (without, backend, gaps) in [
        ("", Some(Backend::Namespaces), false),
        ("namespaces,bubblewrap", Some(Backend::Landlock), true),
        ("namespaces,bubblewrap,landlock", None, true),
        ("seccomp", None, true),
    ] {
        let walls = Walls::without(without);
        if !Walls::new().has(Backend::Namespaces) {
            return;
        }
        let report = walls.sandbox.report(&walls.policy());
        assert_eq!((report.backend, !report.gaps.is_empty()), (backend, gaps), "{without}: {report}");
        let strict = walls.sandbox.confine(walls.policy(), Strictness::Complete);
        assert_eq!(strict.is_ok(), !gaps, "{without}");
        let loose = walls.sandbox.confine(walls.policy(), Strictness::BestEffort);
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
async fn landlock_alone_hides_and_closes_what_it_can() {
    let walls = Walls::without("namespaces,bubblewrap");
    if !walls.has(Backend::Landlock) {
        return;
    }
    let secret = walls.top.join("outside/secret");
    std::fs::write(&secret, "CANARY\n").unwrap();
    let hide = vec![Hidden { path: secret.clone(), rule: String::from("Read(secret)") }];
    let policy = Policy { hide, ..walls.policy() };
    let outside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = outside.local_addr().unwrap().port();
    let confined = walls.confine(policy);
    for attempt in [
        format!("cat {}", secret.display()),
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
async fn bubblewrap_builds_the_same_walls() {
    let walls = Walls::without("namespaces");
    if !walls.has(Backend::Bubblewrap) {
        return;
    }
    let work = walls.work();
    std::fs::write(work.join(".env"), "CANARY\n").unwrap();
    std::fs::create_dir_all(work.join(".git/hooks")).unwrap();
    let hide = vec![Hidden { path: work.join(".env"), rule: String::from("Read(.env)") }];
    let confined = walls.confine(Policy { hide, ..walls.policy() });
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
async fn walls_that_fail_keep_the_command_from_running() {
    let walls = Walls::new();
    if !walls.has(Backend::Namespaces) {
        return;
    }
    // Nothing can be mounted where nothing is.
    std::fs::remove_dir(walls.top.join("sandbox/hollow")).unwrap();
    let (_, end) = walls.run(walls.policy(), "touch ran").await;
    let Exit::NotStarted(why) = &end.exit else { panic!("{end:?}") };
    assert!(why.contains("sandbox could not mount"), "{why}");
    assert!(!walls.work().join("ran").exists());
}

#[test]
fn refusals_are_told_from_other_trouble() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(top.join("work/.git/hooks")).unwrap();
    std::fs::create_dir_all(top.join("other")).unwrap();
    std::fs::write(top.join("work/mine"), "").unwrap();
    let work = top.join("work");
    let policy = Policy {
        write: vec![work.clone()],
        write_rule: String::from("only the workspace"),
        protect: vec![Protected {
            path: work.join(".git/hooks"),
            kind: PathKind::Directory,
            absent: WhenAbsent::Prevent,
        }],
        ..Policy::default()
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
    let closed = Policy { network: Network::Off, ..policy };
    assert_eq!(
        blocked(&closed, &work, "curl: (6) Could not resolve host: x"),
        ["connect (the network is off)"]
    );
}
