//! Known shell state between two commands: variables and working directory.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    rc::Rc,
};

use super::analysis::{AnalysisContext, WorkingDir};

/// Maximum number of alternative values followed.
pub(crate) const MAX_ALTERNATIVES: usize = 16;

/// Maximum number of possible directories after `cd` commands that may fail.
const MAX_DIRECTORIES: usize = 4;

/// Known values of a variable.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum VariableBinding {
    /// One of these texts.
    OneOf(Vec<String>),
    /// A file name that matched this glob.
    Match(String),
}

/// Cheap to clone; every branch of a command line has its own.
#[derive(Clone, Debug)]
pub(crate) struct ShellState {
    /// Variables with known values; all others are unknown.
    variables: Rc<BTreeMap<String, VariableBinding>>,
    directory: Rc<WorkingDir>,
}

impl ShellState {
    pub(crate) fn new(place: AnalysisContext<'_>) -> Self {
        let mut variables = BTreeMap::new();
        if let Some(home) = place.home.and_then(Path::to_str) {
            variables.insert("HOME".to_owned(), VariableBinding::OneOf(vec![home.to_owned()]));
        }
        let directory = WorkingDir::OneOf(vec![place.cwd.to_owned()]);
        Self { variables: Rc::new(variables), directory: Rc::new(directory) }
    }

    /// A state in which nothing is known, as in a function body.
    pub(crate) fn blank() -> Self {
        Self { variables: Rc::default(), directory: Rc::default() }
    }

    pub(crate) fn directory(&self) -> &WorkingDir {
        &self.directory
    }

    pub(crate) fn enter(&mut self, directory: WorkingDir) {
        self.directory = Rc::new(directory);
    }

    pub(crate) fn get(&self, name: &str) -> Option<VariableBinding> {
        if name == "PWD" {
            // A `cd` that may fail leaves several possible directories.
            let WorkingDir::OneOf(dirs) = &*self.directory else { return None };
            let dirs: Option<Vec<String>> = dirs.iter().map(|it| it.to_str().map(str::to_owned)).collect();
            return dirs.filter(|it| !it.is_empty()).map(VariableBinding::OneOf);
        }
        self.variables.get(name).cloned()
    }

    pub(crate) fn set(&mut self, name: &str, binding: Option<VariableBinding>) {
        match binding {
            Some(binding) => drop(Rc::make_mut(&mut self.variables).insert(name.to_owned(), binding)),
            None if self.variables.contains_key(name) => drop(Rc::make_mut(&mut self.variables).remove(name)),
            None => (),
        }
    }

    pub(crate) fn forget_variables(&mut self) {
        self.variables = Rc::default();
    }

    /// The state after either of two branches.
    pub(crate) fn join(mut self, other: &Self) -> Self {
        if !Rc::ptr_eq(&self.variables, &other.variables) {
            Rc::make_mut(&mut self.variables)
                .retain(|name, here| join_bindings(here, other.variables.get(name)));
        }
        if !Rc::ptr_eq(&self.directory, &other.directory) {
            self.directory = Rc::new(join_directories(&self.directory, &other.directory));
        }
        self
    }

    /// The absolute paths a word may mean; `None` if unknown.
    pub(crate) fn resolve(&self, text: &str) -> Option<Vec<PathBuf>> {
        if text.starts_with('/') {
            return Some(vec![PathBuf::from(text)]);
        }
        match &*self.directory {
            WorkingDir::OneOf(dirs) => Some(dirs.iter().map(|dir| dir.join(text)).collect()),
            WorkingDir::Unknown => None,
        }
    }
}

/// Merges two bindings. Returns false if nothing is known any more.
fn join_bindings(here: &mut VariableBinding, there: Option<&VariableBinding>) -> bool {
    match (&mut *here, there) {
        (here, Some(there)) if here == there => true,
        (VariableBinding::OneOf(here), Some(VariableBinding::OneOf(there))) => {
            let more: Vec<String> = there.iter().filter(|text| !here.contains(text)).cloned().collect();
            here.extend(more);
            here.len() <= MAX_ALTERNATIVES
        }
        _ => false,
    }
}

fn join_directories(here: &WorkingDir, there: &WorkingDir) -> WorkingDir {
    let (WorkingDir::OneOf(dirs), WorkingDir::OneOf(more)) = (here, there) else {
        return WorkingDir::Unknown;
    };
    let mut dirs = dirs.clone();
    for dir in more {
        if !dirs.contains(dir) {
            dirs.push(dir.clone());
        }
    }
    if dirs.len() <= MAX_DIRECTORIES { WorkingDir::OneOf(dirs) } else { WorkingDir::Unknown }
}
