//! Memory limits for commands with control groups, if permitted.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::Pid;

/// Control group of one command.
#[derive(Debug)]
pub(crate) struct Cgroup {
    dir: PathBuf,
    version: CgroupVersion,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum CgroupVersion {
    One,
    Two,
}

impl Cgroup {
    /// Creates a group with a limit of `bytes`.
    pub(crate) fn create(name: &str, bytes: u64) -> io::Result<Self> {
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let mounts = fs::read_to_string("/proc/self/mountinfo")?;
        let mut refused = io::Error::other("no memory controller is mounted");
        for (parent, version) in parents(&own, &mounts) {
            match Self::create_in(&parent, version, name, bytes) {
                Ok(group) => return Ok(group),
                Err(err) => refused = err,
            }
        }
        Err(refused)
    }

    fn create_in(parent: &Path, version: CgroupVersion, name: &str, bytes: u64) -> io::Result<Self> {
        let group = Self { dir: parent.join(name), version };
        fs::create_dir(&group.dir)?;
        let limited = match version {
            CgroupVersion::One => {
                // The limit including swap must not be lower than the one without.
                group.write("memory.limit_in_bytes", bytes).inspect(|()| {
                    group.write("memory.memsw.limit_in_bytes", bytes).ok();
                })
            }
            CgroupVersion::Two => group.write("memory.max", bytes).inspect(|()| {
                group.write("memory.swap.max", 0).ok();
                group.write("memory.oom.group", 1).ok();
            }),
        };
        limited.map(|()| group)
    }

    pub(crate) fn add(&self, pid: Pid) -> io::Result<()> {
        self.write("cgroup.procs", u64::from(pid.as_raw_nonzero().get().unsigned_abs()))
    }

    /// Opens the file to which a process writes `0` to join; its children are then in the group too.
    pub(crate) fn door(&self) -> io::Result<fs::File> {
        fs::File::options().write(true).open(self.dir.join("cgroup.procs"))
    }

    /// Whether the kernel killed a process of the group for exceeding the limit.
    pub(crate) fn ran_out(&self) -> bool {
        let file = match self.version {
            CgroupVersion::One => "memory.oom_control",
            CgroupVersion::Two => "memory.events",
        };
        let text = fs::read_to_string(self.dir.join(file)).unwrap_or_default();
        let kills = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        kills.is_some_and(|count| count.trim() != "0")
    }

    fn write(&self, file: &str, value: u64) -> io::Result<()> {
        fs::File::options().write(true).open(self.dir.join(file))?.write_all(value.to_string().as_bytes())
    }
}

impl Drop for Cgroup {
    /// Removes the group. A zombie may keep it for a moment.
    fn drop(&mut self) {
        for _ in 0..20 {
            match fs::remove_dir(&self.dir) {
                Err(err) if err.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                _ => return,
            }
        }
    }
}

/// Possible parent groups, best first. In cgroup v2 a group that contains processes cannot have children
/// with limits, so ours is created beside it.
fn parents(own: &str, mounts: &str) -> Vec<(PathBuf, CgroupVersion)> {
    let mut found = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let path = path.trim_start_matches('/');
        if controllers.is_empty() {
            let Some(mount) = mount_of(mounts, "cgroup2", "") else { continue };
            let ours = mount.join(path);
            found.extend(ours.parent().map(|parent| (parent.to_owned(), CgroupVersion::Two)));
            found.push((ours, CgroupVersion::Two));
        } else if controllers.split(',').any(|it| it == "memory") {
            found.extend(
                mount_of(mounts, "cgroup", "memory").map(|mount| (mount.join(path), CgroupVersion::One)),
            );
        }
    }
    found
}

/// Mount point of a hierarchy, from `/proc/self/mountinfo`.
fn mount_of(mounts: &str, kind: &str, controller: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (fixed, rest) = line.split_once(" - ")?;
        let mut rest = rest.split(' ');
        let is_kind = rest.next()? == kind;
        let options = rest.nth(1)?;
        let has_it = controller.is_empty() || options.split(',').any(|it| it == controller);
        (is_kind && has_it).then(|| fixed.split(' ').nth(4).map(PathBuf::from))?
    })
}

/// Parses a size such as `512M`, `2g` or `1073741824` into bytes.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let number = text.trim_end_matches(|it: char| it.is_ascii_alphabetic());
    let shift = match &text[number.len()..] {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    let number: u64 = number.trim().replace('_', "").parse().ok()?;
    number.checked_mul(1 << shift).filter(|bytes| 0 < *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_bytes_accepts_units() {
        for (text, want) in [
            ("512M", Some(512 << 20)),
            ("2 gb", Some(2 << 30)),
            ("64_000", Some(64_000)),
            ("0", None),
            ("x", None),
            ("-1", None),
        ] {
            assert_eq!(parse_bytes(text), want, "{text}");
        }
    }

    #[test]
    fn cgroup_parents_are_found_in_mountinfo() {
        let mounts = "30 25 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
                      31 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let own = "5:memory:/a\n0::/user/b\n";
        let want = [
            ("/sys/fs/cgroup/memory/a", CgroupVersion::One),
            ("/sys/fs/cgroup/unified/user", CgroupVersion::Two),
            ("/sys/fs/cgroup/unified/user/b", CgroupVersion::Two),
        ];
        assert_eq!(parents(own, mounts), want.map(|(path, version)| (PathBuf::from(path), version)));
    }
}
