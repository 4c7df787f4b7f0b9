//! Hides Haft's own secrets from other processes.
#![expect(unsafe_code, reason = "the kernel shows the memory the environment was given in")]

use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use crate::env::EnvPolicy;

unsafe extern "C" {
    static environ: *const *mut libc::c_char;
}

/// Removes our secrets from the environment and returns them. Afterwards neither child processes nor
/// readers of `/proc/<pid>/environ` see them. Also disables core dumps and access to our memory by other
/// processes of the user.
///
/// # Safety
/// No other thread may exist: call it first in `main`.
pub unsafe fn seal(policy: &EnvPolicy) -> Vec<(OsString, OsString)> {
    let names: Vec<OsString> =
        std::env::vars_os().map(|it| it.0).filter(|name| !policy.passes(name) && is_secret(name)).collect();
    let mut taken = Vec::new();
    for name in names {
        let Some(value) = std::env::var_os(&name) else { continue };
        // SAFETY: the caller guarantees that no other thread exists.
        unsafe {
            erase(&name);
            std::env::remove_var(&name);
        }
        taken.push((name, value));
    }
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).ok();
    taken
}

/// Like [`seal`], but sets the secrets again for code that reads them from the environment:
/// `/proc/<pid>/environ` does not show the new values. Code that starts processes must remove them, as
/// [`EnvPolicy`] does.
///
/// # Safety
/// No other thread may exist: call it first in `main`.
pub unsafe fn mask(policy: &EnvPolicy) {
    // SAFETY: the caller guarantees that no other thread exists.
    let taken = unsafe { seal(policy) };
    for (name, value) in taken {
        // SAFETY: as above. The new value is stored outside the area that the kernel exposes.
        unsafe { std::env::set_var(name, value) };
    }
}

/// Variables that only change the meaning of commands are not secret.
fn is_secret(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    ["KEY", "TOKEN", "SECRET", "HEADERS"].iter().any(|word| name.contains(word))
}

/// Overwrites the value in the memory that the kernel exposes.
///
/// # Safety
/// No other thread may access the environment.
unsafe fn erase(name: &OsStr) {
    // SAFETY: `environ` is a null-terminated list of C strings, and the caller guarantees exclusive
    // access.
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
