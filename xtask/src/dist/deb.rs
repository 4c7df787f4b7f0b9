//! A package for Debian and its relatives: program, manual, completions.

use std::{fs, path::PathBuf};

use super::{
    Shipment,
    archive::{Tar, ar, gzip},
    binary::SystemNeeds,
};
use crate::tidy;

/// Makes the package.
pub(super) fn make(shipment: &Shipment) -> Result<PathBuf, String> {
    let mut files: Vec<(String, u32, Vec<u8>)> = Vec::new();
    let binary = fs::read(&shipment.binary).map_err(|err| err.to_string())?;
    files.push((String::from("usr/bin/haft"), 0o755, binary));
    for (place, text) in shipment.completions()? {
        files.push((place.to_owned(), 0o644, text));
    }
    for (page, text) in shipment.manual()? {
        files.push((format!("usr/share/man/man1/{page}.gz"), 0o644, gzip(&text)?));
    }
    let mut copyright = String::from(
        "Haft is of its authors, under the MIT licence or the Apache licence 2.0, as you like.\n\n",
    );
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        copyright.push_str(&fs::read_to_string(tidy::root().join(file)).map_err(|err| err.to_string())?);
    }
    files.push((String::from("usr/share/doc/haft/copyright"), 0o644, copyright.into_bytes()));
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
    let path = shipment.out.join(format!("haft_{}_amd64.deb", shipment.version));
    fs::write(&path, ar(&parts)).map_err(|err| err.to_string())?;
    Ok(path)
}

/// Files under their directories, each directory once and before what is in it.
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

fn control(shipment: &Shipment, kilobytes: usize) -> String {
    let depends = match shipment.needs {
        SystemNeeds::Nothing => String::new(),
        SystemNeeds::Glibc(major, minor) => format!("Depends: libc6 (>= {major}.{minor}), libgcc-s1\n"),
    };
    format!(
        "Package: haft\nVersion: {}\nArchitecture: amd64\nMaintainer: The authors of Haft <haft@localhost>\n\
         Installed-Size: {kilobytes}\n{depends}Recommends: git, bubblewrap, ca-certificates\nSection: devel\nPriority: optional\n\
         Description: tools for language-model agents\n Calls tools for language models, judges what they may do, and runs a model\n with them: in a terminal, in a pipe, in an editor or behind an SDK.\n",
        shipment.version
    )
}
