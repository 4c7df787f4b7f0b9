//! Markdown files below a directory: commands, agents, styles, rules.

use std::path::{Path, PathBuf};

/// Deeper ones are not looked for: a link may lead in circles.
const DEEPEST: usize = 6;

/// Markdown files below a directory, in order, with their paths inside it.
pub(crate) fn pages(dir: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut found = Vec::new();
    collect(dir, Path::new(""), 0, &mut found);
    found.sort();
    found
}

fn collect(dir: &Path, inside: &Path, depth: usize, found: &mut Vec<(PathBuf, PathBuf)>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, inside) = (entry.path(), inside.join(entry.file_name()));
        if path.is_dir() && depth < DEEPEST {
            collect(&path, &inside, depth + 1, found);
        } else if path.extension().is_some_and(|it| it == "md") {
            found.push((inside, path));
        }
    }
}
