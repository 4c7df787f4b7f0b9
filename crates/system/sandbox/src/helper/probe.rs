//! Finding out what the machine lets us do, by doing it.

use std::io::Write as _;

use super::{namespaces, sys};
use crate::{features::KernelFeatures, helper_request::HelperNetwork};

/// Prints what works, as JSON, and ends.
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

/// Whether filters can be applied, and what keeps us from it. The call itself is
/// asked: where somebody stands in for the kernel (an emulator), its files speak
/// of one that is not reached.
fn seccomp() -> Option<String> {
    match sys::can_refuse_calls() {
        Ok(()) => None,
        Err(err) if err.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            Some(String::from("the kernel cannot refuse single calls"))
        }
        Err(err) => Some(err.to_string()),
    }
}
