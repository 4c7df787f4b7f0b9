//! System calls that modify something without opening it for writing, or that communicate.

use seccompiler::{
    SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition as Condition, SeccompRule as Rule,
};

use super::ReadOnlyNetwork;
use crate::helper::seccomp::{REFUSED, SeccompRules, program};

/// Changes of owner, mode, times and attributes; truncation by name; unnamed memory files.
const CHANGES: &[i64] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fremovexattr,
    libc::SYS_fsetxattr,
    libc::SYS_lremovexattr,
    libc::SYS_lsetxattr,
    libc::SYS_memfd_create,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_removexattr,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_setxattr,
    libc::SYS_truncate,
    libc::SYS_utimensat,
    // `fchmodat2`, `setxattrat`, `removexattrat`, `file_setattr`: not in the libc crate yet.
    452,
    463,
    466,
    469,
];

/// Older variants of the same calls.
#[cfg(target_arch = "x86_64")]
const OLD_CHANGES: &[i64] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_futimesat,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CHANGES: &[i64] = &[];

/// io_uring could perform the operations refused here.
const RINGS: &[i64] = &[libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_io_uring_setup];

/// `ioctl` requests: file flags (`chattr`) need only an open file, and injecting input into a terminal
/// (`TIOCSTI`, `TIOCLINUX`) only that terminal.
const REQUESTS: &[u64] = &[0x4008_6602, 0x4004_6602, 0x401c_5820, 0x5412, 0x541c];

/// Applies the filter to this thread and its children.
pub(super) fn apply(network: ReadOnlyNetwork) -> Result<(), String> {
    let failed = |err: &dyn std::error::Error| format!("apply the system call filter: {err}");
    let rules = rules(network).map_err(|err| failed(&err))?;
    let program = program(rules, libc::EPERM).map_err(|err| failed(&err))?;
    seccompiler::apply_filter(&program).map_err(|err| failed(&err))
}

fn rules(network: ReadOnlyNetwork) -> Result<SeccompRules, seccompiler::BackendError> {
    let always = REFUSED.iter().chain(CHANGES).chain(OLD_CHANGES).chain(RINGS);
    let mut rules: SeccompRules = always.map(|call| (*call, Vec::new())).collect();
    let request = |it: &u64| Rule::new(vec![Condition::new(1, Len::Dword, Op::Eq, *it)?]);
    rules.insert(libc::SYS_ioctl, REQUESTS.iter().map(request).collect::<Result<_, _>>()?);
    // `prlimit` of another process.
    let other = Condition::new(0, Len::Dword, Op::Ne, 0)?;
    rules.insert(libc::SYS_prlimit64, vec![Rule::new(vec![other])?]);
    if network == ReadOnlyNetwork::Off {
        // Netlink route sockets, which list addresses, are allowed.
        let family = |op: Op, value: i32| Condition::new(0, Len::Dword, op, value.unsigned_abs().into());
        let kind = Condition::new(2, Len::Dword, Op::Gt, libc::NETLINK_SOCK_DIAG.unsigned_abs().into())?;
        rules.insert(
            libc::SYS_socket,
            vec![
                Rule::new(vec![family(Op::Ne, libc::AF_NETLINK)?])?,
                Rule::new(vec![family(Op::Eq, libc::AF_NETLINK)?, kind])?,
            ],
        );
    }
    Ok(rules)
}
