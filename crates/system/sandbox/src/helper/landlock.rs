//! Rules the kernel applies to this process and all it will ever start.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreated,
    RulesetCreatedAttr as _, RulesetStatus, Scope,
};

use crate::{
    helper_request::{HelperMechanism, HelperNetwork, Order},
    sandbox_policy::DEVICES,
};

/// The rights we know how to grant.
const KNOWN: ABI = ABI::V6;

/// Applies them, as far as the kernel has them. What it has not is part of the
/// report, not of this.
pub(super) fn apply(order: &Order) -> Result<(), String> {
    let failed = |err: &dyn std::error::Error| format!("apply Landlock: {err}");
    // What a device does with a request is not writing.
    let writing = AccessFs::from_write(KNOWN) & !AccessFs::IoctlDev;
    // Mounts hide what may not be read; without them the rules have to.
    let hiding = order.walls == HelperMechanism::Landlock && !order.hide.is_empty();
    let mut handled = writing;
    if hiding {
        handled |= AccessFs::ReadFile | AccessFs::Execute;
    }
    let mut ruleset = Ruleset::default().handle_access(handled).map_err(|err| failed(&err))?;
    if order.network == HelperNetwork::Refuse {
        let both = AccessNet::BindTcp | AccessNet::ConnectTcp;
        ruleset = ruleset.handle_access(both).map_err(|err| failed(&err))?;
    }
    let ruleset = ruleset.scope(Scope::AbstractUnixSocket | Scope::Signal).map_err(|err| failed(&err))?;
    let mut rules = ruleset.create().map_err(|err| failed(&err))?;
    for root in &order.write {
        rules = grant(rules, root, handled).map_err(|err| failed(err.as_ref()))?;
    }
    // Mounted over what stays as it is, or read-only.
    for layer in order.layers.iter().filter(|_| order.walls == HelperMechanism::Namespaces) {
        rules = grant(rules, &layer.path, handled).map_err(|err| failed(err.as_ref()))?;
    }
    for device in DEVICES.iter().chain(&["/dev/shm"]) {
        let wanted = if *device == "/dev/shm" { writing } else { AccessFs::WriteFile.into() };
        rules = grant(rules, Path::new(device), wanted | (handled & AccessFs::ReadFile))
            .map_err(|err| failed(err.as_ref()))?;
    }
    if hiding {
        for path in readable(&order.hide) {
            rules = grant(rules, &path, AccessFs::ReadFile | AccessFs::Execute)
                .map_err(|err| failed(err.as_ref()))?;
        }
    }
    let status = rules.restrict_self().map_err(|err| failed(&err))?;
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
        return Err(String::from("apply Landlock: the kernel did not enforce it"));
    }
    Ok(())
}

type Failed = Box<dyn std::error::Error>;

/// What is not there needs no right.
fn grant(
    rules: RulesetCreated,
    path: &Path,
    mut access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, Failed> {
    let Ok(meta) = path.metadata() else { return Ok(rules) };
    if !meta.is_dir() {
        access &= AccessFs::from_file(KNOWN);
    }
    Ok(rules.add_rule(PathBeneath::new(PathFd::new(path)?, access))?)
}

/// Everything beside the hidden paths and beside the directories on the way to
/// them.
fn readable(hide: &[PathBuf]) -> Vec<PathBuf> {
    let mut granted = Vec::new();
    let mut open = vec![PathBuf::from("/")];
    while let Some(dir) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            if hide.contains(&path) {
                continue;
            }
            if hide.iter().any(|it| it.starts_with(&path)) { open.push(path) } else { granted.push(path) }
        }
    }
    granted
}
