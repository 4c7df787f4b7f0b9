//! The lock that allows one writer per log.

use std::{
    fs::{File, TryLockError},
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::{Duration, Instant},
};

/// Maximum time to wait for a locked log; its process may be about to exit.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Interval of checking a locked log.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Locks a log. The lock is released when the file is closed, also by the death of the process, and
/// excludes other open files of the same process. File systems without locks are accepted.
pub(super) fn take(file: &File, path: &Path) -> io::Result<()> {
    let patience = Instant::now() + TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(()),
            Err(TryLockError::WouldBlock) => {
                let holder = holder(file);
                if holder == Some(std::process::id()) || patience <= Instant::now() {
                    return Err(in_use(path, holder));
                }
                std::thread::sleep(LOOK_AGAIN);
            }
        }
    }
}

fn in_use(path: &Path, holder: Option<u32>) -> io::Error {
    let who = match holder {
        Some(pid) if pid == std::process::id() => format!("this process (pid {pid})"),
        Some(pid) => format!("another process (pid {pid})"),
        None => String::from("another process"),
    };
    let text = format!(
        "the session is in use: {who} writes {}. Wait until it ends, or go on in a copy with --fork-session",
        path.display()
    );
    io::Error::new(io::ErrorKind::ResourceBusy, text)
}

/// The process that holds the lock, if the kernel reports it.
fn holder(file: &File) -> Option<u32> {
    let about = file.metadata().ok()?;
    holder_in(&std::fs::read_to_string("/proc/locks").ok()?, about.dev(), about.ino())
}

/// Parses `1: FLOCK ADVISORY WRITE pid major:minor:inode start end`. Some file systems report another
/// device than `stat`; then only the inode is compared.
fn holder_in(locks: &str, device: u64, inode: u64) -> Option<u32> {
    let major = ((device >> 8) & 0xfff) | ((device >> 32) & !0xfff);
    let minor = (device & 0xff) | ((device >> 12) & !0xff);
    let (exact, ending) = (format!("{major:02x}:{minor:02x}:{inode}"), format!(":{inode}"));
    let held = locks.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        // A line with an arrow is a process that waits for the lock.
        (words.next()? == "FLOCK").then_some(())?;
        let pid = words.nth(2)?.parse().ok().filter(|pid| 0 < *pid)?;
        Some((pid, words.next()?))
    });
    let held: Vec<(u32, &str)> = held.collect();
    let found = held.iter().find(|(_, what)| *what == exact);
    found.or_else(|| held.iter().find(|(_, what)| what.ends_with(&ending))).map(|(pid, _)| *pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_names_the_holder() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fe:01:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 00:1c:77 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 fe:01:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 14 fe:01:77 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE -1 fe:01:78 0 EOF\n";
        for (device, inode, want) in [
            (0xfe01, 77, Some(14)),
            (0x1c, 77, Some(12)),
            (0x99, 77, Some(12)),
            (0xfe01, 78, None),
            (1, 9, None),
        ] {
            assert_eq!(holder_in(locks, device, inode), want, "{device:x} {inode}");
        }
    }

    #[test]
    fn a_second_writer_in_one_process_is_refused_at_once_and_hears_who_writes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.jsonl");
        let first = crate::log::LogFile::open(&path).unwrap();
        let refused = crate::log::LogFile::open(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy);
        let text = refused.to_string();
        let pid = format!("(pid {})", std::process::id());
        assert!(text.contains(&pid) && text.contains("--fork-session"), "{text}");
        drop(first);
        crate::log::LogFile::open(&path).unwrap();
    }
}
