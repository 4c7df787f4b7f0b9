//! `cargo xtask site`: builds the documentation as a book.

use std::fs;

use crate::{command, install_tools, tidy};

/// Version of mdBook.
const MDBOOK: &str = "0.5.4";

/// Checks that no page is missing and no link is broken, then builds the book.
pub(crate) fn build() -> Result<(), String> {
    let missing = missing_pages()?;
    if !missing.is_empty() {
        return Err(format!("docs/SUMMARY.md does not name {}", missing.join(", ")));
    }
    let dead = tidy::links::check(&tidy::root())?;
    if !dead.is_empty() {
        return Err(format!("links that lead nowhere:\n- {}", dead.join("\n- ")));
    }
    let program = install_tools::pinned("mdbook", MDBOOK, &["--version"])?;
    command::command(&program.display().to_string(), &["build", &tidy::root().display().to_string()])?;
    println!("the book is in target/site: open target/site/index.html");
    Ok(())
}

/// Returns pages that are not in the table of contents.
pub(crate) fn missing_pages() -> Result<Vec<String>, String> {
    let docs = tidy::root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).map_err(|err| format!("SUMMARY.md: {err}"))?;
    let mut missing = Vec::new();
    for entry in fs::read_dir(&docs).map_err(|err| err.to_string())?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") && name != "SUMMARY.md" && !summary.contains(&format!("({name})")) {
            missing.push(name);
        }
    }
    missing.sort();
    Ok(missing)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_page_is_in_the_book() {
        assert_eq!(super::missing_pages(), Ok(Vec::new()));
    }
}
