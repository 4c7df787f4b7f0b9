//! System calls that sandboxed commands do not need, or that would bypass other parts of the sandbox.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition as Condition,
    SeccompFilter, SeccompRule as Rule, TargetArch,
};

use crate::helper_request::{HelperNetwork, HelperSockets, Order};

/// Refused with `EPERM`, whatever the arguments.
pub(crate) const REFUSED: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// Refused with `ENOSYS`, so that programs fall back to older calls, which can be checked.
const UNKNOWN: &[i64] =
    &[libc::SYS_clone3, libc::SYS_io_uring_enter, libc::SYS_io_uring_register, libc::SYS_io_uring_setup];

/// Bit of x32 system call numbers on x86-64.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

pub(crate) type SeccompRules = BTreeMap<i64, Vec<Rule>>;

/// Installs the filters for both lists.
pub(super) fn apply(order: &Order) -> Result<(), String> {
    let failed = |err: &dyn std::error::Error| format!("apply the system call filter: {err}");
    let refused = refused(order).map_err(|err| failed(&err))?;
    let unknown: SeccompRules = UNKNOWN.iter().map(|call| (*call, Vec::new())).collect();
    for (rules, errno) in [(refused, libc::EPERM), (unknown, libc::ENOSYS)] {
        let program = program(rules, errno).map_err(|err| failed(&err))?;
        seccompiler::apply_filter(&program).map_err(|err| failed(&err))?;
    }
    Ok(())
}

pub(crate) fn program(rules: SeccompRules, errno: i32) -> Result<BpfProgram, seccompiler::BackendError> {
    #[cfg(target_arch = "x86_64")]
    let rules: SeccompRules =
        rules.into_iter().flat_map(|(call, rule)| [(call, rule.clone()), (call | X32, rule)]).collect();
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let answer = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, answer, arch)?.try_into()
}

fn refused(order: &Order) -> Result<SeccompRules, seccompiler::BackendError> {
    let mut rules: SeccompRules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let new_user = libc::CLONE_NEWUSER.unsigned_abs().into();
    let namespace = || Condition::new(0, Len::Qword, Op::MaskedEq(new_user), new_user);
    rules.insert(libc::SYS_unshare, vec![Rule::new(vec![namespace()?])?]);
    rules.insert(libc::SYS_clone, vec![Rule::new(vec![namespace()?])?]);
    let terminal = |request: u64| -> Result<Rule, seccompiler::BackendError> {
        Rule::new(vec![Condition::new(1, Len::Dword, Op::Eq, request)?])
    };
    // Injecting input into a terminal: `TIOCSTI`, `TIOCLINUX`.
    rules.insert(libc::SYS_ioctl, vec![terminal(0x5412)?, terminal(0x541c)?]);
    // `prlimit` of another process.
    let other = Condition::new(0, Len::Dword, Op::Ne, 0)?;
    rules.insert(libc::SYS_prlimit64, vec![Rule::new(vec![other])?]);
    rules.insert(libc::SYS_socket, sockets(order)?);
    Ok(rules)
}

/// Which sockets are refused.
fn sockets(order: &Order) -> Result<Vec<Rule>, seccompiler::BackendError> {
    let domain = |op: Op, value: i32| Condition::new(0, Len::Dword, op, value.unsigned_abs().into());
    let mut known = vec![libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    if order.sockets == HelperSockets::All {
        known.push(libc::AF_UNIX);
    }
    let unknown: Result<Vec<Condition>, _> = known.iter().map(|it| domain(Op::Ne, *it)).collect();
    let mut rules = vec![Rule::new(unknown?)?];
    // Of the netlink sockets only the one that lists addresses is allowed.
    let other = Condition::new(2, Len::Dword, Op::Ne, libc::NETLINK_ROUTE.unsigned_abs().into())?;
    rules.push(Rule::new(vec![domain(Op::Eq, libc::AF_NETLINK)?, other])?);
    if order.network == HelperNetwork::Refuse {
        // Landlock only restricts connections; datagram and raw sockets are refused here.
        for family in [libc::AF_INET, libc::AF_INET6] {
            for unconnected in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
                let kind =
                    Condition::new(1, Len::Dword, Op::MaskedEq(0xf), unconnected.unsigned_abs().into())?;
                rules.push(Rule::new(vec![domain(Op::Eq, family)?, kind])?);
            }
        }
    }
    Ok(rules)
}
