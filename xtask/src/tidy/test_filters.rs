//! Test modules named in nextest filters exist. A filter without a match would silently select nothing.

use std::{fs, path::Path};

use crate::command;

const FILTERS: &str = ".config/nextest.toml";

pub(super) fn check(root: &Path) -> Result<Vec<String>, String> {
    let filters = fs::read_to_string(root.join(FILTERS)).map_err(|err| format!("{FILTERS}: {err}"))?;
    let listed = command::output("git", &["-C", &root.to_string_lossy(), "ls-files", "--cached", "*.rs"])?;
    let files: Vec<&str> = listed.lines().collect();
    Ok(missing_modules(&filters, &files))
}

fn missing_modules(filters: &str, files: &[&str]) -> Vec<String> {
    let exists = |module: &str| {
        let module = module.replace("::", "/");
        let (file, directory) = (format!("/tests/all/{module}.rs"), format!("/tests/all/{module}/"));
        files.iter().any(|it| it.ends_with(&file) || it.contains(&directory))
    };
    modules(filters)
        .filter(|module| !exists(module))
        .map(|module| format!("{FILTERS}: there is no test module {module}"))
        .collect()
}

/// Returns the names in `test(/^(a|b)::/)`.
fn modules(filters: &str) -> impl Iterator<Item = &str> {
    filters
        .split("test(/^(")
        .skip(1)
        .filter_map(|rest| rest.split_once(")::/)"))
        .flat_map(|(names, _)| names.split('|'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_with_missing_module_is_reported() {
        let files = [
            "crates/a/b/tests/all/one.rs",
            "crates/a/b/tests/all/two/mod.rs",
            "crates/a/b/tests/all/two/in.rs",
        ];
        let filters = "filter = 'package(b) & test(/^(one|two|two::in|three)::/) | test(/^(four)::/)'";
        assert_eq!(
            missing_modules(filters, &files),
            ["three", "four"].map(|it| format!("{FILTERS}: there is no test module {it}"))
        );
    }
}
