//! Detects effects without a visible trace (deleted files, reads without output, programs without
//! effects) in a system call trace.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const CALLS: &str = "trace=execve,execveat,open,openat,openat2,creat,connect,sendto,unlink,unlinkat,rmdir,\
    rename,renameat,renameat2,truncate,ftruncate,chmod,fchmod,fchmodat,chown,fchownat,mkdir,mkdirat,link,\
    linkat,symlink,symlinkat,mknod,mknodat,utimensat,setxattr";

/// System directories with programs and libraries.
const SYSTEM: &[&str] = &["/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/", "/etc/alternatives/"];

/// Files that may be opened for writing.
const SINKS: &[&str] = &["/dev/null", "/dev/tty", "/dev/zero", "/dev/full", "pipe:", "/dev/pts/"];

/// Runs programs under a tracer.
pub struct Tracer {
    dir: tempfile::TempDir,
}

impl Tracer {
    /// `None` if no tracer is available or permitted.
    pub fn new() -> Option<Self> {
        let works = Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).status();
        works.is_ok_and(|it| it.success()).then(|| Self { dir: tempfile::tempdir().unwrap() })
    }

    /// The command that runs a script under the tracer.
    pub fn command(&self) -> Command {
        let mut command = Command::new("strace");
        let out = self.dir.path().join("t");
        command.args(["-ff", "-qq", "-y", "-s", "300", "-e", CALLS, "-o"]).arg(out).arg("bash");
        command
    }

    /// Violations since the last call. Below `root` only `work` may be read.
    pub fn violations(&self, root: &Path, work: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.dir.path()).into_iter().flatten().flatten() {
            let text = fs::read(entry.path()).unwrap_or_default();
            for line in String::from_utf8_lossy(&text).lines() {
                found.extend(violation(line, root, work));
            }
            fs::remove_file(entry.path()).ok();
        }
        found.sort();
        found.dedup();
        found
    }
}

/// The violation in a line of the trace, if any.
fn violation(line: &str, root: &Path, work: &Path) -> Option<String> {
    let (call, rest) = line.split_once('(')?;
    let (words, result) = rest.rsplit_once(" = ")?;
    let talks = matches!(call, "connect" | "sendto");
    // Git refreshes its cached timestamps when reading.
    if ["open", "openat", "rename", "renameat", "unlink"].contains(&call)
        && words.contains(".git/index.lock\"")
    {
        return None;
    }
    if result.starts_with('-') && !talks {
        return None;
    }
    match call {
        "execve" | "execveat" => {
            let program = words.split('"').nth(1)?;
            let system = SYSTEM.iter().any(|it| program.starts_with(it));
            (!system).then(|| format!("ran {program}"))
        }
        "open" | "openat" | "openat2" | "creat" => {
            let path = opened(result)?;
            let writes = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|it| words.contains(it));
            let sink = SINKS.iter().any(|it| path.to_string_lossy().starts_with(it));
            if (writes || call == "creat") && !sink {
                return Some(format!("opened {} for writing", path.display()));
            }
            let outside = path.starts_with(root) && !path.starts_with(work);
            outside.then(|| format!("read {}", path.display()))
        }
        "connect" | "sendto" => words.contains("AF_INET").then(|| format!("{call} {words}")),
        // Operates on an open file, which was checked when it was opened.
        "ftruncate" => None,
        _ => Some(format!("{call}({words}")),
    }
}

/// Path of a descriptor in the trace.
fn opened(result: &str) -> Option<PathBuf> {
    let (_, path) = result.split_once('<')?;
    Some(PathBuf::from(path.trim_end().strip_suffix('>').unwrap_or(path)))
}

#[test]
fn trace_lines_are_parsed() {
    let (root, work) = (Path::new("/s"), Path::new("/s/work"));
    for (line, want) in [
        (r#"execve("/usr/bin/cat", ["cat", "a"], 0x1 /* 3 vars */) = 0"#, None),
        (r#"execve("./evil", ["./evil"], 0x1 /* 3 vars */) = 0"#, Some("ran ./evil")),
        (r#"execve("./evil", ["./evil"], 0x1) = -1 ENOENT (No such file)"#, None),
        (r#"openat(AT_FDCWD</s/work>, "a", O_RDONLY) = 3</s/work/a>"#, None),
        (r#"openat(AT_FDCWD</s/work>, "link", O_RDONLY) = 3</s/outside/x>"#, Some("read /s/outside/x")),
        (
            r#"openat(AT_FDCWD</s/work>, "P", O_WRONLY|O_CREAT, 0666) = 3</s/work/P>"#,
            Some("opened /s/work/P for writing"),
        ),
        (r#"openat(AT_FDCWD</s/work>, "/dev/null", O_WRONLY|O_CREAT, 0666) = 3</dev/null<char 1:3>>"#, None),
        (
            r#"openat(AT_FDCWD</s/work>, "/s/work/.git/index.lock", O_RDWR|O_CREAT, 0666) = 4</s/work/.git/index.lock>"#,
            None,
        ),
        (r#"rename("/s/work/.git/index.lock", "/s/work/.git/index") = 0"#, None),
        (r#"unlink("/s/work/P") = 0"#, Some("unlink(\"/s/work/P\")")),
        (
            r#"connect(3<socket:[1]>, {sa_family=AF_INET, sin_port=htons(9)}, 16) = -1 ECONNREFUSED (x)"#,
            Some("connect"),
        ),
        (r#"connect(3<socket:[1]>, {sa_family=AF_UNIX, sun_path="/run/nscd"}, 110) = -1 ENOENT (x)"#, None),
        ("+++ exited with 0 +++", None),
    ] {
        let found = violation(line, root, work);
        assert_eq!(found.is_some(), want.is_some(), "{line}: {found:?}");
        assert!(found.unwrap_or_default().starts_with(want.unwrap_or_default()), "{line}");
    }
}
