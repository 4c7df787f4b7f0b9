//! Kernels and filters without `pidfd_open`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use std::{collections::BTreeMap, time::Duration};

use haft_shell::run::{Exit, Stop};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::common::{Rig, eventually, lives, read_pid, text};

/// Makes `pidfd_open` and `pidfd_send_signal` fail with this error for the whole process; every test has
/// its own.
fn refuse_pidfd(errno: i32) {
    let calls = [libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal];
    let rules = BTreeMap::from(calls.map(|call| (call, Vec::new())));
    let (arch, answer) = (std::env::consts::ARCH.try_into().unwrap(), SeccompAction::Errno(errno as u32));
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, arch).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter_all_threads(&program).unwrap();
}

/// Commands end, fail, and are stopped together with their children.
async fn commands_run(errno: i32) {
    refuse_pidfd(errno);
    haft_shell::own::adopt_orphans().unwrap();
    let rig = Rig::new();
    let (job, end) = rig.run("printf made > made.txt; echo done; exit 3").await;
    assert_eq!((&end.exit, text(&job).as_str()), (&Exit::Code(3), "done\n"));
    assert_eq!(std::fs::read_to_string(rig.work().join("made.txt")).unwrap(), "made");
    let (_, end) = rig.run("kill -KILL $$").await;
    assert_eq!(end.exit, Exit::Signal(9));
    let mut spec = rig.spec("(setsid sleep 600 & echo $! > pid); sleep 600");
    spec.limit = Duration::from_secs(600);
    let job = rig.shell.start(spec).unwrap();
    eventually("it starts", || read_pid(&rig.work().join("pid")).is_some());
    let pid = read_pid(&rig.work().join("pid")).unwrap();
    assert!(lives(pid));
    job.stop(Stop::Asked);
    job.gone().await;
    assert!(!lives(pid), "what left the group is ended too");
    assert_eq!(rig.shell.owner().list(), []);
}

#[tokio::test]
async fn command_on_kernel_without_pidfd_runs_and_is_watched() {
    commands_run(libc::ENOSYS).await;
}

#[tokio::test]
async fn command_under_filter_without_pidfd_runs_and_is_watched() {
    commands_run(libc::EPERM).await;
}
