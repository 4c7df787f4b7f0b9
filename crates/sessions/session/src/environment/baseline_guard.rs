//! What no command of the session may take away, in any mode: what undo and the
//! session itself need, and, where nobody is asked, files of the home that the
//! line does not name.

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

/// Walls of this session that were built: the usual ones, and those for the
/// line before.
const MAX_KEPT: usize = 3;

/// Says what commands are kept from.
pub(super) struct StateGuard {
    store: Arc<SettingsStore>,
    state: PathBuf,
    roots: Arc<SessionRoots>,
    home: Option<PathBuf>,
    /// The mode the session is in, once there is a session.
    mode: OnceLock<Box<dyn Fn() -> PermissionMode + Send + Sync>>,
    built: Mutex<Vec<Arc<BaselineSandbox>>>,
}

impl std::fmt::Debug for StateGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateGuard").field("state", &self.state).finish_non_exhaustive()
    }
}

/// Whether this machine can keep commands from what undo needs, or why not.
/// Tries it once.
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

    /// Whether nobody is asked about commands.
    fn is_unasked(&self) -> bool {
        self.mode.get().is_some_and(|mode| mode() == PermissionMode::BypassPermissions)
    }

    fn policy(&self, command: &str, cwd: &Path) -> BaselinePolicy {
        let state = self.state.canonicalize().ok();
        let freeze = state.filter(|_| freezes().is_ok()).into_iter().collect();
        let home = if self.is_unasked() { self.kept_home(command, cwd) } else { None };
        BaselinePolicy { freeze, home }
    }

    /// Files of the home are kept from what removes nobody knows what.
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
        // Naming the home itself is not naming what is in it.
        let named: Vec<PathBuf> = named.filter(|it| it.starts_with(home) && it != home).collect();
        HomeProtection::new(home, &roots, &named)
    }
}

/// What an effect changes, where the line says it.
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
        // Our own program takes care of what is its own.
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
        // Without the right to mount, the home stays unprotected, and then Haft's own directory as
        // well. `haft sandbox check` reports the latter only.
        let walls = BaselineSandbox::build(policy.clone())
            .or_else(|_| BaselineSandbox::build(BaselinePolicy { home: None, ..policy }))
            .ok()?;
        built.truncate(MAX_KEPT - 1);
        built.insert(0, Arc::clone(&walls));
        Some(walls)
    }
}
