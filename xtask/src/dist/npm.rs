//! npm: one package with a small script, one for each platform with the
//! program. No install scripts: newer versions of npm do not run them.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use super::{Shipment, binary::SystemNeeds};
use crate::{run, tidy};

/// Makes both packages with `npm pack`.
pub(super) fn make(shipment: &Shipment) -> Result<Vec<PathBuf>, String> {
    let version = shipment.version.as_str();
    let about = "Tools for language-model agents: call them, judge them, run a model with them";
    let platform = "haft-linux-x64";
    let mut native = json!({
        "name": platform, "version": version, "description": format!("{about} (Linux, x64)"),
        "license": "MIT OR Apache-2.0", "os": ["linux"], "cpu": ["x64"], "files": ["bin/haft", "LICENSE-*"],
        "preferUnplugged": true,
    });
    if matches!(shipment.needs, SystemNeeds::Glibc(..)) {
        native["libc"] = json!(["glibc"]);
    }
    let main = json!({
        "name": "haft", "version": version, "description": about, "license": "MIT OR Apache-2.0",
        "bin": {"haft": "bin/haft.js"}, "files": ["bin/haft.js", "README.md", "LICENSE-*"], "engines": {"node": ">=18"},
        // Exactly this version: a script and a program of different ages do not fit.
        "optionalDependencies": {platform: version},
    });
    let shim =
        fs::read(tidy::root().join("packaging/npm/haft.js")).map_err(|err| format!("haft.js: {err}"))?;
    let binary = fs::read(&shipment.binary).map_err(|err| err.to_string())?;
    let own = |name: &str| fs::read(tidy::root().join(name)).map_err(|err| format!("{name}: {err}"));
    let (readme, apache, mit) = (own("README.md")?, own("LICENSE-APACHE")?, own("LICENSE-MIT")?);
    let licences = [("LICENSE-APACHE", apache.as_slice(), false), ("LICENSE-MIT", mit.as_slice(), false)];
    let program = [&[("bin/haft", binary.as_slice(), true)][..], &licences].concat();
    let script = [("bin/haft.js", shim.as_slice(), true), ("README.md", readme.as_slice(), false)];
    let script = [&script[..], &licences].concat();
    Ok(vec![packed(shipment, &native, &program)?, packed(shipment, &main, &script)?])
}

fn packed(shipment: &Shipment, package: &Value, files: &[(&str, &[u8], bool)]) -> Result<PathBuf, String> {
    use std::os::unix::fs::PermissionsExt as _;
    let name = package["name"].as_str().unwrap_or_default();
    let dir = shipment.out.join("npm").join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(dir.join("bin")).map_err(|err| format!("{}: {err}", dir.display()))?;
    fs::write(dir.join("package.json"), format!("{package:#}\n")).map_err(|err| err.to_string())?;
    for (place, content, runs) in files {
        let path = dir.join(place);
        fs::write(&path, content).map_err(|err| format!("{}: {err}", path.display()))?;
        let mode = if *runs { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(|err| err.to_string())?;
    }
    let (from, to) = (dir.display().to_string(), shipment.out.display().to_string());
    run::output("npm", &["pack", "--silent", "--offline", &from, "--pack-destination", &to])?;
    Ok(shipment.out.join(format!("{name}-{}.tgz", shipment.version)))
}
