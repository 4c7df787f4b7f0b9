//! Python wheel: the program as a script, and a module that finds it.

use std::{fs, path::PathBuf};

use super::{PackageSet, archive::Zip, binary::SystemNeeds, notices};
use crate::{command, tidy};

const MODULE: &str = r#""""Where the program of Haft is."""
import os
import sys
import sysconfig


def _places():
    """Where installers put programs, the one beside this package first."""
    packages = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # pip install --target DIR
    yield os.path.join(packages, "bin")
    # Environments, --user, --prefix: lib/pythonX.Y/site-packages
    yield os.path.normpath(os.path.join(packages, "..", "..", "..", "bin"))
    yield sysconfig.get_path("scripts")
    yield os.path.join(sys.prefix, "bin")
    yield sysconfig.get_path("scripts", "posix_user")


def find_haft_bin() -> str:
    """The path of the program that came with this package."""
    for place in _places():
        path = os.path.join(place, "haft")
        if os.path.isfile(path):
            return path
    raise FileNotFoundError("the program of haft is missing: install the package again")
"#;

const MAIN: &str = r#"import os
import sys

from haft import find_haft_bin

path = find_haft_bin()
os.execv(path, [path, *sys.argv[1:]])
"#;

/// Creates the wheel, tagged by the program's actual requirements.
pub(super) fn make(shipment: &PackageSet) -> Result<PathBuf, String> {
    let version = &shipment.version;
    let machine = shipment.machine.name();
    let platform = match shipment.needs {
        // A static program runs on any Linux.
        SystemNeeds::Nothing => format!("manylinux_2_17_{machine}.musllinux_1_1_{machine}"),
        SystemNeeds::Glibc(major, minor) => format!("manylinux_{major}_{minor}_{machine}"),
    };
    let info = format!("haft-{version}.dist-info");
    let metadata = format!(
        "Metadata-Version: 2.4\nName: haft\nVersion: {version}\nSummary: Tools for language-model agents\n\
         License-Expression: MIT OR Apache-2.0\nLicense-File: LICENSE-APACHE\nLicense-File: LICENSE-MIT\nLicense-File: {}\n\
         Requires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n{}",
        notices::FILE,
        own_file("README.md")?
    );
    let tags: String = platform.split('.').map(|it| format!("Tag: py3-none-{it}\n")).collect();
    let wheel = format!("Wheel-Version: 1.0\nGenerator: haft\nRoot-Is-Purelib: false\n{tags}");
    let binary = fs::read(&shipment.binary).map_err(|err| err.to_string())?;
    let (apache, mit) = (own_file("LICENSE-APACHE")?, own_file("LICENSE-MIT")?);
    let files: [(String, u32, &[u8]); 8] = [
        (String::from("haft/__init__.py"), 0o644, MODULE.as_bytes()),
        (String::from("haft/__main__.py"), 0o644, MAIN.as_bytes()),
        (format!("haft-{version}.data/scripts/haft"), 0o755, &binary),
        (format!("{info}/METADATA"), 0o644, metadata.as_bytes()),
        (format!("{info}/WHEEL"), 0o644, wheel.as_bytes()),
        (format!("{info}/licenses/LICENSE-APACHE"), 0o644, apache.as_bytes()),
        (format!("{info}/licenses/LICENSE-MIT"), 0o644, mit.as_bytes()),
        (format!("{info}/licenses/{}", notices::FILE), 0o644, shipment.notices.as_bytes()),
    ];
    let mut zip = Zip::default();
    let mut record = String::new();
    for (name, mode, content) in &files {
        zip.file(name, *mode, content)?;
        record.push_str(&format!("{name},sha256={},{}\n", digest(shipment, content)?, content.len()));
    }
    record.push_str(&format!("{info}/RECORD,,\n"));
    zip.file(&format!("{info}/RECORD"), 0o644, record.as_bytes())?;
    let path = shipment.out.join(format!("haft-{version}-py3-none-{platform}.whl"));
    fs::write(&path, zip.finish()?).map_err(|err| err.to_string())?;
    Ok(path)
}

/// Reads a file of the repository.
fn own_file(name: &str) -> Result<String, String> {
    fs::read_to_string(tidy::root().join(name)).map_err(|err| format!("{name}: {err}"))
}

/// Returns the checksum as used in wheels: URL-safe base64 without padding.
fn digest(shipment: &PackageSet, content: &[u8]) -> Result<String, String> {
    let scratch = shipment.out.join(".sum");
    fs::write(&scratch, content).map_err(|err| err.to_string())?;
    let printed = command::output("sha256sum", &[&scratch.display().to_string()])?;
    let _ = fs::remove_file(&scratch);
    let hex = printed.split_whitespace().next().unwrap_or_default();
    let bytes: Vec<u8> =
        (0..hex.len() / 2).filter_map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).ok()).collect();
    Ok(base64url(&bytes))
}

fn base64url(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let number =
            chunk.iter().fold(0_u32, |sum, byte| (sum << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..=chunk.len() {
            let index = (number >> (18 - 6 * at)) & 63;
            out.push(char::from(LETTERS[index as usize]));
        }
    }
    out
}
