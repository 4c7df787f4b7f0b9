//! npm packages: one with a script, and one per platform with the program. No install scripts, because
//! newer versions of npm do not run them.

use std::{fs, path::PathBuf};

use serde_json::{Map, Value, json};

use super::{PackageSet, binary::SystemNeeds, notices};
use crate::{command, tidy};

const ABOUT: &str = "Tools for language-model agents: call them, judge them, run a model with them";
const LICENCE: &str = "MIT OR Apache-2.0";

/// Returns the name of the platform package.
fn platform(shipment: &PackageSet) -> String {
    format!("haft-linux-{}", shipment.machine.for_npm())
}

/// Creates the platform package with `npm pack`.
pub(super) fn program(shipment: &PackageSet) -> Result<PathBuf, String> {
    let cpu = shipment.machine.for_npm();
    let mut native = json!({
        "name": platform(shipment), "version": shipment.version, "description": format!("{ABOUT} (Linux, {cpu})"),
        "license": LICENCE, "os": ["linux"], "cpu": [cpu], "files": ["bin/haft", "LICENSE-*", notices::FILE],
        "preferUnplugged": true,
    });
    if matches!(shipment.needs, SystemNeeds::Glibc(..)) {
        native["libc"] = json!(["glibc"]);
    }
    let binary = fs::read(&shipment.binary).map_err(|err| err.to_string())?;
    let notices = (notices::FILE, shipment.notices.as_bytes(), false);
    packed(shipment, &native, &[("bin/haft", binary.as_slice(), true), notices])
}

/// Creates the package with the script that starts the platform's program.
pub(super) fn script(shipments: &[PackageSet]) -> Result<PathBuf, String> {
    let first = shipments.first().ok_or("there is no program to package")?;
    let version = &first.version;
    // Exactly this version, because script and program must match.
    let programs: Map<String, Value> = shipments.iter().map(|it| (platform(it), json!(version))).collect();
    let main = json!({
        "name": "haft", "version": version, "description": ABOUT, "license": LICENCE,
        "bin": {"haft": "bin/haft.js"}, "files": ["bin/haft.js", "README.md", "LICENSE-*"], "engines": {"node": ">=18"},
        "optionalDependencies": programs,
    });
    let own = |name: &str| fs::read(tidy::root().join(name)).map_err(|err| format!("{name}: {err}"));
    let (script, readme) = (own("packaging/npm/haft.js")?, own("README.md")?);
    packed(first, &main, &[("bin/haft.js", script.as_slice(), true), ("README.md", readme.as_slice(), false)])
}

/// Packs files and licences.
fn packed(shipment: &PackageSet, package: &Value, files: &[(&str, &[u8], bool)]) -> Result<PathBuf, String> {
    use std::os::unix::fs::PermissionsExt as _;
    let name = package["name"].as_str().unwrap_or_default();
    let dir = shipment.out.join("npm").join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(dir.join("bin")).map_err(|err| format!("{}: {err}", dir.display()))?;
    fs::write(dir.join("package.json"), format!("{package:#}\n")).map_err(|err| err.to_string())?;
    let own = |name: &str| fs::read(tidy::root().join(name)).map_err(|err| format!("{name}: {err}"));
    let (apache, mit) = (own("LICENSE-APACHE")?, own("LICENSE-MIT")?);
    let licences = [("LICENSE-APACHE", apache.as_slice(), false), ("LICENSE-MIT", mit.as_slice(), false)];
    for (place, content, runs) in files.iter().chain(&licences) {
        let path = dir.join(place);
        fs::write(&path, content).map_err(|err| format!("{}: {err}", path.display()))?;
        let mode = if *runs { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(|err| err.to_string())?;
    }
    let (from, to) = (dir.display().to_string(), shipment.out.display().to_string());
    command::output("npm", &["pack", "--silent", "--offline", &from, "--pack-destination", &to])?;
    Ok(shipment.out.join(format!("{name}-{}.tgz", shipment.version)))
}
