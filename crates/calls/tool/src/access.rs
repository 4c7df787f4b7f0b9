use std::path::PathBuf;

use crate::CommandLine;

/// One thing a call touches, in terms of permission rules.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Access {
    /// Reads this file, or the tree below this directory; checked against `Read(...)` rules.
    Read(PathBuf),
    /// Creates, changes or removes this file; checked against `Edit(...)` rules.
    Write(PathBuf),
    /// Runs this command line; each part is checked against `Bash(...)` rules.
    Command(CommandLine),
    /// Fetches this URL; checked against `WebFetch(domain:...)` rules.
    Fetch(String),
    /// Uses a named item such as a skill or agent type; checked against `Skill(name)`, `Agent(type)`.
    Named(String),
}

/// Everything a call touches.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum AccessSet {
    /// Not declared: rules about paths, commands and domains cannot be checked. The call asks, unless it
    /// only reads or an allow rule names the tool.
    #[default]
    Undeclared,
    /// Exactly these; an empty list means that the call touches nothing.
    Declared(Vec<Access>),
}

impl AccessSet {
    /// Declares that the call touches nothing outside the process.
    pub fn nothing() -> Self {
        Self::Declared(Vec::new())
    }

    /// Declares that the call reads one path.
    pub fn read(path: impl Into<PathBuf>) -> Self {
        Self::Declared(vec![Access::Read(path.into())])
    }

    /// Declares that the call writes one path.
    pub fn write(path: impl Into<PathBuf>) -> Self {
        Self::Declared(vec![Access::Write(path.into())])
    }

    /// The declared accesses; empty if undeclared.
    pub fn accesses(&self) -> &[Access] {
        match self {
            Self::Undeclared => &[],
            Self::Declared(accesses) => accesses,
        }
    }
}
