//! Drops capabilities.

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, no_new_privs,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// Drops all capabilities irrevocably.
pub(super) fn drop_all() -> Result<(), String> {
    for capability in CapabilitySet::all().iter() {
        // May be unknown to an older kernel or not permitted.
        remove_capability_from_bounding_set(capability).ok();
    }
    clear_ambient_capability_set().ok();
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(|err| format!("give up capabilities: {err}"))
}

/// Setuid programs gain no privileges.
pub(super) fn no_new_privileges() -> Result<(), String> {
    set_no_new_privs(true).map_err(|err| format!("give up new privileges: {err}"))
}

/// Checks before executing the command that no capability is left.
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
