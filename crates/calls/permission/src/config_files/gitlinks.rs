//! Nested repositories listed in a git index.
//!
//! `git status` enters each and follows its settings, wherever they came from. `git ls-files | xargs
//! cat` opens whatever the index lists.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::names_in_text::falls_apart;

/// Maximum bytes of an index.
const LARGEST: u64 = 64 << 20;

/// Maximum number of parts of a split index.
const MAX_SHARED: usize = 16;

/// Mode of an entry that is a repository.
const GITLINK: u32 = 0o160_000;

/// Mode of an entry for a whole directory (sparse index).
const SPARSE_DIRECTORY: u32 = 0o040_000;

/// Paths of nested repositories relative to the working tree. `None` if the index cannot be parsed.
pub(super) fn gitlinks(git: &Path) -> Option<Vec<PathBuf>> {
    let mut out = Vec::new();
    for found in lists(git)? {
        (!found.is_odd).then_some(())?;
        out.extend(found.links);
    }
    Some(out)
}

/// Whether every name in the index stays one word, and inside the repository, when another command reads
/// it from text.
pub(super) fn names_stay_whole(git: &Path) -> bool {
    lists(git).is_some_and(|all| all.iter().all(|it| !it.is_odd && !it.falls_apart))
}

fn lists(git: &Path) -> Option<Vec<GitlinkNames>> {
    let shared = fs::read_dir(git).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_shared =
        |path: &PathBuf| path.file_name().is_some_and(|it| it.to_string_lossy().starts_with("sharedindex."));
    let shared: Vec<PathBuf> = shared.filter(is_shared).collect();
    (shared.len() <= MAX_SHARED).then_some(())?;
    let mut out = Vec::new();
    for path in shared.into_iter().chain([git.join("index")]) {
        let Ok(meta) = path.symlink_metadata() else { continue };
        (meta.is_file() && meta.len() <= LARGEST).then_some(())?;
        let bytes = fs::read(&path).ok()?;
        // The length of object ids depends on the repository.
        out.push(links_of(&bytes, 20).or_else(|| links_of(&bytes, 32))?);
    }
    Some(out)
}

/// Content of an index.
struct GitlinkNames {
    links: Vec<PathBuf>,
    /// Whether a name leaves the repository (git itself does not create such), or a nested repository
    /// has a name that cannot be looked up.
    is_odd: bool,
    /// Whether a name would be split or taken for an option when read from text, or stands for names
    /// stored only in objects.
    falls_apart: bool,
}

fn links_of(bytes: &[u8], object: usize) -> Option<GitlinkNames> {
    let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (version, count) = (number(4)?, number(8)?);
    (bytes.starts_with(b"DIRC") && (2..=4).contains(&version)).then_some(())?;
    let mut at = 12;
    let mut name: Vec<u8> = Vec::new();
    let mut links = Vec::new();
    let (mut is_odd, mut splits) = (false, false);
    for _ in 0..count {
        let mode = number(at + 24)?;
        let flags = u16::from_be_bytes(bytes.get(at + 40 + object..at + 42 + object)?.try_into().ok()?);
        let extended = if flags & 0x4000 != 0 { 2 } else { 0 };
        let start = at + 42 + object + extended;
        let (kept, start) = match version {
            4 => {
                let (dropped, start) = offset(bytes, start)?;
                (name.len().checked_sub(dropped)?, start)
            }
            _ => (0, start),
        };
        let length = bytes.get(start..)?.iter().position(|byte| *byte == 0)?;
        name.truncate(kept);
        name.extend_from_slice(&bytes[start..start + length]);
        is_odd |= name.starts_with(b"/") || name.split(|byte| *byte == b'/').any(|part| part == b"..");
        splits |= mode == SPARSE_DIRECTORY || name.split(|byte| *byte == b'/').any(falls_apart);
        // Older entries are padded with at least one zero to a multiple of eight.
        let end = start + length;
        at = if version == 4 { end + 1 } else { at + (end - at) / 8 * 8 + 8 };
        let known = matches!(mode >> 12, 0o4 | 0o10 | 0o12 | 0o16);
        known.then_some(())?;
        if mode == GITLINK {
            match String::from_utf8(name.clone()) {
                Ok(name) => links.push(PathBuf::from(name)),
                Err(_) => is_odd = true,
            }
        }
    }
    Some(GitlinkNames { links, is_odd, falls_apart: splits })
}

/// A variable-length number and the next position.
fn offset(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut value = 0_usize;
    loop {
        let byte = *bytes.get(at)?;
        at += 1;
        value = value.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
        if byte & 0x80 == 0 {
            return Some((value, at));
        }
        value = value.checked_add(1)?;
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn gitlinks_reads_all_index_versions() {
        for (form, version) in [("sha1", "2"), ("sha1", "3"), ("sha1", "4"), ("sha256", "2"), ("sha256", "4")]
        {
            let dir = tempfile::tempdir().unwrap();
            let script = format!(
                "git init -q --object-format={form} . && for i in $(seq 40); do echo $i > file-$i; done
                mkdir deep && touch deep/{{a,bcd,efghijk}} && git add . && git add -N deep/bcd
                h=$(git hash-object -t tree /dev/null)
                git update-index --add --cacheinfo 160000,$h,deep/inner --cacheinfo 160000,$h,last
                git update-index --index-version {version}"
            );
            let run = Command::new("bash").args(["-c", &script]).current_dir(dir.path()).output();
            let Ok(output) = run else { return };
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let found = gitlinks(&dir.path().join(".git"));
            assert_eq!(
                found,
                Some(vec![PathBuf::from("deep/inner"), PathBuf::from("last")]),
                "{form} {version}"
            );
        }
    }

    #[test]
    fn gitlinks_rejects_names_outside_the_repository() {
        let dir = tempfile::tempdir().unwrap();
        let script = "git init -q . && h=$(git hash-object -t tree /dev/null)
            git update-index --add --cacheinfo 160000,$h,aa/last";
        let Ok(output) = Command::new("bash").args(["-c", script]).current_dir(dir.path()).output() else {
            return;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let index = dir.path().join(".git/index");
        let bytes = fs::read(&index).unwrap();
        let at = bytes.windows(7).position(|it| it == b"aa/last").unwrap();
        let rows = [
            (b"aa/last", Some(vec![PathBuf::from("aa/last")])),
            (b"../last", None),
            (b"/etc/xy", None),
            (b"aa/l\xffst", None),
        ];
        for (name, want) in rows {
            let mut bytes = bytes.clone();
            bytes[at..at + 7].copy_from_slice(name);
            fs::write(&index, bytes).unwrap();
            assert_eq!(gitlinks(&dir.path().join(".git")), want, "{name:?}");
        }
    }

    #[test]
    fn gitlinks_rejects_invalid_index() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(gitlinks(dir.path()), Some(Vec::new()));
        for bytes in [&b"DIRC"[..], b"DIRC\0\0\0\x02\0\0\0\x01", b"DIRC\0\0\0\x09\0\0\0\0", b"x"] {
            fs::write(dir.path().join("index"), bytes).unwrap();
            assert_eq!(gitlinks(dir.path()), None, "{bytes:?}");
        }
    }
}
