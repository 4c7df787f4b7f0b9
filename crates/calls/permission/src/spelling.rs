//! Names that a file system may treat as equal: case, Unicode normalisation, invisible characters,
//! trailing dots, streams.

use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    fs::Metadata,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::MetadataExt,
    },
    path::{Component, Path, PathBuf},
};

use unicode_normalization::UnicodeNormalization;

/// Maximum entries read of a directory to find a name with several spellings.
const MAX_ENTRIES: usize = 64;

/// Canonical form of all names that some file system treats as equal.
pub(crate) fn fold(name: &str) -> String {
    let name = name.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    if name.is_ascii() {
        let name = name.to_ascii_lowercase();
        return if name == "git~1" { String::from(".git") } else { name };
    }
    fold_text(name).collect()
}

/// Folds case, normalisation and invisible characters of a text.
pub(crate) fn fold_text(text: &str) -> impl Iterator<Item = char> {
    let visible = text.nfd().filter(|it| !is_ignorable(*it));
    visible.flat_map(char::to_uppercase).flat_map(char::to_lowercase).nfd()
}

fn is_ignorable(it: char) -> bool {
    matches!(it, '\u{ad}' | '\u{34f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

/// Folds every component of a path; borrowed if nothing changes.
pub(crate) fn fold_path(path: &Path) -> Cow<'_, Path> {
    let is_plain = |it: &u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b"/_-".contains(it);
    if path.as_os_str().as_bytes().iter().all(is_plain) {
        return Cow::Borrowed(path);
    }
    let folded: PathBuf = path
        .components()
        .map(|part| match part {
            Component::Normal(name) => folded_name(name),
            other => other.as_os_str().to_owned(),
        })
        .collect();
    Cow::Owned(folded)
}

/// A name consisting only of dots or a stream is kept: folding it to nothing would remove it from the
/// path.
fn folded_name(name: &OsStr) -> OsString {
    match name.to_str().map(fold) {
        Some(folded) if !folded.is_empty() => folded.into(),
        Some(_) => name.to_owned(),
        None => name.to_ascii_lowercase(),
    }
}

/// Whether a directory in `path` treats different spellings as equal. Read-only; true if it cannot be
/// determined.
pub(crate) fn is_loosely_spelled(path: &Path) -> bool {
    let answers: Vec<bool> =
        path.ancestors().filter_map(|at| is_loose(at.parent()?, at.file_name()?)).collect();
    answers.is_empty() || answers.contains(&true)
}

/// Whether a directory finds its entry `name` under another spelling. `None` if there is no such
/// directory or the name has only one spelling.
fn is_loose(dir: &Path, name: &OsStr) -> Option<bool> {
    if let Ok(found) = dir.join(name).symlink_metadata() {
        return finds_otherwise(dir, name, &found);
    }
    let entries = std::fs::read_dir(dir).ok()?.flatten().take(MAX_ENTRIES);
    let known = entries.filter_map(|entry| {
        let name = entry.file_name();
        finds_otherwise(dir, &name, &dir.join(&name).symlink_metadata().ok()?)
    });
    // If the directory has no evidence, a new name counts as having several spellings.
    Some(known.into_iter().next().unwrap_or(true))
}

fn finds_otherwise(dir: &Path, name: &OsStr, found: &Metadata) -> Option<bool> {
    let others = other_spellings(name);
    let object = |it: &Metadata| (it.dev(), it.ino());
    let is_same = |other: &OsString| {
        let at = dir.join(other).symlink_metadata();
        at.is_ok_and(|it| is_alias(object(&it), object(found), || lists(dir, &[name, other])))
    };
    (!others.is_empty()).then(|| others.iter().any(is_same))
}

/// Whether two names that a directory finds are spellings of one entry: they are the same
/// object, or the directory does not list both. File systems in user space (FUSE) may give
/// every spelling of an entry an inode number of its own.
fn is_alias(one: (u64, u64), other: (u64, u64), are_listed: impl FnOnce() -> bool) -> bool {
    one == other || !are_listed()
}

/// Whether the listing of a directory has all these names, in exactly these bytes.
fn lists(dir: &Path, names: &[&OsStr]) -> bool {
    let Ok(entries) = std::fs::read_dir(dir) else { return false };
    let mut missing = names.to_vec();
    for entry in entries.flatten() {
        missing.retain(|it| entry.file_name() != **it);
        if missing.is_empty() {
            return true;
        }
    }
    false
}

fn other_spellings(name: &OsStr) -> Vec<OsString> {
    let bytes = name.as_bytes();
    let mut all: Vec<OsString> = match name.to_str() {
        None => Vec::new(),
        Some(text) => vec![
            text.to_uppercase().into(),
            text.to_lowercase().into(),
            text.nfc().collect::<String>().into(),
            text.nfd().collect::<String>().into(),
        ],
    };
    all.push(OsString::from_vec(bytes.to_ascii_uppercase()));
    all.push(OsString::from_vec(bytes.to_ascii_lowercase()));
    all.sort();
    all.dedup();
    all.retain(|it| it != name);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folded_paths_are_equal_for_spellings_of_one_name() {
        for (a, b, want) in [
            ("/ws/.ENV", "/ws/.env", true),
            ("/WS/Secret.txt", "/ws/secret.TXT", true),
            ("/ws/.env.", "/ws/.env", true),
            ("/ws/.env::$DATA", "/ws/.env", true),
            ("/ws/caf\u{e9}", "/ws/CAFE\u{301}", true),
            ("/ws/stra\u{df}e", "/ws/STRASSE", true),
            ("/ws/...", "/ws", false),
            ("/ws/:x", "/ws", false),
            ("/ws/env", "/ws/.env", false),
        ] {
            assert_eq!(fold_path(Path::new(a)) == fold_path(Path::new(b)), want, "{a} {b}");
        }
        assert!(matches!(fold_path(Path::new("/ws/src/main_1")), Cow::Borrowed(_)));
    }

    #[test]
    fn alias_is_the_same_object_or_a_name_that_is_not_listed() {
        for (other, are_listed, want) in [
            ((1, 7), true, true),
            ((1, 7), false, true),
            // exFAT and bindfs through FUSE: one entry, two inode numbers.
            ((1, 8), false, true),
            // `Makefile` and `makefile` beside each other.
            ((1, 8), true, false),
        ] {
            assert_eq!(is_alias(other, (1, 7), || are_listed), want, "{other:?} {are_listed}");
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("Makefile"), "x").unwrap();
        let (upper, lower) = (OsStr::new("Makefile"), OsStr::new("makefile"));
        assert!(lists(dir.path(), &[upper]));
        assert!(!lists(dir.path(), &[lower]) && !lists(dir.path(), &[upper, lower]));
        std::fs::write(dir.path().join("makefile"), "y").unwrap();
        let here = dir.path().canonicalize().unwrap();
        assert!(!is_loosely_spelled(&here.join("Makefile")));
    }

    /// Hard links simulate a volume that ignores case: entries exist in both cases.
    #[test]
    fn spelling_is_loose_only_where_a_directory_finds_both() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["exact", "loose", "empty"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        std::fs::write(root.join("exact/.env"), "x").unwrap();
        std::fs::write(root.join("loose/.env"), "x").unwrap();
        std::fs::hard_link(root.join("loose/.env"), root.join("loose/.ENV")).unwrap();
        for (path, want) in [
            ("exact/.env", false),
            ("exact/.ENV", false),
            ("exact/absent", false),
            ("loose/.ENV", true),
            ("loose/absent", true),
            ("loose/absent/deep", true),
            ("empty/absent", true),
        ] {
            assert_eq!(is_loosely_spelled(&root.join(path)), want, "{path}");
        }
    }
}
