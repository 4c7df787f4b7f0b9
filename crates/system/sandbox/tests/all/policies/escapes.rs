//! Known sandbox escapes, each tried for real.

use super::*;

/// Attempts; `OUT` is a directory outside. None may change anything outside or print `IN`.
const ATTEMPTS: &[&str] = &[
    // Other paths to the same directory.
    "echo x > /proc/self/rootOUT/new && echo IN",
    "echo x > /proc/1/rootOUT/new && echo IN",
    "echo x > /proc/$PPID/rootOUT/new && echo IN",
    "echo x > /proc/$PPID/cwd/../outside/new && echo IN",
    "cd OUT && echo x > new && echo IN",
    "ln -s OUT way && echo x > way/new && echo IN",
    "ln OUT/file hard && echo x >> hard && echo IN",
    "python3 -c 'import os; os.link(\"OUT/file\", \"hard\"); open(\"hard\", \"a\").write(\"x\")' && echo IN",
    "python3 -c 'import os; d = os.open(\"OUT\", os.O_RDONLY); os.open(\"new\", os.O_CREAT | os.O_WRONLY, dir_fd=d)' && echo IN",
    "python3 -c 'import os; d = os.open(\"OUT\", os.O_PATH); os.fchdir(d); open(\"new\", \"w\")' && echo IN",
    "mount --bind OUT . && echo IN",
    "mount -o remount,rw / && echo IN",
    // Code without a file, and setuid programs.
    "python3 -c 'import os; fd = os.memfd_create(\"x\"); os.write(fd, open(\"/usr/bin/touch\", \"rb\").read()); os.execv(f\"/proc/self/fd/{fd}\", [\"touch\", \"OUT/new\"])' && echo IN",
    "cp $(command -v touch) t && chmod u+s t && ./t OUT/new && echo IN",
    "su root -c 'touch OUT/new' < /dev/null && echo IN",
    "sudo -n touch OUT/new && echo IN",
    "newgrp root < /dev/null; touch OUT/new && echo IN",
    // More privileges through new namespaces.
    "unshare -r true && echo IN",
    "unshare -Urm sh -c 'mount -t tmpfs x OUT && touch OUT/new' && echo IN",
    "nsenter -t 1 -m touch OUT/new && echo IN",
    "nsenter -t $PPID -m -U touch OUT/new && echo IN",
    "chroot / touch OUT/new && echo IN",
    "python3 -c 'import os; os.chroot(\"/proc/self/root\"); open(\"OUT/new\", \"w\")' && echo IN",
    // System calls that bypass a filter.
    "python3 -c 'import ctypes, sys; sys.exit(0 if ctypes.CDLL(None).syscall(425, 8, 0) >= 0 else 1)' && echo IN",
    "python3 -c 'import ctypes, sys; sys.exit(0 if ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0 else 1)' && echo IN",
    "python3 -c 'import ctypes, os, sys; sys.exit(0 if ctypes.CDLL(None).syscall(434, os.getppid(), 0) >= 0 and ctypes.CDLL(None).syscall(438, 3, 0, 0) >= 0 else 1)' && echo IN",
    "python3 -c 'import ctypes, sys; sys.exit(0 if ctypes.CDLL(None).syscall(321, 0, 0, 0) >= 0 else 1)' && echo IN",
    "python3 -c 'import ctypes, sys; sys.exit(0 if ctypes.CDLL(None).syscall(0x40000000 | 101, 16, 1, 0, 0) == 0 else 1)' && echo IN",
    "strace -p 1 -o /dev/null < /dev/null && echo IN",
    // Kernel files that make the kernel run a program.
    "v=$(cat /proc/sys/kernel/core_pattern); echo \"$v\" > /proc/sys/kernel/core_pattern && echo IN",
    "v=$(cat /proc/sys/kernel/modprobe); echo \"$v\" > /proc/sys/kernel/modprobe && echo IN",
    "[ -w /sys/kernel/uevent_helper ] && echo IN",
    "mknod dev b 8 0 && echo IN",
    "mknod null c 1 3 && echo x > null && echo IN",
    // Other processes that could act for the command.
    "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"OUT/socket\")' && echo IN",
    "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"\\0haft-test-abstract\")' && echo IN",
    "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"/var/run/docker.sock\")' && echo IN",
    "python3 -c 'import socket; socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)' && echo IN",
    "python3 -c 'import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)' && echo IN",
    "python3 -c 'import socket; a, b = socket.socketpair(); b.close()' && echo PAIR",
    "kill -0 $PPID && echo IN",
    "kill -0 1 && echo IN",
    "tr '\\0' '\\n' < /proc/$PPID/environ > /dev/null && echo IN",
    "cat /proc/1/environ > /dev/null && echo IN",
    "cat /proc/$PPID/mem > /dev/null && echo IN",
];

#[tokio::test]
async fn known_sandbox_escapes_fail() {
    let walls = Walls::new();
    if !walls.has(SandboxBackend::Namespaces) {
        return;
    }
    let outside = walls.top.join("outside");
    let _socket = UnixListener::bind(outside.join("socket")).unwrap();
    let name = <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(
        b"haft-test-abstract",
    );
    let _abstract = name.and_then(|it| UnixListener::bind_addr(&it));
    let before = walls.everything("outside");
    let confined = walls.confine(walls.policy());
    for attempt in ATTEMPTS {
        let attempt = attempt.replace("OUT", &outside.display().to_string());
        let (job, _) = walls.run_with(&confined, &attempt).await;
        let said = text(&job);
        assert!(!said.lines().any(|it| it == "IN"), "{attempt}: {said}");
        assert_eq!(walls.everything("outside"), before, "{attempt}: {said}");
    }
}

#[tokio::test]
async fn sandboxed_command_has_its_own_shared_memory() {
    let walls = Walls::new();
    if !walls.has(SandboxBackend::Namespaces) {
        return;
    }
    let name = format!("/dev/shm/haft-test-{}", std::process::id());
    std::fs::write(&name, "outside").unwrap();
    let got = walls.text(walls.policy(), &format!("cat {name}; echo inside > {name} && cat {name}")).await;
    let kept = std::fs::read_to_string(&name).unwrap();
    std::fs::remove_file(&name).unwrap();
    assert!(!got.contains("outside") && got.ends_with("inside\n"), "{got}");
    assert_eq!(kept, "outside");
}

#[tokio::test]
async fn sandboxed_command_cannot_inject_terminal_input() {
    let walls = Walls::new();
    if !walls.has(SandboxBackend::Namespaces) {
        return;
    }
    let mut spec = walls.rig.spec(
        "test -t 0 && echo TERMINAL; python3 -c 'import fcntl; fcntl.ioctl(0, 0x5412, b\"x\")' && echo IN; python3 -c 'import fcntl; fcntl.ioctl(0, 0x541c, b\"\\x03\")' && echo IN",
    );
    spec.terminal = haft_shell::run::TerminalMode::Own;
    spec.confinement = Some(walls.confine(walls.policy()));
    let job = walls.rig.shell.start(spec).unwrap();
    job.ended().await;
    let said = text(&job);
    assert!(said.contains("TERMINAL") && !said.lines().any(|it| it.trim() == "IN"), "{said}");
}

#[tokio::test]
async fn sandboxed_command_reaches_only_listed_sockets() {
    let walls = Walls::new();
    if !walls.has(SandboxBackend::Namespaces) {
        return;
    }
    let outside = walls.top.join("outside");
    std::fs::create_dir(outside.join("dir")).unwrap();
    let paths = ["allowed", "dir/one", "denied"].map(|name| outside.join(name));
    let _listeners = paths.clone().map(|path| UnixListener::bind(path).unwrap());
    let listed = vec![outside.join("allowed"), outside.join("dir")];
    let policy = SandboxPolicy { sockets: UnixSockets::Listed(listed), ..walls.policy() };
    let report = walls.sandbox.report(&policy);
    assert!(report.gaps.iter().any(|it| it.contains("made while a command runs")), "{report}");
    let connect = |path: &std::path::Path| {
        format!(
            "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}\"); print(\"IN\")' 2>&1 | tail -1",
            path.display()
        )
    };
    for (path, reached) in paths.iter().zip([true, true, false]) {
        let said = walls.text(policy.clone(), &connect(path)).await;
        assert_eq!(said == "IN\n", reached, "{}: {said}", path.display());
    }
}
