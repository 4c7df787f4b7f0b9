//! Signals that end the program without asking it: the terminal is given back before.
//! What runs in a handler here only makes calls of the kernel; it takes no memory and
//! waits for no lock.
#![expect(unsafe_code, reason = "there is no safe way to say what a signal does")]

use std::{
    ffi::{c_int, c_void},
    sync::{Once, OnceLock},
};

use super::{stderr_capture, tty};

/// What a library, the compiler or somebody else ends a program with. A stack that is full
/// ends in the first.
const DEADLY: [c_int; 7] =
    [libc::SIGABRT, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS, libc::SIGXCPU, libc::SIGXFSZ];

/// Memory that is not there. The standard library says of it whether a stack was full.
const FAULTS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];
static ON_FAULT_BEFORE: [OnceLock<libc::sigaction>; 2] = [OnceLock::new(), OnceLock::new()];

type SignalHandler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// From now on such a signal ends the program on a terminal that is as it was.
pub(super) fn give_back_before_death() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in DEADLY {
            set_action(signal, on_death as SignalHandler as usize);
        }
        for (signal, kept) in FAULTS.into_iter().zip(&ON_FAULT_BEFORE) {
            if let Some(before) = set_action(signal, on_fault as SignalHandler as usize) {
                kept.set(before).ok();
            }
        }
    });
}

extern "C" fn on_death(signal: c_int, _info: *mut libc::siginfo_t, _context: *mut c_void) {
    tty::restore_in_handler();
    stderr_capture::put_back_in_handler();
    set_action(signal, libc::SIG_DFL);
    // SAFETY: it may be called in a handler; the signal comes when this one is left.
    unsafe { libc::raise(signal) };
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let before = FAULTS.iter().position(|it| *it == signal).and_then(|at| ON_FAULT_BEFORE[at].get());
    // SAFETY: the kernel hands a valid description of the signal in.
    let is_fault = 0 < unsafe { (*info).si_code };
    let Some(before) = before.filter(|_| is_fault) else { return on_death(signal, info, context) };
    tty::restore_in_handler();
    stderr_capture::put_back_in_handler();
    // SAFETY: what is put back was there before. The fault comes again when this one is left.
    unsafe { libc::sigaction(signal, before, std::ptr::null_mut()) };
}

/// Stops everything of this job, as the shell's key does: also if the signal for it means
/// something to this program. Nothing happens where no shell could go on with it.
pub(super) fn stop_job() -> SuspendGuard {
    let before = set_action(libc::SIGTSTP, libc::SIG_DFL);
    rustix::process::kill_current_process_group(rustix::process::Signal::TSTP).ok();
    SuspendGuard { before }
}

/// A job that was stopped. Dropped, the signal means what it meant.
pub(super) struct SuspendGuard {
    before: Option<libc::sigaction>,
}

impl Drop for SuspendGuard {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // SAFETY: what is put back was there before.
            unsafe { libc::sigaction(libc::SIGTSTP, before, std::ptr::null_mut()) };
        }
    }
}

/// Says what a signal does; says what it did, if that is known.
fn set_action(signal: c_int, handler: libc::sighandler_t) -> Option<libc::sigaction> {
    // SAFETY: zeroes are a valid action, both are ours, and the handler is one that takes
    // three arguments or none at all.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&mut action.sa_mask);
        (libc::sigaction(signal, &action, &mut before) == 0).then_some(before)
    }
}
