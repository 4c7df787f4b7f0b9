//! What commands in the read-only sandbox can and cannot do.

use std::{
    ffi::CString,
    fs,
    io::Read as _,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_process::OwnedSpawnRequest;
use haft_sandbox::{ReadOnlyNetwork, ReadOnlyPolicy, ReadOnlySandbox};
use rustix::process::{WaitId, WaitIdOptions, waitid};

struct Rig {
    _dir: tempfile::TempDir,
    root: PathBuf,
    walls: Arc<ReadOnlySandbox>,
}

impl Rig {
    fn new(hide: &[&str], network: ReadOnlyNetwork) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["work/sub", "scratch", "home"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        for (name, text) in [("work/a", "alpha\n"), ("work/secret", "hidden\n"), ("home/b", "beta\n")] {
            fs::write(root.join(name), text).unwrap();
        }
        let tool = root.join("work/tool");
        fs::write(&tool, "#!/bin/sh\necho ran\n").unwrap();
        fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let policy = ReadOnlyPolicy {
            scratch: Some(root.join("scratch")),
            hide: hide.iter().map(|it| root.join(it)).collect(),
            programs: Vec::new(),
            network,
        };
        Self { walls: ReadOnlySandbox::build(policy).unwrap(), root, _dir: dir }
    }

    /// Runs a line. Returns its output and whether it succeeded.
    fn run(&self, line: &str) -> (String, bool) {
        let (ours, theirs) = rustix::pipe::pipe().unwrap();
        let text = |text: &[u8]| CString::new(text).unwrap();
        let launch = OwnedSpawnRequest {
            program: text(b"/bin/bash"),
            argv: [b"bash".as_slice(), b"-c", line.as_bytes()].map(text).to_vec(),
            environment: vec![text(b"PATH=/usr/bin:/bin"), text(b"LC_ALL=C")],
            directory: text(self.root.join("work").as_os_str().as_bytes()),
            descriptors: vec![
                (OwnedFd::from(fs::File::open("/dev/null").unwrap()), 0),
                (theirs.try_clone().unwrap(), 1),
                (theirs, 2),
            ],
            terminal: None,
        };
        let pid = self.walls.start(launch).unwrap();
        let mut printed = String::new();
        fs::File::from(ours).read_to_string(&mut printed).unwrap();
        let ended = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED).unwrap().unwrap();
        (printed, ended.exit_status() == Some(0))
    }

    fn picture(&self) -> Vec<(PathBuf, Vec<u8>, u32, i64)> {
        use std::os::unix::fs::MetadataExt as _;
        let mut out = Vec::new();
        let mut open = vec![self.root.join("work"), self.root.join("home")];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(&dir).unwrap().flatten() {
                let meta = entry.path().symlink_metadata().unwrap();
                let content = if meta.is_file() { fs::read(entry.path()).unwrap() } else { Vec::new() };
                if meta.is_dir() {
                    open.push(entry.path());
                }
                out.push((entry.path(), content, meta.mode(), meta.mtime()));
            }
        }
        out.sort();
        out
    }
}

#[test]
fn read_only_sandbox_does_not_affect_reading_commands() {
    let rig = Rig::new(&["work/secret"], ReadOnlyNetwork::Off);
    for (line, want) in [
        ("cat a", "alpha\n"),
        ("cat a | tr a-z A-Z", "ALPHA\n"),
        ("cat < a > /dev/null; echo ok >&2", "ok\n"),
        ("cat ../home/b", "beta\n"),
        ("ls", "a\nsecret\nsub\ntool\n"),
        ("cat <(echo x) <(cat a)", "x\nalpha\n"),
        ("cat <<E\nsome text\nE", "some text\n"),
        ("cat <<< y", "y\n"),
        ("echo x > /dev/stderr", "x\n"),
        ("find . -name a", "./a\n"),
        ("seq 3 | sort -rn | head -1", "3\n"),
        ("timeout 5 sed -n 1p a", "alpha\n"),
        ("awk '{print $1}' a", "alpha\n"),
        ("(sleep 0.01 & wait; echo done)", "done\n"),
        ("diff <(sort a) a && echo same", "same\n"),
        ("cd sub && pwd | sed 's,.*/,,'", "sub\n"),
    ] {
        let (printed, ok) = rig.run(line);
        assert_eq!((printed.as_str(), ok), (want, true), "{line}");
    }
    // Output larger than a pipe goes through the scratch directory.
    let scratch = rig.root.join("scratch");
    let large = format!("export TMPDIR={}; cat <<E | wc -c\n{}\nE", scratch.display(), "x".repeat(90_000));
    assert_eq!(rig.run(&large).0.trim(), "90001");
    assert!(fs::read_dir(&scratch).unwrap().next().is_none());
}

#[test]
fn read_only_sandbox_leaves_tree_untouched() {
    let rig = Rig::new(&[], ReadOnlyNetwork::Off);
    let before = rig.picture();
    for line in [
        "echo x > new",
        "echo x > a",
        "echo x >> a",
        ": > a",
        "rm a",
        "rm -rf sub",
        "mkdir d",
        "rmdir sub",
        "mv a b",
        "mv a ../home/a",
        "ln a b",
        "ln -s a b",
        "cp a b",
        "touch a",
        "touch new",
        "chmod 777 a",
        "chown 1:1 a",
        "truncate -s 0 a",
        "mkfifo f",
        "tee a < /dev/null",
        "dd if=/dev/zero of=a bs=1 count=1",
        "sed -i s/a/b/ a",
        "chattr +i a",
        "setfattr -n user.x -v y a",
        "perl -e 'truncate(\"a\", 0); utime(1, 1, \"a\"); chmod(0, \"a\")'",
        "python3 -c 'import os; os.setxattr(\"a\", \"user.x\", b\"y\")'",
        "python3 -c 'open(\"a\", \"r+\")'",
        "awk 'BEGIN{print \"x\" > \"new\"}'",
        "sort -o a a",
        "bash -c 'echo x > new'",
        "setsid bash -c 'echo x > new'",
        "cat a > ../home/new",
        "install -m 644 a new",
        "unshare -r bash -c 'echo x > new'",
    ] {
        rig.run(line);
        assert_eq!(rig.picture(), before, "{line}");
    }
    assert!(!rig.run(&format!("echo x > {}", Path::new("/tmp/haft-walls-test").display())).1);
}

#[test]
fn read_only_sandbox_blocks_network_and_sockets() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    listener.set_nonblocking(true).unwrap();
    let lines = [
        format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected"),
        format!("exec 3<>/dev/udp/127.0.0.1/{port} && echo connected"),
        format!(
            "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port})); print(\"connected\")'"
        ),
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX); print(\"connected\")'".to_owned(),
    ];
    let closed = Rig::new(&[], ReadOnlyNetwork::Off);
    for line in &lines {
        assert!(!closed.run(line).0.contains("connected"), "{line}");
    }
    assert!(listener.accept().is_err());
    let open = Rig::new(&[], ReadOnlyNetwork::Open);
    assert!(open.run(&lines[0]).0.contains("connected"));
}

#[test]
fn read_only_sandbox_runs_only_installed_programs() {
    let rig = Rig::new(&[], ReadOnlyNetwork::Off);
    for line in ["./tool", "bash -c ./tool", "cp tool /dev/null; ./tool", "find . -name tool -exec {} \\;"] {
        assert!(!rig.run(line).0.contains("ran"), "{line}");
    }
    let scratch = rig.root.join("scratch");
    rig.run(&format!("cp tool {}/t; {0}/t", scratch.display()));
    assert!(!rig.run(&format!("{}/t", scratch.display())).0.contains("ran"));
}

#[test]
fn read_only_sandbox_hides_paths_and_is_rebuilt_for_new_entries() {
    let rig = Rig::new(&["work/secret", "home"], ReadOnlyNetwork::Off);
    for line in
        ["cat secret", "cat ./sub/../secret", "grep -r hidden .", "cat ../home/b", "head -c5 < secret"]
    {
        let (printed, _) = rig.run(line);
        assert!(!printed.contains("hidden\n") && !printed.contains("beta"), "{line}: {printed}");
    }
    // Other tests create entries beside this test's directory concurrently, so one of many attempts must
    // succeed.
    let built = (0..100).map(|_| ReadOnlySandbox::build(rig.walls.policy().clone()).unwrap());
    let walls = built.into_iter().find(|it| it.hold(it.policy())).unwrap();
    let rig = Rig { walls, ..rig };
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(rig.root.join("work/new"), "new\n").unwrap();
    assert!(!rig.walls.hold(rig.walls.policy()), "a new name beside something hidden needs new walls");
    let walls = ReadOnlySandbox::build(rig.walls.policy().clone()).unwrap();
    let rig = Rig { walls, ..rig };
    assert_eq!(rig.run("cat new").0, "new\n");
}
