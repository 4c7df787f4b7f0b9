//! What other channels need besides the archive: files with the version and
//! the sums of this release in them.

use std::fs;

use super::Shipment;
use crate::tidy;

/// Templates, and what they become.
const TEMPLATES: [(&str, &str); 4] = [
    ("packaging/homebrew/haft.rb", "homebrew/haft.rb"),
    ("packaging/container/Dockerfile", "container/Dockerfile"),
    ("packaging/action/action.yml", "action/action.yml"),
    ("packaging/devcontainer/haft/devcontainer-feature.json", "devcontainer/haft/devcontainer-feature.json"),
];

/// Scripts that go beside them as they are.
const SCRIPTS: [(&str, &str); 2] = [
    ("packaging/action/review.sh", "action/review.sh"),
    ("packaging/devcontainer/haft/install.sh", "devcontainer/haft/install.sh"),
];

/// Fills the templates in.
pub(super) fn make(
    shipment: &Shipment,
    sums: &[(String, String)],
    releases: Option<&str>,
) -> Result<(), String> {
    let archive = format!("haft-{}-{}.tar.gz", shipment.version, shipment.needs.target());
    let sum = sums.iter().find(|(_, name)| *name == archive).map(|(sum, _)| sum.as_str()).unwrap_or_default();
    let filled = |text: &str| {
        text.replace("@VERSION@", &shipment.version)
            .replace("@TARGET@", shipment.needs.target())
            .replace("@ARCHIVE@", &archive)
            .replace("@SHA256@", sum)
            .replace("@RELEASES@", releases.unwrap_or_default().trim_end_matches('/'))
    };
    for (from, to) in TEMPLATES.iter().chain(&SCRIPTS) {
        let text = fs::read_to_string(tidy::root().join(from)).map_err(|err| format!("{from}: {err}"))?;
        if text.contains("@RELEASES@") && releases.is_none() {
            println!("{to}: not made, it needs --releases");
            continue;
        }
        let path = shipment.out.join(to);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|err| format!("{}: {err}", parent.display()))?;
        }
        fs::write(&path, filled(&text)).map_err(|err| format!("{}: {err}", path.display()))?;
    }
    Ok(())
}
