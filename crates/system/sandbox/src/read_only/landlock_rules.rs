//! What of the file system is left, as rules of Landlock.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreated,
    RulesetCreatedAttr as _, RulesetStatus, Scope,
};

use super::ReadOnlyPolicy;

const KNOWN: ABI = ABI::V6;

/// Where a system keeps its programs.
const SYSTEM: &[&str] = &[
    "/bin",
    "/sbin",
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/libexec",
    "/opt",
    "/etc/alternatives",
    "/gnu/store",
    "/home/linuxbrew/.linuxbrew",
    "/nix",
    "/run/current-system",
    "/snap",
    "/var/lib/flatpak",
    "/var/lib/snapd",
];

/// Devices that keep nothing.
const SINKS: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"];

pub(super) struct ReadOnlyRules {
    programs: Vec<PathBuf>,
    scratch: Option<PathBuf>,
    /// Everything beside what is hidden; nothing if nothing is.
    readable: Vec<PathBuf>,
    hides: bool,
    /// Directories with something hidden in them.
    pub(super) listed: Vec<PathBuf>,
}

impl ReadOnlyRules {
    pub(super) fn from_policy(policy: &ReadOnlyPolicy) -> Self {
        let system = SYSTEM.iter().map(PathBuf::from);
        let programs = system.chain(policy.programs.iter().cloned()).filter(|it| it.exists()).collect();
        let real = |path: &PathBuf| path.canonicalize().ok();
        let hidden: Vec<PathBuf> = policy.hide.iter().filter_map(real).collect();
        let (readable, listed) = if hidden.is_empty() { (Vec::new(), Vec::new()) } else { beside(&hidden) };
        Self { programs, scratch: policy.scratch.clone(), readable, hides: !hidden.is_empty(), listed }
    }

    /// Gives up everything else, for this thread and all it starts.
    pub(super) fn apply(&self) -> Result<(), String> {
        let failed = |err: &dyn std::error::Error| format!("apply Landlock: {err}");
        // What a device does with a request is not writing.
        let writing = AccessFs::from_write(KNOWN) & !AccessFs::IoctlDev;
        let mut handled = writing | AccessFs::Execute;
        if self.hides {
            handled |= AccessFs::ReadFile;
        }
        let ruleset = Ruleset::default().handle_access(handled).map_err(|err| failed(&err))?;
        let ruleset = ruleset.scope(Scope::AbstractUnixSocket | Scope::Signal).map_err(|err| failed(&err))?;
        let mut rules = ruleset.create().map_err(|err| failed(&err))?;
        for path in &self.programs {
            rules = grant(rules, path, AccessFs::Execute.into(), handled).map_err(|err| failed(&*err))?;
        }
        for path in self.readable.iter().map(PathBuf::as_path) {
            rules = grant(rules, path, AccessFs::ReadFile.into(), handled).map_err(|err| failed(&*err))?;
        }
        for path in SINKS.iter().map(Path::new) {
            let both = AccessFs::WriteFile | AccessFs::ReadFile;
            rules = grant(rules, path, both, handled).map_err(|err| failed(&*err))?;
        }
        if let Some(scratch) = &self.scratch {
            let own = writing | AccessFs::ReadFile;
            rules = grant(rules, scratch, own, handled).map_err(|err| failed(&*err))?;
        }
        let status = rules.restrict_self().map_err(|err| failed(&err))?;
        if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
            return Err(String::from("the kernel has no Landlock"));
        }
        Ok(())
    }
}

type Failed = Box<dyn std::error::Error>;

/// What is not there, or is gone meanwhile, needs no right.
fn grant(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
    handled: BitFlags<AccessFs>,
) -> Result<RulesetCreated, Failed> {
    let mut access = access & handled;
    let Ok(meta) = path.metadata() else { return Ok(rules) };
    if !meta.is_dir() {
        access &= AccessFs::from_file(KNOWN);
    }
    let Ok(opened) = PathFd::new(path) else { return Ok(rules) };
    if access.is_empty() {
        return Ok(rules);
    }
    Ok(rules.add_rule(PathBeneath::new(opened, access))?)
}

/// Everything beside the hidden paths, and the directories on the way to them.
fn beside(hidden: &[PathBuf]) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut readable, mut listed) = (Vec::new(), Vec::new());
    let mut open = vec![PathBuf::from("/")];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            // What a link leads to is granted or hidden by its own name.
            let is_link = entry.file_type().is_ok_and(|it| it.is_symlink());
            if is_link || hidden.contains(&path) {
                continue;
            }
            if hidden.iter().any(|it| it.starts_with(&path)) { open.push(path) } else { readable.push(path) }
        }
        listed.push(dir);
    }
    (readable, listed)
}
