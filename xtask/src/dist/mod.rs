//! `cargo xtask dist`: creates the distributed packages, from one binary per architecture.
//!
//! The same binaries give byte-identical packages on any machine: packages contain no timestamps, users
//! or local paths.

mod archive;
mod binary;
pub(crate) mod crates;
mod deb;
mod machine;
mod notices;
mod npm;
mod pages;
mod reproduce;
mod templates;
mod wheel;

use std::{
    fs,
    path::{Path, PathBuf},
};

use binary::Linking;
use machine::{LinuxTarget, Machine};
use pages::{PageProgram, Pages};

use crate::{command, tidy};

const HELP: &str = "\
cargo xtask dist [--binary FILE]... [--target TRIPLE]... [--pages PROGRAM] [--out DIR] [--releases URL]
                 [--static] [--strip]
  --binary FILE  package this binary instead of building one; its head says which machine it is for
  --target TRIPLE build for this target, whose Rust is installed (aarch64-unknown-linux-gnu, ...)
                 Both can be given several times, once for each kind of machine
  --pages PROGRAM ask this program of the same version for manual and completions, for binaries that do
                 not run here; without it one of the others is asked, or an emulator (qemu-user) runs it
  --out DIR      put packages here (default: target/packages)
  --releases URL where the archives of this version will lie, for what downloads them: the Homebrew
                 formula, the action, the container feature; without it they are not made
  --static       build one that needs no libraries of the system
  --strip        leave out symbols (for a binary that was built to be debugged)
cargo xtask dist --reproduce [PACKAGE] [PROFILE]
  build the programs of a package (haft-cli) with a profile (dist) twice, from copies of the source in two
  directories, and compare the bytes
Makes: npm packages, a wheel, a deb, an archive, checksums, a container file, and what downloads the archive.";

/// What is packaged for one architecture.
pub(crate) struct PackageSet {
    pub(crate) binary: PathBuf,
    pub(crate) version: String,
    pub(crate) machine: Machine,
    pub(crate) needs: binary::SystemNeeds,
    /// Manual and completions.
    pub(crate) pages: Pages,
    /// Licences of everything linked.
    pub(crate) notices: String,
    /// Output directory.
    pub(crate) out: PathBuf,
}

impl PackageSet {
    /// Returns architecture and requirements as used in names of archives.
    pub(crate) fn target(&self) -> String {
        self.needs.target(self.machine)
    }

    /// Returns the top-level directory of the archive.
    pub(crate) fn directory(&self) -> String {
        format!("haft-{}-{}", self.version, self.target())
    }

    /// Returns the name of the archive.
    pub(crate) fn archive(&self) -> String {
        format!("{}.tar.gz", self.directory())
    }
}

/// Parsed arguments.
#[derive(Default)]
struct DistOptions {
    binaries: Vec<PathBuf>,
    targets: Vec<LinuxTarget>,
    pages: Option<PathBuf>,
    out: Option<PathBuf>,
    releases: Option<String>,
    is_static: bool,
    strip: bool,
}

impl DistOptions {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = args.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n{HELP}"));
            match word.as_str() {
                "--binary" => options.binaries.push(value()?.into()),
                "--target" => options.targets.push(LinuxTarget::parse(value()?)?),
                "--pages" => options.pages = Some(value()?.into()),
                "--out" => options.out = Some(value()?.into()),
                "--releases" => options.releases = Some(value()?.clone()),
                "--static" => options.is_static = true,
                "--strip" => options.strip = true,
                _ => return Err(HELP.to_owned()),
            }
        }
        Ok(options)
    }

    /// Returns the binaries named on the command line, and those to be built.
    fn given(&self) -> Result<Vec<PathBuf>, String> {
        let found = |it: &PathBuf| it.canonicalize().map_err(|err| format!("{}: {err}", it.display()));
        let mut given: Vec<PathBuf> = self.binaries.iter().map(found).collect::<Result<_, _>>()?;
        let linking = if self.is_static { Linking::WithoutLibraries } else { Linking::AsUsual };
        for target in &self.targets {
            given.push(binary::build_for(target, linking)?);
        }
        if given.is_empty() {
            given.push(if self.is_static { binary::build_static()? } else { binary::build()? });
        }
        Ok(given)
    }
}

/// Creates all packages.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    if args.first().is_some_and(|word| word == "--reproduce") {
        return reproduce::run(&args[1..]);
    }
    let options = DistOptions::parse(args)?;
    let out = match &options.out {
        Some(out) => out.clone(),
        None => command::target_dir()?.join("packages"),
    };
    fs::create_dir_all(&out).map_err(|err| format!("{}: {err}", out.display()))?;
    let out = out.canonicalize().map_err(|err| err.to_string())?;
    let shipments = shipments(&options, &out)?;
    let mut made = Vec::new();
    for shipment in &shipments {
        println!("haft {} for {}: {}", shipment.version, shipment.machine.name(), shipment.needs);
        made.push(npm::program(shipment)?);
        made.push(wheel::make(shipment)?);
        made.push(deb::make(shipment)?);
        made.push(archive_of_release(shipment)?);
    }
    made.push(npm::script(&shipments)?);
    let sums = checksums(&out, &made)?;
    templates::make(&shipments, &sums, options.releases.as_deref())?;
    for (sum, name) in &sums {
        println!("{sum}  {name}");
    }
    Ok(())
}

/// Returns the package sets ordered by architecture, so that the order of arguments has no effect.
fn shipments(options: &DistOptions, out: &Path) -> Result<Vec<PackageSet>, String> {
    let mut given: Vec<(Machine, PathBuf)> = Vec::new();
    for path in options.given()? {
        let bytes = fs::read(&path).map_err(|err| format!("{}: {err}", path.display()))?;
        let machine = Machine::detect(&bytes).map_err(|it| format!("{} {it}", path.display()))?;
        if let Some((_, other)) = given.iter().find(|(it, _)| *it == machine) {
            let (one, two, name) = (other.display(), path.display(), machine.name());
            return Err(format!("{one} and {two} are both for {name}: their packages have the same names"));
        }
        given.push((machine, path));
    }
    given.sort();
    let is_alone = given.len() == 1;
    let mut binaries = Vec::new();
    for (machine, path) in given {
        let name = if is_alone { String::from("haft") } else { format!("haft-{}", machine.name()) };
        let binary = out.join(name);
        fs::copy(&path, &binary).map_err(|err| format!("{}: {err}", path.display()))?;
        if options.strip {
            command::command(&machine.tool("strip"), &["--strip-all", &binary.display().to_string()])?;
        }
        binaries.push((machine, binary));
    }
    let pages = PageProgram::choose(options.pages.as_deref(), &binaries)?.pages(out)?;
    let version = version()?;
    let notices = notices::collect(&version)?;
    let shipment = |(machine, binary): (Machine, PathBuf)| {
        let bytes = fs::read(&binary).map_err(|err| format!("{}: {err}", binary.display()))?;
        let needs = binary::SystemNeeds::read(&bytes);
        let (version, pages, notices, out) =
            (version.clone(), pages.clone(), notices.clone(), out.to_owned());
        Ok(PackageSet { binary, version, machine, needs, pages, notices, out })
    };
    binaries.into_iter().map(shipment).collect()
}

/// Returns the version shared by all crates.
fn version() -> Result<String, String> {
    let manifest = fs::read_to_string(tidy::root().join("Cargo.toml")).map_err(|err| err.to_string())?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("version = \""));
    line.and_then(|it| it.split('"').next()).map(str::to_owned).ok_or_else(|| String::from("no version"))
}

/// Creates the archive used by installers and other channels.
fn archive_of_release(shipment: &PackageSet) -> Result<PathBuf, String> {
    let name = shipment.directory();
    let mut tar = archive::Tar::default();
    let binary = fs::read(&shipment.binary).map_err(|err| err.to_string())?;
    tar.file(&format!("{name}/haft"), 0o755, &binary);
    for (place, text) in &shipment.pages.completions {
        let file = place.rsplit('/').next().unwrap_or(place);
        tar.file(&format!("{name}/completions/{file}"), 0o644, text);
    }
    for (page, text) in &shipment.pages.manual {
        tar.file(&format!("{name}/man/{page}"), 0o644, text);
    }
    for file in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
        let text = fs::read(tidy::root().join(file)).map_err(|err| format!("{file}: {err}"))?;
        tar.file(&format!("{name}/{file}"), 0o644, &text);
    }
    tar.file(&format!("{name}/{}", notices::FILE), 0o644, shipment.notices.as_bytes());
    let path = shipment.out.join(shipment.archive());
    fs::write(&path, archive::gzip(&tar.finish())?).map_err(|err| err.to_string())?;
    Ok(path)
}

/// Writes `SHA256SUMS`; returns checksums and names.
fn checksums(out: &Path, made: &[PathBuf]) -> Result<Vec<(String, String)>, String> {
    let mut sums = Vec::new();
    for path in made {
        let printed = command::output("sha256sum", &[&path.display().to_string()])?;
        let sum = printed.split_whitespace().next().unwrap_or_default().to_owned();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        sums.push((sum, name));
    }
    sums.sort_by(|a, b| a.1.cmp(&b.1));
    let text: String = sums.iter().map(|(sum, name)| format!("{sum}  {name}\n")).collect();
    fs::write(out.join("SHA256SUMS"), text).map_err(|err| err.to_string())?;
    Ok(sums)
}
