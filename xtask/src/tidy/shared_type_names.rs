//! The number of type names used by several crates must not grow, because such names cannot be searched
//! for.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::command;

/// Maximum number of type names defined in two or more crates. May only be lowered.
const MAX_SHARED: usize = 2;

/// Maximum names listed in a message.
const SHOWN: usize = 12;

pub(crate) fn check(root: &Path) -> Result<Vec<String>, String> {
    let root_text = root.to_string_lossy();
    let listed =
        command::output("git", &["-C", &root_text, "ls-files", "--cached", "--others", "crates/*.rs"])?;
    let mut owners: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for name in listed.lines() {
        let Some(owner) = crate_of(name) else { continue };
        let Ok(text) = fs::read_to_string(root.join(name)) else { continue };
        for defined in text.lines().filter_map(defined_type) {
            owners.entry(defined.to_owned()).or_default().insert(owner.to_owned());
        }
    }
    owners.retain(|_, crates| 1 < crates.len());
    Ok(problem_of(&owners).into_iter().collect())
}

fn problem_of(shared: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    let count = shared.len();
    if count <= MAX_SHARED {
        return None;
    }
    let mut rarest: Vec<_> = shared.iter().collect();
    rarest.sort_by_key(|(_, crates)| crates.len());
    let shown = rarest.iter().take(SHOWN).map(|(name, crates)| {
        let crates: Vec<&str> = crates.iter().map(String::as_str).collect();
        format!("{name} ({})", crates.join(", "))
    });
    let shown = shown.collect::<Vec<_>>().join("; ");
    Some(format!(
        "{count} names of types are shared by several crates, at most {MAX_SHARED} may be; give the new ones their noun. Some of them: {shown}"
    ))
}

/// Returns the crate that contains a file.
fn crate_of(file: &str) -> Option<&str> {
    let mut steps = file.strip_prefix("crates/")?.split('/').skip(1);
    let name = steps.next()?;
    (steps.next()? == "src").then_some(name)
}

/// Returns the type defined in a line.
fn defined_type(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let mut word = words.next()?;
    if word.starts_with("pub") {
        word = words.next()?;
    }
    if word == "unsafe" {
        word = words.next()?;
    }
    // An indented `type` is an associated type.
    let is_definition = match word {
        "struct" | "enum" | "trait" => true,
        "type" => !line.starts_with(' '),
        _ => false,
    };
    let name = words.next().filter(|_| is_definition)?;
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
    Some(&name[..end]).filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_definitions_are_recognised() {
        for (line, want) in [
            ("pub struct Pool<T> {", Some("Pool")),
            ("    enum Kind {", Some("Kind")),
            ("pub(crate) trait Sink: Send {", Some("Sink")),
            ("type Made<'a> = Box<dyn Any>;", Some("Made")),
            ("    type Input = Value;", None),
            ("pub unsafe trait Raw {", Some("Raw")),
            ("/// struct Pool", None),
            ("let kind = 1;", None),
            ("impl Pool {", None),
        ] {
            assert_eq!(defined_type(line), want, "{line}");
        }
    }

    #[test]
    fn crates() {
        for (file, want) in [
            ("crates/calls/tool/src/lib.rs", Some("tool")),
            ("crates/calls/tool/tests/all/main.rs", None),
            ("xtask/src/main.rs", None),
        ] {
            assert_eq!(crate_of(file), want, "{file}");
        }
    }
}
