//! Rules for the repository.

mod assertions;
mod dependencies;
mod documents;
mod files;
mod layers;
pub(crate) mod links;
mod manifests;
mod reference_tables;
mod shared_type_names;
mod test_filters;
mod tool_names;

use std::path::PathBuf;

/// Checks all rules and reports all problems.
pub(crate) fn check() -> Result<(), String> {
    let mut problems = Vec::new();
    problems.extend(layers::check(&root())?);
    problems.extend(files::check(&root())?);
    problems.extend(assertions::check(&root())?);
    problems.extend(tool_names::check(&root())?);
    problems.extend(documents::check(&root())?);
    problems.extend(links::check(&root())?);
    problems.extend(reference_tables::check(&root())?);
    problems.extend(manifests::check()?);
    problems.extend(shared_type_names::check(&root())?);
    problems.extend(dependencies::check()?);
    problems.extend(test_filters::check(&root())?);
    if problems.is_empty() {
        if crate::hot_functions::is_too_old()? {
            println!(
                "tidy: dependencies changed, so releases take more memory until `cargo xtask hot-functions`"
            );
        }
        println!("tidy: no problems");
        return Ok(());
    }
    Err(format!("tidy:\n- {}", problems.join("\n- ")))
}

/// Returns the root of the workspace.
pub(crate) fn root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().map(PathBuf::from).unwrap_or(manifest)
}
