//! Restores the terminal when a fatal signal kills the program. The handlers only use async-signal-safe
//! calls: no allocation, no locks.
#![expect(unsafe_code, reason = "there is no safe way to say what a signal does")]

use std::{
    ffi::{c_int, c_void},
    sync::{Once, OnceLock},
};

use super::{stderr_capture, tty};

/// Fatal signals of libraries, compiler or other processes. A stack overflow raises the first one.
const DEADLY: [c_int; 7] =
    [libc::SIGABRT, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS, libc::SIGXCPU, libc::SIGXFSZ];

/// Memory faults; the standard library's handler reports stack overflows.
const FAULTS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];
static ON_FAULT_BEFORE: [OnceLock<libc::sigaction>; 2] = [OnceLock::new(), OnceLock::new()];

type SignalHandler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Installs handlers that restore the terminal before a fatal signal takes effect.
pub(super) fn restore_on_signal() {
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
    // SAFETY: async-signal-safe; the signal is delivered after this handler returns.
    unsafe { libc::raise(signal) };
}

extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let before = FAULTS.iter().position(|it| *it == signal).and_then(|at| ON_FAULT_BEFORE[at].get());
    // SAFETY: the kernel passes a valid pointer.
    let is_fault = 0 < unsafe { (*info).si_code };
    let Some(before) = before.filter(|_| is_fault) else { return on_death(signal, info, context) };
    tty::restore_in_handler();
    stderr_capture::put_back_in_handler();
    // SAFETY: restores the previous action. The fault recurs after this handler returns.
    unsafe { libc::sigaction(signal, before, std::ptr::null_mut()) };
}

/// Suspends all processes of this job like Ctrl-Z, even if the program handles SIGTSTP. No-op if there
/// is no shell to resume it.
pub(super) fn stop_job() -> SuspendGuard {
    let before = set_action(libc::SIGTSTP, libc::SIG_DFL);
    rustix::process::kill_current_process_group(rustix::process::Signal::TSTP).ok();
    SuspendGuard { before }
}

/// Restores the SIGTSTP action when dropped.
pub(super) struct SuspendGuard {
    before: Option<libc::sigaction>,
}

impl Drop for SuspendGuard {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // SAFETY: restores the previous action.
            unsafe { libc::sigaction(libc::SIGTSTP, before, std::ptr::null_mut()) };
        }
    }
}

/// Sets the action of a signal. Returns the previous one, if known.
fn set_action(signal: c_int, handler: libc::sighandler_t) -> Option<libc::sigaction> {
    // SAFETY: a zeroed action is valid, both pointers are valid, and the handler takes three arguments
    // or is a constant.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&mut action.sa_mask);
        (libc::sigaction(signal, &action, &mut before) == 0).then_some(before)
    }
}
