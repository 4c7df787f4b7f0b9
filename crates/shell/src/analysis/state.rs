//! What the shell knows between two commands: variables and where it is.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::facts::{Directory, Place};

/// More alternatives than this are not followed.
pub(crate) const MAX_ALTERNATIVES: usize = 16;

/// Most directories a `cd` that may have failed leaves open.
const MAX_DIRECTORIES: usize = 4;

/// What is known about the value of a variable.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Binding {
    /// One of these texts.
    OneOf(Vec<String>),
    /// A file name that this pattern found.
    Match(String),
}

#[derive(Clone, Debug)]
pub(crate) struct State {
    /// Variables with a known value; all others are unknown.
    variables: BTreeMap<String, Binding>,
    pub(crate) directory: Directory,
}

impl State {
    pub(crate) fn new(place: Place<'_>) -> Self {
        let mut variables = BTreeMap::new();
        if let Some(home) = place.home.and_then(Path::to_str) {
            variables.insert("HOME".to_owned(), Binding::OneOf(vec![home.to_owned()]));
        }
        Self { variables, directory: Directory::OneOf(vec![place.cwd.to_owned()]) }
    }

    /// Nothing is known, as inside a function that is called from anywhere.
    pub(crate) fn blank() -> Self {
        Self { variables: BTreeMap::new(), directory: Directory::Unknown }
    }

    pub(crate) fn get(&self, name: &str) -> Option<Binding> {
        if name == "PWD" {
            let dir = self.directory.single()?.to_str()?;
            return Some(Binding::OneOf(vec![dir.to_owned()]));
        }
        self.variables.get(name).cloned()
    }

    pub(crate) fn set(&mut self, name: &str, binding: Option<Binding>) {
        match binding {
            Some(binding) => drop(self.variables.insert(name.to_owned(), binding)),
            None => drop(self.variables.remove(name)),
        }
    }

    pub(crate) fn forget_variables(&mut self) {
        self.variables.clear();
    }

    /// Either of two pasts.
    pub(crate) fn join(mut self, other: &Self) -> Self {
        self.variables.retain(|name, binding| match other.variables.get(name) {
            Some(there) if there == binding => true,
            Some(Binding::OneOf(there)) => match binding {
                Binding::OneOf(here) => {
                    here.extend(
                        there.iter().filter(|text| !here.contains(text)).cloned().collect::<Vec<_>>(),
                    );
                    here.len() <= MAX_ALTERNATIVES
                }
                Binding::Match(_) => false,
            },
            _ => false,
        });
        self.directory = join_directories(self.directory, &other.directory);
        self
    }

    /// The absolute paths a word may mean, if that is known.
    pub(crate) fn resolve(&self, text: &str) -> Option<Vec<PathBuf>> {
        if text.starts_with('/') {
            return Some(vec![PathBuf::from(text)]);
        }
        match &self.directory {
            Directory::OneOf(dirs) => Some(dirs.iter().map(|dir| dir.join(text)).collect()),
            Directory::Unknown => None,
        }
    }
}

fn join_directories(here: Directory, there: &Directory) -> Directory {
    let (Directory::OneOf(mut dirs), Directory::OneOf(more)) = (here, there) else {
        return Directory::Unknown;
    };
    for dir in more {
        if !dirs.contains(dir) {
            dirs.push(dir.clone());
        }
    }
    if dirs.len() <= MAX_DIRECTORIES { Directory::OneOf(dirs) } else { Directory::Unknown }
}
