//! Supported machine types and their names in various ecosystems.

use std::{fmt, process::Command};

/// A CPU architecture.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Machine {
    /// 64-bit x86.
    X86,
    /// 64-bit ARM.
    Arm,
}

impl Machine {
    /// All packaged architectures.
    pub(crate) const ALL: [Self; 2] = [Self::X86, Self::Arm];

    /// Determines the architecture of a Linux program from its ELF header. The error says what the file
    /// is.
    pub(crate) fn detect(bytes: &[u8]) -> Result<Self, String> {
        let Some(head) = bytes.first_chunk::<20>().filter(|it| it.starts_with(b"\x7fELF")) else {
            return Err(String::from("is no program for Linux"));
        };
        // 64-bit, little-endian; the fields below are read as such.
        if (head[4], head[5]) != (2, 1) {
            return Err(String::from("is no program for a 64-bit little-endian machine"));
        }
        // An executable or shared object; not an object file or core dump.
        if !matches!(u16::from_le_bytes([head[16], head[17]]), 2 | 3) {
            return Err(String::from("is no program that can be run"));
        }
        match u16::from_le_bytes([head[18], head[19]]) {
            62 => Ok(Self::X86),
            183 => Ok(Self::Arm),
            other => Err(format!(
                "is for a machine that nothing is packaged for (number {other} of ELF; known are {})",
                Self::ALL.map(Self::name).join(" and ")
            )),
        }
    }

    /// Returns the architecture of this machine, if it is supported.
    pub(crate) fn here() -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == std::env::consts::ARCH && cfg!(target_os = "linux"))
    }

    /// Returns the name used by Linux, Rust and Python.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::X86 => "x86_64",
            Self::Arm => "aarch64",
        }
    }

    /// Returns the name used by npm and Node.
    pub(crate) const fn for_npm(self) -> &'static str {
        match self {
            Self::X86 => "x64",
            Self::Arm => "arm64",
        }
    }

    /// Returns the name used by Debian.
    pub(crate) const fn for_debian(self) -> &'static str {
        match self {
            Self::X86 => "amd64",
            Self::Arm => "arm64",
        }
    }

    /// Returns the names used by Homebrew: requirement of a formula, and architecture.
    pub(crate) const fn for_homebrew(self) -> (&'static str, &'static str) {
        match self {
            Self::X86 => ("x86_64", "intel"),
            Self::Arm => ("arm64", "arm"),
        }
    }

    /// Returns the target with this C library.
    pub(crate) fn target(self, library: &'static str) -> LinuxTarget {
        LinuxTarget { machine: self, library }
    }

    /// Returns the binutils program for this architecture.
    pub(crate) fn tool(self, name: &str) -> String {
        if Self::here() == Some(self) { name.to_owned() } else { format!("{}-linux-gnu-{name}", self.name()) }
    }

    /// Returns an emulator for this architecture, if one is installed.
    pub(crate) fn emulator(self) -> Option<String> {
        let names = [format!("qemu-{}-static", self.name()), format!("qemu-{}", self.name())];
        names.into_iter().find(|it| Command::new(it).arg("--version").output().is_ok())
    }
}

/// A Rust target for Linux.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LinuxTarget {
    machine: Machine,
    library: &'static str,
}

impl LinuxTarget {
    pub(crate) const GNU: &'static str = "gnu";
    pub(crate) const MUSL: &'static str = "musl";

    /// Parses a target name; the error lists the supported ones.
    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        let all = Machine::ALL.map(|machine| [Self::GNU, Self::MUSL].map(|it| machine.target(it)));
        let found = all.as_flattened().iter().find(|it| it.to_string() == name);
        found.copied().ok_or_else(|| {
            let known: Vec<String> = all.as_flattened().iter().map(Self::to_string).collect();
            format!("nothing is packaged for {name}; --target takes {}", known.join(", "))
        })
    }

    /// Whether it uses glibc.
    pub(crate) fn is_gnu(&self) -> bool {
        self.library == Self::GNU
    }

    /// Returns the linker setting for cross-compilation, unless the user has set one.
    pub(crate) fn linker(&self) -> Vec<(String, String)> {
        let variable =
            format!("CARGO_TARGET_{}_LINKER", self.to_string().to_ascii_uppercase().replace('-', "_"));
        if Machine::here() == Some(self.machine) || std::env::var_os(&variable).is_some() {
            return Vec::new();
        }
        vec![(variable, format!("{}-linux-{}-gcc", self.machine.name(), self.library))]
    }
}

impl fmt::Display for LinuxTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-unknown-linux-{}", self.machine.name(), self.library)
    }
}
