//! Probes sandbox features by using them.

use std::io::Write as _;

use super::{namespaces, sys};
use crate::{features::KernelFeatures, helper_request::HelperNetwork};

/// Prints the supported features as JSON and exits.
pub(super) fn tell() -> Result<(), String> {
    let landlock = sys::landlock_version();
    let namespaces = namespaces::enter(HelperNetwork::Open)
        .map_err(|err| err.to_string())
        .and_then(|()| sys::read_only_tree(std::path::Path::new("/")).map_err(|err| err.to_string()))
        .err();
    let kernel = KernelFeatures { landlock, namespaces, seccomp: seccomp() };
    let text = serde_json::to_string(&kernel).map_err(|err| err.to_string())?;
    let mut answer = std::fs::File::from(sys::inherited(9));
    writeln!(answer, "{text}").map_err(|err| err.to_string())?;
    std::process::exit(0)
}

/// Why seccomp filters cannot be installed; `None` if they can. Tries the system call itself, because an
/// emulator's `/proc` describes a kernel that is not used.
fn seccomp() -> Option<String> {
    match sys::can_refuse_calls() {
        Ok(()) => None,
        Err(err) if err.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            Some(String::from("the kernel cannot refuse single calls"))
        }
        Err(err) => Some(err.to_string()),
    }
}
