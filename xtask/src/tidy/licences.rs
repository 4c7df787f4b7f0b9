//! Every dependency is under a permissive licence.

use serde_json::Value;

use crate::run;

/// Licences that ask for nothing but a notice.
const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "NCSA",
    "OpenSSL",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "WTFPL",
    "Zlib",
    "bzip2-1.0.6",
];

pub(crate) fn check() -> Result<Vec<String>, String> {
    let metadata = run::output("cargo", &["metadata", "--format-version", "1", "--locked"])?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|err| err.to_string())?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    Ok(packages.filter(|package| !package["source"].is_null()).filter_map(problem_of).collect())
}

fn problem_of(package: &Value) -> Option<String> {
    let name = package["name"].as_str().unwrap_or_default();
    match package["license"].as_str() {
        Some(licence) if is_permissive(licence) => None,
        Some(licence) => Some(format!("dependency {name} is under {licence}")),
        None => Some(format!("dependency {name} does not say its licence")),
    }
}

/// `A OR B` needs one, `A AND B` needs both. Brackets only ever group
/// alternatives in practice, so they may be dropped.
fn is_permissive(licence: &str) -> bool {
    let text = licence.replace(['(', ')'], " ").replace('/', " OR ");
    text.split(" AND ").all(|part| {
        part.split(" OR ").any(|it| {
            let plain = it.split(" WITH ").next().unwrap_or(it).trim();
            PERMISSIVE.contains(&plain)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        for (licence, want) in [
            ("MIT", true),
            ("MIT OR Apache-2.0", true),
            ("MIT/Apache-2.0", true),
            ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true),
            ("GPL-3.0-only", false),
            ("MPL-2.0", false),
            ("(MIT OR GPL-2.0) AND Zlib", true),
            ("MIT AND GPL-2.0", false),
        ] {
            assert_eq!(is_permissive(licence), want, "{licence}");
        }
    }
}
