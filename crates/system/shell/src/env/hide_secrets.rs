//! Keeping our own secrets out of what other processes can look up about us.
#![expect(unsafe_code, reason = "the kernel shows the memory the environment was given in")]

use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use crate::env::EnvPolicy;

unsafe extern "C" {
    static environ: *const *mut libc::c_char;
}

/// Takes our secrets out of the environment and hands them over: afterwards
/// neither a child nor a reader of `/proc/<us>/environ` sees them. Also forbids
/// other processes of the user to look into our memory, and core dumps.
///
/// # Safety
/// Nothing else may run yet: the first thing in `main`, before any thread.
pub unsafe fn seal(policy: &EnvPolicy) -> Vec<(OsString, OsString)> {
    let names: Vec<OsString> =
        std::env::vars_os().map(|it| it.0).filter(|name| !policy.passes(name) && is_secret(name)).collect();
    let mut taken = Vec::new();
    for name in names {
        let Some(value) = std::env::var_os(&name) else { continue };
        // SAFETY: the caller says that nothing else runs.
        unsafe {
            erase(&name);
            std::env::remove_var(&name);
        }
        taken.push((name, value));
    }
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).ok();
    taken
}

/// The same for programs that still look their secrets up in the environment:
/// they stay there for us, and nobody else sees them in `/proc/<us>/environ`.
/// Whoever starts processes has to leave them out, as [`EnvPolicy`] does.
///
/// # Safety
/// Nothing else may run yet: the first thing in `main`, before any thread.
pub unsafe fn mask(policy: &EnvPolicy) {
    // SAFETY: the caller says that nothing else runs.
    let taken = unsafe { seal(policy) };
    for (name, value) in taken {
        // SAFETY: as above. The new value lies where the kernel does not look.
        unsafe { std::env::set_var(name, value) };
    }
}

/// Variables that only change what commands mean are no secrets of ours.
fn is_secret(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    ["KEY", "TOKEN", "SECRET", "HEADERS"].iter().any(|word| name.contains(word))
}

/// Overwrites the value where the kernel reads it.
///
/// # Safety
/// No other thread may use the environment.
unsafe fn erase(name: &OsStr) {
    // SAFETY: `environ` is a list of C strings that ends with null, and by the
    // caller's word nobody else touches them.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let text = CStr::from_ptr(*entry).to_bytes();
            let is_it = text.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"="));
            if is_it {
                let (start, len) = (name.len() + 1, text.len());
                (*entry).add(start).write_bytes(b'x', len - start);
            }
            entry = entry.add(1);
        }
    }
}
