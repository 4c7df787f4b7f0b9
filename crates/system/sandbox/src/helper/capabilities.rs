//! Powers a confined command does not need.

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, no_new_privs,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// Gives up all of them, for good.
pub(super) fn drop_all() -> Result<(), String> {
    for capability in CapabilitySet::all().iter() {
        // Unknown to an older kernel, or not ours to give up.
        remove_capability_from_bounding_set(capability).ok();
    }
    clear_ambient_capability_set().ok();
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(|err| format!("give up capabilities: {err}"))
}

/// A program that is more than its caller stays less here.
pub(super) fn no_new_privileges() -> Result<(), String> {
    set_no_new_privs(true).map_err(|err| format!("give up new privileges: {err}"))
}

/// The last look before the command takes our place.
pub(super) fn verify() -> Result<(), String> {
    let sets = capabilities(None).map_err(|err| format!("look at capabilities: {err}"))?;
    if !(sets.effective.is_empty() && sets.permitted.is_empty() && sets.inheritable.is_empty()) {
        return Err(String::from("capabilities are left"));
    }
    match no_new_privs() {
        Ok(true) => Ok(()),
        _ => Err(String::from("new privileges are still possible")),
    }
}
