use std::{
    collections::HashMap,
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use haft_paths::{lexical, real};
use haft_tool::{CallContext, GrantedPath, PathRestrictions, ReadScope};
use haft_types::PermissionMode;

use crate::{
    Policy,
    evaluate::{CallSubject, DecisionStrength, PartialDecision},
    ruleset::ForbiddenReads,
    same_file::{FileId, linked_files, linked_id},
};

/// Files a call may read beyond the declared ones: files below declared paths or in the workspace that
/// no rule forbids.
///
/// Created for every call and cheap until used. Then each directory is looked up once, and each file
/// costs one system call.
pub(crate) struct CallReadScope {
    policy: Policy,
    cx: ScopeContext,
    /// Real paths of the declared accesses.
    declared: Vec<PathBuf>,
    answered: ResolvedAsks,
    ready: OnceLock<ReadScopeLookup>,
    dirs: RwLock<HashMap<OsString, Arc<KnownDir>>>,
}

/// Which prompts were answered when the call runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ResolvedAsks {
    /// None: files covered by ask rules stay unreadable.
    Nothing,
    /// The ask rule that applied to this call.
    AskRules,
}

/// The part of the call that resolving directories depends on.
struct ScopeContext {
    cwd: Arc<Path>,
    home: Option<Arc<Path>>,
    anywhere: bool,
}

/// Lookup state, created for the first file.
struct ReadScopeLookup {
    forbidden: Vec<ForbiddenReads>,
    /// Directories that must contain the files; `None` for anywhere.
    trees: Option<Vec<PathBuf>>,
    linked: HashMap<FileId, (PathBuf, usize)>,
}

/// What is known about a directory.
struct KnownDir {
    real: PathBuf,
    same: bool,
    forbidden: bool,
}

impl CallReadScope {
    pub(crate) fn new(
        policy: &Policy,
        facts: &CallSubject<'_>,
        ruling: &PartialDecision,
        grants: &[GrantedPath],
    ) -> Self {
        let cx: &CallContext = facts.cx;
        let answered = match ruling.standing {
            DecisionStrength::Firm => ResolvedAsks::AskRules,
            _ => ResolvedAsks::Nothing,
        };
        Self {
            policy: policy.clone(),
            cx: ScopeContext {
                cwd: Arc::clone(&cx.cwd),
                home: cx.home.clone(),
                anywhere: levels(policy).all(|it| it.mode == PermissionMode::BypassPermissions),
            },
            declared: grants.iter().map(|grant| grant.real.clone()).collect(),
            answered,
            ready: OnceLock::new(),
            dirs: RwLock::new(HashMap::new()),
        }
    }

    fn ready(&self) -> &ReadScopeLookup {
        self.ready.get_or_init(|| {
            let mut trees = self.declared.clone();
            let forbidden: Vec<ForbiddenReads> = levels(&self.policy)
                .map(|level| {
                    let anchors = level.resolved_at(&self.cx.cwd, self.cx.home.as_deref());
                    trees.extend(anchors.readable_trees().map(Path::to_owned));
                    level.rules().paths(&anchors).forbidden_reads(self.answered == ResolvedAsks::AskRules)
                })
                .filter(|it| !it.is_empty())
                .collect();
            let named: Vec<(PathBuf, usize)> =
                forbidden.iter().flat_map(ForbiddenReads::named).cloned().collect();
            ReadScopeLookup {
                linked: linked_files(&named),
                forbidden,
                trees: (!self.cx.anywhere).then_some(trees),
            }
        })
    }

    fn dir(&self, path: &Path) -> Option<Arc<KnownDir>> {
        let known = self.dirs.read().unwrap_or_else(PoisonError::into_inner).get(path.as_os_str()).cloned();
        if known.is_some() {
            return known;
        }
        let real = real(path).ok()?;
        let same = real.as_os_str() == path.as_os_str();
        let forbids = |path: &Path| self.ready().forbidden.iter().any(|it| it.below(path));
        let forbidden = forbids(path) || !same && forbids(&real);
        let dir = Arc::new(KnownDir { real, same, forbidden });
        let mut dirs = self.dirs.write().unwrap_or_else(PoisonError::into_inner);
        dirs.insert(path.as_os_str().to_owned(), Arc::clone(&dir));
        Some(dir)
    }

    fn is_inside(&self, real: &Path) -> bool {
        match &self.ready().trees {
            None => true,
            Some(trees) => trees.iter().any(|tree| real.starts_with(tree)),
        }
    }

    fn may_read_folded(&self, path: &Path) -> Option<bool> {
        let ready = self.ready();
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Some(self.is_inside(path) && !ready.forbidden.iter().any(|it| it.below(path)));
        };
        let dir = self.dir(parent)?;
        if dir.forbidden || ready.forbidden.iter().any(|it| it.leaf(path)) {
            return Some(false);
        }
        let metadata = std::fs::symlink_metadata(path).ok();
        if metadata.as_ref().is_some_and(|it| it.file_type().is_symlink()) {
            let target = real(path).ok()?;
            let forbidden = ready.forbidden.iter().any(|it| it.path(&target));
            return Some(!forbidden && self.is_inside(&target));
        }
        if let Some(id) = metadata.as_ref().and_then(linked_id)
            && ready.linked.contains_key(&id)
        {
            return Some(false);
        }
        if dir.same {
            return Some(self.is_inside(path));
        }
        let target = dir.real.join(name);
        Some(!ready.forbidden.iter().any(|it| it.leaf(&target)) && self.is_inside(&target))
    }
}

impl ReadScope for CallReadScope {
    fn may_read(&self, path: &Path) -> bool {
        if path.as_os_str().as_bytes().contains(&0) {
            return false;
        }
        if is_folded(path) {
            self.may_read_folded(path).unwrap_or(false)
        } else {
            self.may_read_folded(&lexical(&self.cx.cwd.join(path))).unwrap_or(false)
        }
    }

    fn forbids_changes(&self) -> Option<String> {
        self.policy.forbids_changes()
    }

    fn fence(&self) -> PathRestrictions {
        self.policy.fence(&self.cx.cwd, self.cx.home.as_deref())
    }
}

/// The policy and those of the parent agents.
pub(crate) fn levels(policy: &Policy) -> impl Iterator<Item = &Policy> {
    std::iter::successors(Some(policy), |level| level.parent())
}

/// Whether a path is absolute and normalised. A byte check, because walkers' paths usually are.
fn is_folded(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    let inner = bytes.strip_prefix(b"/").unwrap_or_default();
    bytes == b"/"
        || !inner.is_empty() && inner.split(|it| *it == b'/').all(|name| !matches!(name, b"" | b"." | b".."))
}
