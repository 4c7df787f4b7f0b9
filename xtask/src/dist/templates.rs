//! Files for other distribution channels, with version and checksums of this release.

use std::fs;

use super::PackageSet;
use crate::tidy;

/// Templates and their output files.
const TEMPLATES: [(&str, &str); 4] = [
    ("packaging/homebrew/haft.rb", "homebrew/haft.rb"),
    ("packaging/container/Dockerfile", "container/Dockerfile"),
    ("packaging/action/action.yml", "action/action.yml"),
    ("packaging/devcontainer/haft/devcontainer-feature.json", "devcontainer/haft/devcontainer-feature.json"),
];

/// Scripts that are copied unchanged.
const SCRIPTS: [(&str, &str); 2] = [
    ("packaging/action/review.sh", "action/review.sh"),
    ("packaging/devcontainer/haft/install.sh", "devcontainer/haft/install.sh"),
];

/// Renders the templates.
pub(super) fn make(
    shipments: &[PackageSet],
    sums: &[(String, String)],
    releases: Option<&str>,
) -> Result<(), String> {
    let first = shipments.first().ok_or("there is no program to package")?;
    let releases = releases.map(|it| it.trim_end_matches('/'));
    for (from, to) in TEMPLATES.iter().chain(&SCRIPTS) {
        let text = fs::read_to_string(tidy::root().join(from)).map_err(|err| format!("{from}: {err}"))?;
        if text.contains("@RELEASES@") && releases.is_none() {
            println!("{to}: not made, it needs --releases");
            continue;
        }
        let path = first.out.join(to);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|err| format!("{}: {err}", parent.display()))?;
        }
        let text = filled(&text, shipments, sums)
            .replace("@VERSION@", &first.version)
            .replace("@RELEASES@", releases.unwrap_or_default());
        fs::write(&path, text).map_err(|err| format!("{}: {err}", path.display()))?;
    }
    Ok(())
}

/// Renders a template. A line that refers to an architecture, its archive or checksum is repeated for
/// each of them. Lines between `@ALONE@` and `@END@` apply to a single architecture, those between
/// `@SEVERAL@` and `@END@` to several; in the latter, text between `@EACH@` and `@NEXT@` is repeated as
/// a whole.
fn filled(text: &str, shipments: &[PackageSet], sums: &[(String, String)]) -> String {
    let mut out = String::new();
    let mut is_wanted = true;
    let mut block: Option<String> = None;
    for line in text.split_inclusive('\n') {
        match line.trim() {
            "@ALONE@" => is_wanted = shipments.len() == 1,
            "@SEVERAL@" => is_wanted = shipments.len() != 1,
            "@END@" => is_wanted = true,
            _ if !is_wanted => {}
            "@EACH@" => block = Some(String::new()),
            "@NEXT@" => out.push_str(&repeated(&block.take().unwrap_or_default(), shipments, sums)),
            _ => match &mut block {
                Some(block) => block.push_str(line),
                None => out.push_str(&repeated(line, shipments, sums)),
            },
        }
    }
    out
}

fn repeated(text: &str, shipments: &[PackageSet], sums: &[(String, String)]) -> String {
    let words = ["@MACHINE@", "@TARGET@", "@ARCHIVE@", "@SHA256@", "@ARCH@", "@PROCESSOR@"];
    if !words.iter().any(|word| text.contains(word)) {
        return text.to_owned();
    }
    let mut out = String::new();
    for shipment in shipments {
        let archive = shipment.archive();
        let sum = sums.iter().find(|(_, name)| *name == archive).map(|(sum, _)| sum.as_str());
        let (arch, processor) = shipment.machine.for_homebrew();
        let values = [
            shipment.machine.name(),
            &shipment.target(),
            archive.as_str(),
            sum.unwrap_or_default(),
            arch,
            processor,
        ];
        let put = |text: String, (word, value): (&&str, &str)| text.replace(word, value);
        out.push_str(&words.iter().zip(values).fold(text.to_owned(), put));
    }
    out
}
