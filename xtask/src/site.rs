//! `cargo xtask site`: builds the documentation as a book.

use std::{fs, path::Path};

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

/// Returns the pages of `docs/` and its directories that are not in the table of contents.
pub(crate) fn missing_pages() -> Result<Vec<String>, String> {
    let docs = tidy::root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).map_err(|err| format!("SUMMARY.md: {err}"))?;
    let mut pages = Vec::new();
    pages_below(&docs, "", &mut pages)?;
    pages.retain(|page| page != "SUMMARY.md" && !summary.contains(&format!("({page})")));
    pages.sort();
    Ok(pages)
}

fn pages_below(dir: &Path, lead: &str, pages: &mut Vec<String>) -> Result<(), String> {
    for entry in fs::read_dir(dir).map_err(|err| err.to_string())?.flatten() {
        let path = entry.path();
        let name = format!("{lead}{}", entry.file_name().to_string_lossy());
        if path.is_dir() {
            pages_below(&path, &format!("{name}/"), pages)?;
        } else if name.ends_with(".md") {
            pages.push(name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_page_is_in_the_book() {
        assert_eq!(super::missing_pages(), Ok(Vec::new()));
    }
}
