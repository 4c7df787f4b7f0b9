//! `cargo xtask dist`: the packages people install, from one binary.
//!
//! The same binary gives the same bytes of every package, wherever it is made:
//! no times, no users, no paths of this machine are in them.

mod archive;
mod binary;
pub(crate) mod crates;
mod deb;
mod npm;
mod reproduce;
mod templates;
mod wheel;

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{run, tidy};

const HELP: &str = "\
cargo xtask dist [--binary FILE] [--out DIR] [--releases URL] [--static] [--strip]
  --binary FILE  package this binary instead of building one
  --out DIR      put packages here (default: target/packages)
  --releases URL where the archive of this version will lie, for what downloads it: the Homebrew formula,
                 the action, the container feature; without it they are not made
  --static       build one that needs no libraries of the system
  --strip        leave out symbols (for a binary that was built to be debugged)
cargo xtask dist --reproduce [PACKAGE] [PROFILE]
  build the programs of a package (haft-cli) with a profile (dist) twice, from copies of the source in two
  directories, and compare the bytes
Makes: npm packages, a wheel, a deb, an archive, checksums, a container file, and what downloads the archive.";

/// What is packaged.
pub(crate) struct Shipment {
    /// The program.
    pub(crate) binary: PathBuf,
    /// The version of the workspace.
    pub(crate) version: String,
    /// What it needs of the system.
    pub(crate) needs: binary::SystemNeeds,
    /// Where packages go.
    pub(crate) out: PathBuf,
}

impl Shipment {
    /// A page or script that the program prints about itself.
    fn printed(&self, args: &[&str]) -> Result<Vec<u8>, String> {
        let output = std::process::Command::new(&self.binary).args(args).output();
        let output = output.map_err(|err| format!("{}: {err}", self.binary.display()))?;
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(format!("haft {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr))),
        }
    }

    /// Completion scripts: where they belong, and what is in them.
    pub(crate) fn completions(&self) -> Result<Vec<(&'static str, Vec<u8>)>, String> {
        let places = [
            ("bash", "usr/share/bash-completion/completions/haft"),
            ("zsh", "usr/share/zsh/vendor-completions/_haft"),
            ("fish", "usr/share/fish/vendor_completions.d/haft.fish"),
        ];
        places.into_iter().map(|(shell, place)| Ok((place, self.printed(&["completions", shell])?))).collect()
    }

    /// Manual pages, by their file names.
    pub(crate) fn manual(&self) -> Result<Vec<(String, Vec<u8>)>, String> {
        let dir = self.out.join("man");
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).map_err(|err| format!("{}: {err}", dir.display()))?;
        self.printed(&["dev", "man", &dir.display().to_string()])?;
        let mut pages = Vec::new();
        for entry in fs::read_dir(&dir).map_err(|err| err.to_string())?.flatten() {
            let text = fs::read(entry.path()).map_err(|err| err.to_string())?;
            pages.push((entry.file_name().to_string_lossy().into_owned(), text));
        }
        pages.sort();
        Ok(pages)
    }
}

/// Makes every package.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    if args.first().is_some_and(|word| word == "--reproduce") {
        return reproduce::run(&args[1..]);
    }
    let mut words = args.iter();
    let (mut binary, mut out, mut releases, mut is_static, mut strip) = (None, None, None, false, false);
    while let Some(word) = words.next() {
        let mut value =
            || words.next().map(PathBuf::from).ok_or_else(|| format!("{word} needs a value\n{HELP}"));
        match word.as_str() {
            "--binary" => binary = Some(value()?),
            "--out" => out = Some(value()?),
            "--releases" => releases = Some(value()?.display().to_string()),
            "--static" => is_static = true,
            "--strip" => strip = true,
            _ => return Err(HELP.to_owned()),
        }
    }
    let out = match out {
        Some(out) => out,
        None => run::target_dir()?.join("packages"),
    };
    fs::create_dir_all(&out).map_err(|err| format!("{}: {err}", out.display()))?;
    let out = out.canonicalize().map_err(|err| err.to_string())?;
    let given = match binary {
        Some(binary) => binary.canonicalize().map_err(|err| format!("{}: {err}", binary.display()))?,
        None if is_static => binary::build_static()?,
        None => binary::build()?,
    };
    let binary = out.join("haft");
    fs::copy(&given, &binary).map_err(|err| format!("{}: {err}", given.display()))?;
    if strip {
        run::command("strip", &["--strip-all", &binary.display().to_string()])?;
    }
    let needs = binary::SystemNeeds::of(&binary)?;
    let version = version()?;
    let shipment = Shipment { binary, version, needs, out };
    println!("haft {}: {}", shipment.version, shipment.needs);
    let mut made = npm::make(&shipment)?;
    made.push(wheel::make(&shipment)?);
    made.push(deb::make(&shipment)?);
    made.push(archive_of_release(&shipment)?);
    let sums = checksums(&shipment.out, &made)?;
    templates::make(&shipment, &sums, releases.as_deref())?;
    for (sum, name) in &sums {
        println!("{sum}  {name}");
    }
    Ok(())
}

/// The version all crates share.
fn version() -> Result<String, String> {
    let manifest = fs::read_to_string(tidy::root().join("Cargo.toml")).map_err(|err| err.to_string())?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("version = \""));
    line.and_then(|it| it.split('"').next()).map(str::to_owned).ok_or_else(|| String::from("no version"))
}

/// The archive that installers and other channels take.
fn archive_of_release(shipment: &Shipment) -> Result<PathBuf, String> {
    let name = format!("haft-{}-{}", shipment.version, shipment.needs.target());
    let mut tar = archive::Tar::default();
    let binary = fs::read(&shipment.binary).map_err(|err| err.to_string())?;
    tar.file(&format!("{name}/haft"), 0o755, &binary);
    for (place, text) in shipment.completions()? {
        let file = place.rsplit('/').next().unwrap_or(place);
        tar.file(&format!("{name}/completions/{file}"), 0o644, &text);
    }
    for (page, text) in shipment.manual()? {
        tar.file(&format!("{name}/man/{page}"), 0o644, &text);
    }
    for file in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
        let text = fs::read(tidy::root().join(file)).map_err(|err| format!("{file}: {err}"))?;
        tar.file(&format!("{name}/{file}"), 0o644, &text);
    }
    let path = shipment.out.join(format!("{name}.tar.gz"));
    fs::write(&path, archive::gzip(&tar.finish())?).map_err(|err| err.to_string())?;
    Ok(path)
}

/// Writes `SHA256SUMS`; gives sums and names.
fn checksums(out: &Path, made: &[PathBuf]) -> Result<Vec<(String, String)>, String> {
    let mut sums = Vec::new();
    for path in made {
        let printed = run::output("sha256sum", &[&path.display().to_string()])?;
        let sum = printed.split_whitespace().next().unwrap_or_default().to_owned();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        sums.push((sum, name));
    }
    sums.sort_by(|a, b| a.1.cmp(&b.1));
    let text: String = sums.iter().map(|(sum, name)| format!("{sum}  {name}\n")).collect();
    fs::write(out.join("SHA256SUMS"), text).map_err(|err| err.to_string())?;
    Ok(sums)
}
