//! Checks that the system allows as many threads as a session needs. With fewer, the runtime would panic
//! or wait forever for a thread.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, mpsc},
};

use haft_console::stdout::CliError;
use rustix::process::{Resource, getrlimit};

/// Minimum number of threads a session needs.
const LEAST: usize = 6;

/// If the limits allow this many more threads, no trial is needed.
const PLENTY: u64 = 4096;

/// Fails if fewer than `LEAST` threads can be started.
pub(crate) fn check_threads() -> Result<(), CliError> {
    if !may_be_few() {
        return Ok(());
    }
    threads_are_to_be_had().map_err(|err| {
        CliError::Message(format!(
            "the system lets haft start too few threads ({err}): raise the limit on processes (`ulimit -u`, or \
             pids.max of the container), or end something else"
        ))
    })
}

/// Whether a limit of the user (`RLIMIT_NPROC`) or of the cgroup is below `PLENTY`. Reading the limits
/// is cheaper than starting threads.
fn may_be_few() -> bool {
    getrlimit(Resource::Nproc).current.is_some_and(|most| most < PLENTY)
        || fs::read_to_string("/proc/self/cgroup").is_ok_and(|groups| group_may_be_full(&groups))
}

/// Whether the pids cgroup allows fewer than `PLENTY` further threads. `groups` is `/proc/self/cgroup`.
/// A cgroup without `pids.max` has no limit.
fn group_may_be_full(groups: &str) -> bool {
    let number = |file: PathBuf| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    groups.lines().filter_map(group_that_counts).any(|group| {
        let (most, now) = (number(group.join("pids.max")), number(group.join("pids.current")));
        most.is_some_and(|most| most.saturating_sub(now.unwrap_or(most)) < PLENTY)
    })
}

/// The directory of the cgroup that a line of `/proc/self/cgroup` names; `None` unless its controller
/// can limit processes.
fn group_that_counts(line: &str) -> Option<PathBuf> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let root = match controllers {
        "" => Path::new("/sys/fs/cgroup"),
        "pids" => Path::new("/sys/fs/cgroup/pids"),
        _ => return None,
    };
    Some(root.join(path.trim_start_matches('/')))
}

/// Starts `LEAST` threads at the same time and ends them. Fails with the error of the first that cannot
/// be started.
fn threads_are_to_be_had() -> io::Result<()> {
    std::thread::scope(|scope| {
        let (go_on, wait) = mpsc::sync_channel::<()>(0);
        let wait = Arc::new(Mutex::new(wait));
        let started = (0..LEAST).try_for_each(|_| {
            let wait = Arc::clone(&wait);
            let waits = move || drop(wait.lock().map(|it| it.recv()));
            std::thread::Builder::new().stack_size(16 << 10).spawn_scoped(scope, waits).map(drop)
        });
        drop(go_on);
        started
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_count() {
        for (line, want) in [
            ("0::/user.slice/a.scope", Some("/sys/fs/cgroup/user.slice/a.scope")),
            ("0::/", Some("/sys/fs/cgroup")),
            ("8:pids:/docker/1", Some("/sys/fs/cgroup/pids/docker/1")),
            ("3:memory:/docker/1", None),
            ("1:name=systemd:/", None),
            ("", None),
        ] {
            assert_eq!(group_that_counts(line), want.map(PathBuf::from), "{line}");
        }
    }
}
