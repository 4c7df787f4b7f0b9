//! The packaged binary: how it is built, and what it requires.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::machine::{LinuxTarget, Machine};
use crate::{command, tidy};

/// What a binary requires of the system.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum SystemNeeds {
    /// Nothing (statically linked).
    Nothing,
    /// glibc of at least this version.
    Glibc(u32, u32),
}

impl SystemNeeds {
    /// Determines the requirements from the binary itself.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        if has_interpreter(bytes) { newest_glibc(bytes) } else { Self::Nothing }
    }

    /// Returns the target as used in names of archives.
    pub(crate) fn target(&self, machine: Machine) -> String {
        match self {
            Self::Nothing => format!("{}-linux-static", machine.name()),
            Self::Glibc(..) => format!("{}-linux-gnu", machine.name()),
        }
    }
}

impl fmt::Display for SystemNeeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("needs no library of the system"),
            Self::Glibc(major, minor) => write!(f, "needs glibc {major}.{minor} or newer"),
        }
    }
}

/// Whether a 64-bit ELF file has an interpreter (segment type 3).
fn has_interpreter(bytes: &[u8]) -> bool {
    let number = |at: usize, length: usize| -> usize {
        let slice = bytes.get(at..at + length).unwrap_or_default();
        slice.iter().rev().fold(0, |sum, byte| (sum << 8) | usize::from(*byte))
    };
    let (table, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    (0..count).any(|index| number(table + index * size, 4) == 3)
}

/// Returns the highest glibc version among the required symbols.
fn newest_glibc(bytes: &[u8]) -> SystemNeeds {
    const MARK: &[u8] = b"GLIBC_2.";
    let mut newest = 0;
    for at in 0..bytes.len().saturating_sub(MARK.len()) {
        if bytes[at] == b'G' && bytes[at..].starts_with(MARK) {
            let digits: String = bytes[at + MARK.len()..]
                .iter()
                .take(3)
                .take_while(|it| it.is_ascii_digit())
                .map(|it| char::from(*it))
                .collect();
            newest = newest.max(digits.parse().unwrap_or(0));
        }
    }
    SystemNeeds::Glibc(2, newest)
}

/// Source and target directories of a build.
pub(crate) struct BuildDirs {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
}

impl BuildDirs {
    /// Returns those of this repository.
    pub(crate) fn here() -> Result<Self, String> {
        Ok(Self { root: tidy::root(), target: command::target_dir()? })
    }

    /// Returns environment variables for a reproducible build: local paths and timestamps are kept out
    /// of the binary.
    pub(crate) fn variables(&self, more: &str) -> Vec<(&'static str, String)> {
        let home = std::env::var("HOME").ok();
        let cargo = std::env::var("CARGO_HOME").ok().or_else(|| Some(format!("{}/.cargo", home?)));
        let mut places = vec![(self.root.display().to_string(), String::from("/haft"))];
        places.extend(cargo.map(|cargo| (cargo, String::from("/cargo"))));
        places.extend(source_of_std());
        // The last matching rule applies, and the target directory lies within the source.
        places.push((self.target.display().to_string(), String::from("/target")));
        let joined = |flag: &str| {
            let flags: Vec<String> = places.iter().map(|(from, to)| format!("{flag}={from}={to}")).collect();
            flags.join(" ")
        };
        let for_c = joined("-ffile-prefix-map");
        vec![
            ("RUSTFLAGS", format!("{} {more}", joined("--remap-path-prefix")).trim().to_owned()),
            ("CFLAGS", for_c.clone()),
            ("CXXFLAGS", for_c),
            ("SOURCE_DATE_EPOCH", String::from("0")),
            ("CARGO_INCREMENTAL", String::from("0")),
            ("CARGO_TARGET_DIR", self.target.display().to_string()),
        ]
    }
}

/// Returns the installed source of the standard library and its canonical path, so that binaries do not
/// depend on whether it is installed.
fn source_of_std() -> Option<(String, String)> {
    let sysroot = command::output("rustc", &["--print", "sysroot"]).ok()?;
    let version = command::output("rustc", &["-vV"]).ok()?;
    let commit = version.lines().find_map(|line| line.strip_prefix("commit-hash: "))?;
    Some((format!("{}/lib/rustlib/src/rust", sysroot.trim()), format!("/rustc/{commit}")))
}

/// Runs a build with additional environment variables.
fn built(place: &BuildDirs, args: &[&str], more: &str, beside: &[(String, String)]) -> Result<(), String> {
    let mut variables: Vec<(String, String)> =
        place.variables(more).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    variables.extend_from_slice(beside);
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    command::cargo_with(args, &variables)
}

const BUILD: [&str; 8] = ["build", "--locked", "--profile", "dist", "-p", "haft-cli", "--bin", "haft"];

/// A statically linked glibc program cannot look up `getrandom` at run time and would read /dev/urandom,
/// which some root directories lack, so the system call is used directly.
const WITH_GLIBC: &str = "-C target-feature=+crt-static --cfg getrandom_backend=\"linux_getrandom\"";

/// Builds the release binary.
pub(crate) fn build() -> Result<PathBuf, String> {
    let place = BuildDirs::here()?;
    built(&place, &BUILD, "", &[])?;
    Ok(place.target.join("dist/haft"))
}

/// Builds a statically linked binary: with musl if its target is installed, else with glibc.
pub(crate) fn build_static() -> Result<PathBuf, String> {
    let here = Machine::here().ok_or("nothing is packaged for this machine: say --target")?;
    let (musl, gnu) = (here.target(LinuxTarget::MUSL), here.target(LinuxTarget::GNU));
    if is_installed(&musl)? {
        return build_for(&musl, Linking::AsUsual);
    }
    println!("Rust for {musl} is not installed: glibc goes into the binary instead");
    build_for(&gnu, Linking::WithoutLibraries)
}

/// How the C library is linked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Linking {
    /// As is usual for the target.
    AsUsual,
    /// Statically.
    WithoutLibraries,
}

/// Builds for a target that is installed.
pub(crate) fn build_for(target: &LinuxTarget, linking: Linking) -> Result<PathBuf, String> {
    if !is_installed(target)? {
        return Err(format!("Rust for {target} is not installed: rustup target add {target}"));
    }
    let more = match linking {
        Linking::WithoutLibraries if target.is_gnu() => WITH_GLIBC,
        _ => "",
    };
    let place = BuildDirs::here()?;
    let name = target.to_string();
    built(&place, &[&BUILD[..], &["--target", &name]].concat(), more, &target.linker())?;
    Ok(place.target.join(name).join("dist/haft"))
}

fn is_installed(target: &LinuxTarget) -> Result<bool, String> {
    let sysroot = command::output("rustc", &["--print", "sysroot"])?;
    Ok(Path::new(sysroot.trim()).join("lib/rustlib").join(target.to_string()).join("lib").exists())
}
