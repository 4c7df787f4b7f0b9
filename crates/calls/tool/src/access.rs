use std::path::PathBuf;

use crate::CommandLine;

/// One thing a call touches, in the words of permission rules.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Access {
    /// Reads this file, or the tree below this directory: `Read(...)` rules.
    Read(PathBuf),
    /// Creates, changes or removes this file: `Edit(...)` rules.
    Write(PathBuf),
    /// Runs this command line: `Bash(...)` rules, part by part.
    Command(CommandLine),
    /// Fetches this address: `WebFetch(domain:...)` rules.
    Fetch(String),
    /// Uses something with a name of its own, such as a skill or an agent type:
    /// `Skill(name)`, `Agent(type)`.
    Named(String),
}

/// Everything a call touches.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum AccessSet {
    /// The author said nothing, so rules about paths, commands and domains
    /// cannot see the call: unless it only reads or an allow rule names the
    /// tool, it asks.
    #[default]
    Undeclared,
    /// This and nothing else; an empty list touches nothing.
    Declared(Vec<Access>),
}

impl AccessSet {
    /// Touches nothing outside the process.
    pub fn nothing() -> Self {
        Self::Declared(Vec::new())
    }

    /// Reads one path.
    pub fn read(path: impl Into<PathBuf>) -> Self {
        Self::Declared(vec![Access::Read(path.into())])
    }

    /// Writes one path.
    pub fn write(path: impl Into<PathBuf>) -> Self {
        Self::Declared(vec![Access::Write(path.into())])
    }

    /// What is declared; nothing where nothing is.
    pub fn accesses(&self) -> &[Access] {
        match self {
            Self::Undeclared => &[],
            Self::Declared(accesses) => accesses,
        }
    }
}
