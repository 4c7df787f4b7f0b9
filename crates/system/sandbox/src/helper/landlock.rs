//! Landlock rules for this process and its children.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreated,
    RulesetCreatedAttr as _, RulesetStatus, Scope,
};

use crate::{
    helper_request::{HelperMechanism, HelperNetwork, Order},
    sandbox_policy::DEVICES,
};

/// The Landlock version whose rights we use.
const KNOWN: ABI = ABI::V6;

/// Applies the rules as far as the kernel supports them. Missing support is part of the report, not an
/// error here.
pub(super) fn apply(order: &Order) -> Result<(), String> {
    let failed = |err: &dyn std::error::Error| format!("apply Landlock: {err}");
    // `ioctl` on a device does not count as writing.
    let writing = AccessFs::from_write(KNOWN) & !AccessFs::IoctlDev;
    // Hidden paths are covered by mounts; without mounts these rules must hide them.
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
    // An overlay, or a read-only mount.
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

/// A path that does not exist needs no rule.
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

/// The siblings of all hidden paths and of the directories on the way to them.
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
