//! `cargo xtask features`: every feature of every crate compiles alone, with all others,
//! and left out.
//!
//! Features are left out by people who embed Haft, and no test of the gate does that. It
//! is no part of the gate because each combination checks the crates above it once more.

use serde_json::Value;

use crate::command;

/// Checks each crate that has features; complains about the first that does not compile.
/// Words name the crates to check.
pub(crate) fn check(words: &[String]) -> Result<(), String> {
    let metadata = command::output("cargo", &["metadata", "--format-version", "1", "--no-deps", "--locked"])?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|err| err.to_string())?;
    let mut builds = builds(&metadata);
    builds.retain(|build| words.is_empty() || words.contains(&build.package));
    if builds.is_empty() {
        return Err(format!("no crate has features: {}", words.join(" ")));
    }
    for FeatureBuild { package, features } in &builds {
        let check =
            ["check", "--locked", "--quiet", "-p", package, "--no-default-features", "--features", features];
        command::cargo(&check)?;
    }
    println!("{} builds with other features compile", builds.len());
    Ok(())
}

/// A crate and features of it, separated by commas.
#[derive(Debug, PartialEq)]
struct FeatureBuild {
    package: String,
    features: String,
}

/// No feature, each one, and all of them.
fn builds(metadata: &Value) -> Vec<FeatureBuild> {
    let mut builds = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let (Some(name), Some(features)) = (package["name"].as_str(), package["features"].as_object()) else {
            continue;
        };
        let named: Vec<&str> = features.keys().map(String::as_str).filter(|it| *it != "default").collect();
        if named.is_empty() {
            continue;
        }
        let all = named.join(",");
        let sets =
            [""].into_iter().chain(named.iter().copied()).chain((1 < named.len()).then_some(all.as_str()));
        builds.extend(sets.map(|set| FeatureBuild { package: name.to_owned(), features: set.to_owned() }));
    }
    builds
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_feature_is_built_alone_with_all_and_without() {
        let metadata = json!({"packages": [
            {"name": "plain", "features": {}},
            {"name": "one", "features": {"default": ["x"], "x": []}},
            {"name": "two", "features": {"a": [], "b": ["dep:c"]}},
        ]});
        let got: Vec<(String, String)> =
            builds(&metadata).into_iter().map(|it| (it.package, it.features)).collect();
        let want = [("one", ""), ("one", "x"), ("two", ""), ("two", "a"), ("two", "b"), ("two", "a,b")];
        assert_eq!(got, want.map(|(package, features)| (package.to_owned(), features.to_owned())));
    }
}
