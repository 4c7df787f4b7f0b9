//! Debian package: program, manual, completions.

use std::{fs, path::PathBuf};

use super::{
    PackageSet,
    archive::{Tar, ar, gzip, gzip_best},
    binary::SystemNeeds,
    notices,
};
use crate::tidy;

/// Maintainer; to be replaced by whoever distributes the package.
const MAINTAINER: &str = "The authors of Haft <haft@localhost>";

/// Creates the package.
pub(super) fn make(shipment: &PackageSet) -> Result<PathBuf, String> {
    let mut files: Vec<(String, u32, Vec<u8>)> = Vec::new();
    let binary = fs::read(&shipment.binary).map_err(|err| err.to_string())?;
    files.push((String::from("usr/bin/haft"), 0o755, binary));
    for (place, text) in &shipment.pages.completions {
        files.push(((*place).to_owned(), 0o644, text.clone()));
    }
    for (page, text) in &shipment.pages.manual {
        files.push((format!("usr/share/man/man1/{page}.gz"), 0o644, gzip_best(text)?));
    }
    files.push((String::from("usr/share/doc/haft/copyright"), 0o644, copyright()?.into_bytes()));
    let notices = gzip_best(shipment.notices.as_bytes())?;
    files.push((format!("usr/share/doc/haft/{}.gz", notices::FILE), 0o644, notices));
    let log = gzip_best(changelog(shipment).as_bytes())?;
    files.push((String::from("usr/share/doc/haft/changelog.gz"), 0o644, log));
    files.sort();
    let size: usize = files.iter().map(|(_, _, content)| content.len().div_ceil(1024)).sum();
    let data = data(&files);
    let control = control(shipment, size);
    let mut about = Tar::default();
    about.file("./control", 0o644, control.as_bytes());
    let parts = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", gzip(&about.finish())?),
        ("data.tar.gz", gzip(&data)?),
    ];
    let parts: Vec<(&str, &[u8])> = parts.iter().map(|(name, content)| (*name, content.as_slice())).collect();
    let name = format!("haft_{}_{}.deb", shipment.version, shipment.machine.for_debian());
    let path = shipment.out.join(name);
    fs::write(&path, ar(&parts)).map_err(|err| err.to_string())?;
    Ok(path)
}

/// Returns the copyright file: one licence in full, the other as a reference to Debian's copy.
fn copyright() -> Result<String, String> {
    let mit = fs::read_to_string(tidy::root().join("LICENSE-MIT")).map_err(|err| err.to_string())?;
    Ok(format!(
        "Haft is of its authors, under the MIT licence or the Apache licence 2.0, as you like.\n\n\
         The Apache licence, version 2.0, is in /usr/share/common-licenses/Apache-2.0.\n\nThe MIT licence:\n\n{mit}"
    ))
}

/// Returns Debian's changelog, which refers to `CHANGELOG.md`.
fn changelog(shipment: &PackageSet) -> String {
    format!(
        "haft ({}) unstable; urgency=medium\n\n  * What is new is in the file CHANGELOG.md of the source.\n\n -- {MAINTAINER}  \
         Thu, 01 Jan 2026 00:00:00 +0000\n",
        shipment.version
    )
}

/// Creates the data archive; each directory appears once, before its content.
fn data(files: &[(String, u32, Vec<u8>)]) -> Vec<u8> {
    let mut tar = Tar::default();
    let mut dirs: Vec<String> = Vec::new();
    for (name, mode, content) in files {
        let parts: Vec<&str> = name.split('/').collect();
        for depth in 1..parts.len() {
            let dir = parts[..depth].join("/");
            if !dirs.contains(&dir) {
                tar.dir(&format!("./{dir}"));
                dirs.push(dir);
            }
        }
        tar.file(&format!("./{name}"), *mode, content);
    }
    tar.finish()
}

fn control(shipment: &PackageSet, kilobytes: usize) -> String {
    let depends = match shipment.needs {
        SystemNeeds::Nothing => String::new(),
        SystemNeeds::Glibc(major, minor) => format!("Depends: libc6 (>= {major}.{minor}), libgcc-s1\n"),
    };
    format!(
        "Package: haft\nVersion: {}\nArchitecture: {}\nMaintainer: {MAINTAINER}\n\
         Installed-Size: {kilobytes}\n{depends}Recommends: git, bubblewrap, ca-certificates\nSection: devel\nPriority: optional\n\
         Description: tools for language-model agents\n Calls tools for language models, judges what they may do, and runs a model\n with them: in a terminal, in a pipe, in an editor or behind an SDK.\n",
        shipment.version,
        shipment.machine.for_debian()
    )
}
