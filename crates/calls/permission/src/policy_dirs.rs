use std::path::{Path, PathBuf};

use haft_paths::{expand, is_inside, lexical, real};

use crate::{checkouts::Checkouts, protected_paths::is_kernel};

/// The directories of a policy, as given.
#[derive(Clone, Debug, Default)]
pub(crate) struct PolicyDirs {
    /// The workspace; `None` for each call's working directory.
    pub(crate) workspace: Option<PathBuf>,
    /// Additional workspace directories.
    pub(crate) additional: Vec<(PathBuf, Option<crate::Destination>)>,
    /// Directories that may be read without asking, such as stored results.
    pub(crate) readable: Vec<PathBuf>,
    /// Home directory for `~` in rules.
    pub(crate) home: Option<PathBuf>,
    /// Directories with Haft's own state.
    pub(crate) own: Vec<PathBuf>,
}

/// A directory in lexical and real form.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct PolicyDir {
    pub(crate) lexical: PathBuf,
    pub(crate) real: PathBuf,
}

impl PolicyDir {
    pub(crate) fn new(path: &Path) -> Self {
        let lexical = lexical(path);
        let real = real(path).unwrap_or_else(|_| lexical.clone());
        Self { lexical, real }
    }

    /// Both forms; one if they are equal.
    pub(crate) fn forms(&self) -> impl Iterator<Item = &Path> {
        let real = (self.real != self.lexical).then_some(&*self.real);
        std::iter::once(&*self.lexical).chain(real)
    }
}

/// Form of a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PathForm {
    Lexical,
    Real,
}

/// The directories in absolute and real form. Cached while working directory and home stay the same.
#[derive(Debug)]
pub(crate) struct ResolvedDirs {
    key: (PathBuf, Option<PathBuf>),
    pub(crate) cwd: PolicyDir,
    pub(crate) home: Option<PolicyDir>,
    /// The workspace: readable, and editable where edits are accepted.
    roots: Vec<PolicyDir>,
    readable: Vec<PolicyDir>,
    pub(crate) own: Vec<PathBuf>,
    /// Other checkouts in which restricting path rules apply.
    pub(crate) checkouts: Checkouts,
}

impl ResolvedDirs {
    pub(crate) fn new(places: &PolicyDirs, cwd: &Path, home: Option<&Path>) -> Self {
        let absolute = |path: &PathBuf| Some(PolicyDir::new(&expand(path, cwd, home).ok()?));
        let own = places.own.iter().filter_map(absolute).flat_map(|it| [it.lexical, it.real]).collect();
        let additional = places.additional.iter().filter_map(|(path, _)| absolute(path));
        Self {
            key: (cwd.to_owned(), home.map(Path::to_owned)),
            cwd: PolicyDir::new(cwd),
            home: home.map(PolicyDir::new),
            roots: std::iter::once(PolicyDir::new(cwd)).chain(additional).collect(),
            readable: places.readable.iter().filter_map(absolute).collect(),
            own,
            checkouts: Checkouts::default(),
        }
    }

    /// The checkouts of the repositories that contain the workspace or one of `sources`.
    pub(crate) fn checkouts_now<'a>(&'a self, sources: impl Iterator<Item = &'a Path>) -> Checkouts {
        Checkouts::find(self.roots.iter().flat_map(PolicyDir::forms).chain(sources))
    }

    /// Whether these were computed for the same directories.
    pub(crate) fn fit(&self, cwd: &Path, home: Option<&Path>) -> bool {
        self.key.0.as_os_str() == cwd.as_os_str()
            && self.key.1.as_ref().map(|it| it.as_os_str()) == home.map(Path::as_os_str)
    }

    /// Whether a path is in the workspace.
    pub(crate) fn in_workspace(&self, path: &Path, form: PathForm) -> bool {
        self.roots.iter().any(|root| holds(root, path, form))
    }

    /// Whether a path may be read without asking.
    pub(crate) fn is_readable(&self, path: &Path, form: PathForm) -> bool {
        self.in_workspace(path, form) || self.readable.iter().any(|dir| holds(dir, path, form))
    }

    /// Real paths of everything readable without asking.
    pub(crate) fn readable_trees(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().chain(&self.readable).map(|spot| &*spot.real)
    }

    /// The workspace directories as given.
    pub(crate) fn root_paths(&self) -> Vec<&Path> {
        self.roots.iter().map(|root| &*root.lexical).collect()
    }

    /// Whether a directory is the home directory or a workspace root or an ancestor of one.
    pub(crate) fn is_broad(&self, dir: &Path) -> bool {
        let holds_home = self.home.as_ref().is_some_and(|home| home.forms().any(|form| is_inside(form, dir)));
        holds_home || self.roots.iter().any(|root| root.forms().any(|form| is_inside(form, dir)))
    }
}

/// Kernel file systems do not belong to a workspace above them.
fn holds(dir: &PolicyDir, path: &Path, form: PathForm) -> bool {
    let inside = match form {
        PathForm::Lexical => is_inside(path, &dir.lexical) || is_inside(path, &dir.real),
        PathForm::Real => is_inside(path, &dir.real),
    };
    inside && (!is_kernel(path) || is_kernel(&dir.real))
}
