//! A pristine root directory: programs of the distribution, an empty `/etc` and `/home`, the packages,
//! and nothing else. Mounts exist only for the duration of a command.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// User that runs a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WhoRuns {
    Root,
    Nobody,
}

/// What is mounted besides the root's own files.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RootMounts {
    /// The distribution's programs, `/proc`, `/dev` and `/tmp`.
    Distribution,
    /// Nothing.
    Nothing,
}

pub(crate) struct FreshRoot {
    dir: PathBuf,
    mounts: RootMounts,
    /// Directories outside of `/usr` that package managers need.
    besides: Vec<PathBuf>,
}

impl FreshRoot {
    /// Creates a root directory; `None` with a message if this machine does not permit it.
    pub(crate) fn make(dir: &Path, mounts: RootMounts) -> Option<Self> {
        let mut root = Self { dir: dir.to_owned(), mounts, besides: Vec::new() };
        fs::create_dir_all(dir).unwrap();
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
        if mounts == RootMounts::Nothing {
            let mut alone = Command::new("unshare");
            alone.args(["--mount", "chroot", "--userspec=65534:65534", "/", "true"]);
            return is_possible(alone.output()).then_some(root);
        }
        for name in ["usr", "proc", "dev", "tmp", "etc", "home/sealed", "packages", "opt"] {
            fs::create_dir_all(dir.join(name)).unwrap();
        }
        for name in ["bin", "sbin", "lib", "lib64"] {
            let _ = symlink(format!("usr/{name}"), dir.join(name));
        }
        fs::write(
            dir.join("etc/passwd"),
            "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n",
        )
        .unwrap();
        fs::write(dir.join("etc/group"), "root:x:0:\nnogroup:x:65534:\n").unwrap();
        // Alternatives selected by the distribution.
        let chosen = Path::new("/etc/alternatives");
        if chosen.is_dir() {
            root.lend(chosen);
        }
        let never_saw = format!("test ! -e {} && test -c /dev/null", env!("CARGO_MANIFEST_DIR"));
        let looks = root.shell(WhoRuns::Nobody, None, &never_saw);
        is_possible(Ok(looks)).then_some(root)
    }

    /// Makes a directory of this machine available under the same path.
    pub(crate) fn lend(&mut self, place: &Path) {
        if !place.starts_with("/usr") {
            fs::create_dir_all(self.dir.join(place.strip_prefix("/").unwrap())).unwrap();
            self.besides.push(place.to_owned());
        }
    }

    /// Returns a path inside, as seen from outside.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.dir.join(path.trim_start_matches('/'))
    }

    /// Creates a directory owned by an unprivileged user.
    pub(crate) fn home_of_nobody(&self, path: &str) {
        fs::create_dir_all(self.at(path)).unwrap();
        std::os::unix::fs::chown(self.at(path), Some(65534), Some(65534)).unwrap();
    }

    /// Returns a command that runs inside, with a clean environment.
    pub(crate) fn command(&self, who: WhoRuns, program: &str) -> Command {
        let root = self.dir.display();
        let mut script = String::from("set -e\n");
        if self.mounts == RootMounts::Distribution {
            script.push_str(&format!(
                "mount --rbind -o ro /usr {root}/usr\nmount -t proc proc {root}/proc\n\
                 mount --rbind /dev {root}/dev\nmount -t tmpfs -o mode=1777 tmpfs {root}/tmp\n\
                 mount -t tmpfs -o ro tmpfs {root}/home/sealed\n"
            ));
        }
        for place in &self.besides {
            script.push_str(&format!("mount --bind {} {root}{}\n", place.display(), place.display()));
        }
        let user = match who {
            WhoRuns::Root => "0:0",
            WhoRuns::Nobody => "65534:65534",
        };
        script.push_str(&format!("exec chroot --userspec={user} --groups= {root} \"$@\"\n"));
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", &script, "sh", program]);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin").stdin(Stdio::null());
        command
    }

    /// Returns a shell command that runs inside.
    pub(crate) fn shell(&self, who: WhoRuns, home: Option<&str>, line: &str) -> Output {
        let mut command = self.command(who, "/bin/sh");
        if let Some(home) = home {
            command.env("HOME", home);
        }
        command.args(["-c", line]).output().unwrap()
    }
}

fn is_possible(tried: std::io::Result<Output>) -> bool {
    let is_possible = tried.is_ok_and(|it| it.status.success());
    if !is_possible {
        eprintln!("SKIPPED: no root of its own can be made here (needs root, unshare and chroot)");
    }
    is_possible
}
