use std::{
    collections::{HashMap, HashSet},
    fs,
    path::Path,
};

use super::kebab;

/// Directories that declare the program's arguments.
const ARGUMENTS: [&str; 3] =
    ["crates/frontends/cli/src/", "crates/frontends/console/src/", "crates/frontends/fleet/src/commands/"];

/// Index of the source: files, words, commands, flags, definitions.
#[derive(Default)]
pub(super) struct SourceIndex {
    files: Vec<String>,
    words: HashSet<String>,
    flags: HashSet<String>,
    /// Variants of each subcommand enum, as typed.
    commands: HashMap<String, HashSet<String>>,
    /// Path and text of every Rust file.
    texts: Vec<(String, String)>,
}

impl SourceIndex {
    pub(super) fn read(root: &Path, files: &[String]) -> Self {
        let mut index = Self { files: files.to_vec(), ..Self::default() };
        for name in files.iter().filter(|name| is_source(name)) {
            if let Ok(text) = fs::read_to_string(root.join(name)) {
                index.add_text(name, text);
            }
        }
        // Added by clap.
        index.flags.extend(["help", "version"].map(str::to_owned));
        index
    }

    #[cfg(test)]
    pub(super) fn add_file(&mut self, name: &str, text: &str) {
        self.files.push(name.to_owned());
        self.add_text(name, text.to_owned());
    }

    fn add_text(&mut self, name: &str, text: String) {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        self.words.extend(words.filter(|word| !word.is_empty()).map(str::to_owned));
        if !name.ends_with(".rs") {
            return;
        }
        if ARGUMENTS.iter().any(|it| name.starts_with(it)) {
            self.flags.extend(flags_of(&text));
            self.commands.extend(commands_of(&text));
        }
        self.texts.push((name.to_owned(), text));
    }

    pub(super) fn has_word(&self, word: &str) -> bool {
        self.words.contains(word)
    }

    pub(super) fn has_flag(&self, flag: &str) -> bool {
        self.flags.contains(flag)
    }

    pub(super) fn has_level(&self, level: &str) -> bool {
        self.commands.contains_key(level)
    }

    pub(super) fn has_command(&self, level: &str, name: &str) -> bool {
        self.commands.get(level).is_some_and(|names| names.contains(name))
    }

    pub(super) fn is_top_directory(&self, name: &str) -> bool {
        self.files.iter().any(|file| file.split_once('/').is_some_and(|(first, _)| first == name))
    }

    pub(super) fn is_crate(&self, name: &str) -> bool {
        self.files.iter().any(|file| crate_of(file) == Some(name))
    }

    /// Whether a path exists: from the root, from a crate (`tool-runtime/tool_pool`), or a part of a
    /// path. `<name>` and `*` match any component.
    pub(super) fn has_path(&self, path: &str) -> bool {
        let steps: Vec<&str> = path.split('/').collect();
        self.files.iter().any(|file| {
            let of_file: Vec<&str> = file.split('/').collect();
            (0..of_file.len()).any(|start| fits(&steps, &of_file[start..])) || fits_crate(&steps, file)
        })
    }

    /// Whether a type has a function, constant or variant, or a module or crate has a definition.
    pub(super) fn has_item(&self, owner: &str, item: &str) -> bool {
        if owner == "std" {
            return true;
        }
        let is_type = owner.starts_with(|c: char| c.is_ascii_uppercase());
        self.texts.iter().any(|(name, text)| {
            let may_hold = if is_type { names_type(text, owner) } else { is_module(name, text, owner) };
            may_hold && defines(text, item)
        })
    }
}

fn is_source(name: &str) -> bool {
    let is_code = [".rs", ".py", ".mjs", ".ts", ".json", ".jsonl", ".sh", ".toml", ".snap"];
    !name.starts_with("docs/") && is_code.iter().any(|end| name.ends_with(end))
}

fn crate_of(file: &str) -> Option<&str> {
    file.strip_prefix("crates/")?.split('/').nth(1)
}

/// Whether path components match a file or one of its directories.
fn fits(steps: &[&str], file: &[&str]) -> bool {
    steps.len() <= file.len() && steps.iter().zip(file).all(|(step, part)| fits_step(step, part))
}

fn fits_step(step: &str, part: &str) -> bool {
    let Some(open) = step.find(['<', '*']) else { return step == part };
    let close = step.rfind(['>', '*']).map_or(open, |at| at + 1);
    part.starts_with(&step[..open]) && part.ends_with(&step[close..])
}

/// Whether `tool-runtime/tool_pool` refers to this file: `crates/*/tool-runtime/src/tool_pool.rs` or one
/// below `tool_pool/`.
fn fits_crate(steps: &[&str], file: &str) -> bool {
    let Some((first, rest)) = steps.split_first() else { return false };
    let inside = file.split('/').skip(3).collect::<Vec<_>>().join("/");
    let Some(inside) = inside.strip_prefix("src/") else { return false };
    let inside = inside.strip_suffix(".rs").unwrap_or(inside);
    let mut rest: Vec<&str> = rest.to_vec();
    if let Some(last) = rest.last_mut() {
        *last = last.strip_suffix(".rs").unwrap_or(last);
    }
    crate_of(file) == Some(*first) && fits(&rest, &inside.split('/').collect::<Vec<_>>())
}

fn names_type(text: &str, owner: &str) -> bool {
    let kinds = ["struct", "enum", "trait", "type", "impl"];
    text.lines().any(|line| has_kind(line, &kinds) && words_of(line).any(|word| word == owner))
}

fn has_kind(line: &str, kinds: &[&str]) -> bool {
    words_of(line).take(4).any(|word| kinds.contains(&word))
}

/// Whether a file belongs to the module `owner`, by its name, directory, crate, or a `mod` in it.
fn is_module(name: &str, text: &str, owner: &str) -> bool {
    let is_in =
        name.split('/').any(|step| step.strip_suffix(".rs").unwrap_or(step).replace('-', "_") == owner);
    is_in || text.contains(&format!("mod {owner} "))
}

/// Whether a text defines `item`: a function, type, constant, variant, or `pub use`.
fn defines(text: &str, item: &str) -> bool {
    let kinds = ["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "use"];
    text.lines().any(|line| {
        let line = line.trim();
        let is_comment = line.starts_with("//");
        let is_named = !is_comment && words_of(line).any(|word| word == item);
        let is_variant = line.strip_prefix(item).is_some_and(|rest| {
            rest.is_empty() || rest.starts_with([',', '(', ' ']) && !rest.starts_with(" =>")
        });
        is_named && (has_kind(line, &kinds) || is_variant || line.trim_end_matches(',') == item)
    })
}

fn words_of(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Returns the long flags of `#[arg(…)]`, including aliases.
fn flags_of(text: &str) -> Vec<String> {
    let mut flags = Vec::new();
    for part in text.split("#[arg(").skip(1) {
        let Some((attribute, rest)) = part.split_once(")]") else { continue };
        let values = attribute.split(',').map(str::trim);
        for value in values {
            let mut sides = value.splitn(2, '=').map(str::trim);
            match (sides.next(), sides.next()) {
                (Some("long"), None) => flags.extend(field_after(rest).map(kebab)),
                (Some("long" | "alias" | "visible_alias"), Some(name)) => {
                    flags.push(kebab(name.trim_matches('"')));
                }
                _ => {}
            }
        }
    }
    flags
}

/// Returns the field after an attribute.
fn field_after(rest: &str) -> Option<&str> {
    let line = rest.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with(['#', '/']))?;
    words_of(line.split(':').next()?).last()
}

/// Returns the variants of every enum that derives `Subcommand`.
fn commands_of(text: &str) -> Vec<(String, HashSet<String>)> {
    let mut found = Vec::new();
    for part in text.split("Subcommand)]").skip(1) {
        let Some((head, body)) = part.split_once('{') else { continue };
        let Some(name) = words_of(head).last() else { continue };
        let body = body.split("\n}").next().unwrap_or(body);
        let is_variant = |line: &&str| {
            line.strip_prefix("    ").is_some_and(|line| line.starts_with(|c: char| c.is_ascii_uppercase()))
        };
        let variants = body.lines().filter(is_variant).filter_map(|line| words_of(line).next());
        found.push((name.to_owned(), variants.map(kebab).collect()));
    }
    found
}
