//! What is out of reach: hidden files, processes, sockets, the network.

use super::*;

#[tokio::test]
async fn hidden_files_cannot_be_read_through_any_name() {
    let walls = Walls::new();
    if !walls.has(SandboxBackend::Namespaces) {
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
async fn outside_processes_and_sockets_are_unreachable() {
    let walls = Walls::new();
    if !walls.has(SandboxBackend::Namespaces) {
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
async fn closed_network_blocks_outside_and_shares_loopback() {
    let walls = Walls::new();
    if !walls.has(SandboxBackend::Namespaces) {
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
    let ask = "for i in $(seq 2500); do if exec 5<>/dev/tcp/127.0.0.1/8765; then printf 'GET /page HTTP/1.0\\r\\n\\r\\n' >&5; tail -1 <&5; exit; fi 2>/dev/null; sleep 0.02; done";
    let (job, _) = walls.run_with(&confined, ask).await;
    assert_eq!(text(&job), "served\n");
    let pid = read_pid(&walls.work().join("pid")).unwrap();
    server.stop(haft_shell::run::Stop::Asked);
    server.gone().await;
    assert!(!lives(pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn proxy_reaches_only_allowed_domains() {
    let walls = Walls::new();
    if !walls.has(SandboxBackend::Namespaces) {
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
    let policy = |allow: &[&str]| SandboxPolicy {
        network: Network::Domains(Domains {
            allow: allow.iter().map(ToString::to_string).collect(),
            deny: Vec::new(),
        }),
        ..walls.policy()
    };
    // A private address is allowed only if the user names it exactly.
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
    // The proxy cannot be bypassed. The last list that was set applies.
    let named = walls.confine(policy(&["127.0.0.1", "local.test"]));
    let (job, _) = walls.run_with(&named, &format!("exec 5<>/dev/tcp/127.0.0.1/{port} && echo IN")).await;
    assert!(!text(&job).contains("IN\n"));
    let socks = format!(
        "python3 - <<'END'\nimport os, socket\nport = int(os.environ['ALL_PROXY'].rsplit(':', 1)[1])\ndef ask(host):\n    s = socket.create_connection(('127.0.0.1', port))\n    s.sendall(b'\\x05\\x01\\x00'); s.recv(2)\n    s.sendall(b'\\x05\\x01\\x00\\x03' + bytes([len(host)]) + host + ({port}).to_bytes(2, 'big'))\n    return s.recv(10)[1]\nprint(ask(b'127.0.0.1'), ask(b'evil.test'), ask(b'local.test\\x00.evil'))\nEND"
    );
    let (job, _) = walls.run_with(&named, &socks).await;
    assert_eq!(text(&job), "0 2 8\n");
}
