//! The baseline protection of every command, in any permission mode: the data undo needs and Haft's own
//! state are read-only. In modes without approval, files of the home directory that the command line
//! does not name are protected from deletion, too.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use haft_bash_analysis::{
    AnalysisContext, CommandEffect, EffectAccess, EffectTarget, SharedAnalysis, Word, removes_unknown,
};
use haft_config::SettingsStore;
use haft_sandbox::{BaselinePolicy, BaselineSandbox, HomeProtection, WITHOUT};
use haft_shell::run::BaselineGuard;
use haft_types::PermissionMode;

use super::SessionRoots;
use crate::permission_dry_run::rules_cover;

/// Maximum number of cached sandboxes: the usual one, and those of the last command lines.
const MAX_KEPT: usize = 3;

/// Decides what commands are protected against, and builds the sandbox for it.
pub(super) struct StateGuard {
    store: Arc<SettingsStore>,
    state: PathBuf,
    roots: Arc<SessionRoots>,
    home: Option<PathBuf>,
    /// Returns the session's permission mode; set once the session is built.
    mode: OnceLock<Box<dyn Fn() -> PermissionMode + Send + Sync>>,
    built: Mutex<Vec<Arc<BaselineSandbox>>>,
}

impl std::fmt::Debug for StateGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateGuard").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Whether this machine can make directories read-only for commands, or why not. Tries it once per
/// process.
pub(super) fn freezes() -> Result<(), String> {
    static TRIED: OnceLock<Result<(), String>> = OnceLock::new();
    let tried = TRIED.get_or_init(|| {
        let without = std::env::var(WITHOUT).unwrap_or_default();
        if without.split(',').any(|it| it.trim() == "mounts") {
            return Err(String::from("switched off"));
        }
        let somewhere = std::env::temp_dir().canonicalize().map_err(|err| err.to_string())?;
        BaselineSandbox::build(BaselinePolicy { freeze: vec![somewhere], home: None }).map(drop)
    });
    tried.clone()
}

impl StateGuard {
    pub(super) fn new(
        store: Arc<SettingsStore>,
        state: PathBuf,
        roots: Arc<SessionRoots>,
        home: Option<PathBuf>,
    ) -> Self {
        Self { store, state, roots, home, mode: OnceLock::new(), built: Mutex::default() }
    }

    pub(super) fn follow(&self, mode: impl Fn() -> PermissionMode + Send + Sync + 'static) {
        self.mode.set(Box::new(mode)).ok();
    }

    /// Whether the permission mode runs commands without approval.
    fn is_unasked(&self) -> bool {
        self.mode.get().is_some_and(|mode| mode() == PermissionMode::BypassPermissions)
    }

    fn policy(&self, command: &str, cwd: &Path) -> BaselinePolicy {
        let state = self.state.canonicalize().ok();
        let freeze = state.filter(|_| freezes().is_ok()).into_iter().collect();
        let home = if self.is_unasked() { self.kept_home(command, cwd) } else { None };
        BaselinePolicy { freeze, home }
    }

    /// Protects files in the home directory from commands whose deletions cannot be determined.
    fn kept_home(&self, command: &str, cwd: &Path) -> Option<HomeProtection> {
        freezes().ok()?;
        let loaded = self.store.current();
        if loaded.settings.get("sandbox.keepHome").is_some_and(|it| it.value == false) {
            return None;
        }
        let home = self.home.as_deref()?;
        let roots = self.roots.now();
        let reading = SharedAnalysis::new(command, AnalysisContext { cwd, home: Some(home), roots: &roots });
        if !removes_unknown(&reading.analysis) {
            return None;
        }
        let parts = || reading.analysis.parts.iter();
        let changed = parts().flat_map(|part| &part.effects).filter_map(changed_path);
        let words = parts().flat_map(|part| &part.words).filter_map(|word| match word {
            Word::Literal(text) => haft_paths::expand(Path::new(&**text), cwd, Some(home)).ok(),
            _ => None,
        });
        let named = changed.chain(words).map(|it| haft_paths::lexical(&it));
        // A command that names the home directory itself does not name the files in it.
        let named: Vec<PathBuf> = named.filter(|it| it.starts_with(home) && it != home).collect();
        HomeProtection::new(home, &roots, &named)
    }
}

/// The path an effect changes, if the command line names it.
fn changed_path(effect: &CommandEffect) -> Option<PathBuf> {
    match (effect.access, &effect.target) {
        (EffectAccess::Write | EffectAccess::Delete, EffectTarget::Path(path)) => Some(path.clone()),
        (EffectAccess::Write | EffectAccess::Delete, EffectTarget::Pattern(pattern)) => {
            pattern.parent().map(Path::to_owned)
        }
        _ => None,
    }
}

impl BaselineGuard for StateGuard {
    fn walls(&self, command: &str, cwd: &Path) -> Option<Arc<BaselineSandbox>> {
        // Haft protects its own files itself.
        let own = [String::from("haft"), String::from("haft *")];
        if command.contains("haft") && rules_cover(&own, command, cwd, self.home.as_deref()) {
            return None;
        }
        let policy = self.policy(command, cwd);
        if policy == BaselinePolicy::default() {
            return None;
        }
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(walls) = built.iter().find(|it| *it.policy() == policy) {
            return Some(Arc::clone(walls));
        }
        // Without permission to mount, neither the home directory nor Haft's state directory is
        // protected. `haft sandbox check` reports the latter only.
        let walls = BaselineSandbox::build(policy.clone())
            .or_else(|_| BaselineSandbox::build(BaselinePolicy { home: None, ..policy }))
            .ok()?;
        built.truncate(MAX_KEPT - 1);
        built.insert(0, Arc::clone(&walls));
        Some(walls)
    }
}
