use serde::Serialize;

use crate::path_text;

/// One file of a diff, counted.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiffFile {
    /// The path; the new one where it was renamed.
    pub path: String,
    /// Where it was before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Lines that came; nothing for what is no text.
    pub added: Option<u64>,
    /// Lines that went.
    pub removed: Option<u64>,
}

/// What `--numstat -z` printed.
pub fn parse_numstat(printed: &[u8]) -> Vec<DiffFile> {
    let mut fields = printed.split(|it| *it == 0);
    let mut files = Vec::new();
    let number = |digits: &[u8]| std::str::from_utf8(digits).ok().and_then(|it| it.parse().ok());
    while let Some(field) = fields.next() {
        let mut parts = field.trim_ascii_start().splitn(3, |it| *it == b'\t');
        let (Some(added), Some(removed), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let (from, path) = if path.is_empty() {
            // A rename: the old and the new name follow.
            match (fields.next(), fields.next()) {
                (Some(from), Some(to)) => (Some(path_text(from)), path_text(to)),
                _ => break,
            }
        } else {
            (None, path_text(path))
        };
        files.push(DiffFile { path, from, added: number(added), removed: number(removed) });
    }
    files
}

/// Whether a file is written by a program and read by nobody.
pub fn is_machine_made(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    const LOCKS: &[&str] = &[
        "package-lock.json",
        "npm-shrinkwrap.json",
        "yarn.lock",
        "pnpm-lock.yaml",
        "Cargo.lock",
        "poetry.lock",
        "uv.lock",
        "Pipfile.lock",
        "composer.lock",
        "Gemfile.lock",
        "go.sum",
        "flake.lock",
        "bun.lock",
        "mix.lock",
    ];
    LOCKS.contains(&name) || name.ends_with(".min.js") || name.ends_with(".min.css") || name.ends_with(".map")
}

/// A patch in pieces, one for each file.
pub fn split_patch(patch: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = patch.match_indices("\ndiff --").map(|it| it.0 + 1).collect();
    if patch.starts_with("diff --") {
        starts.insert(0, 0);
    }
    let ends = starts.iter().skip(1).copied().chain([patch.len()]);
    starts.iter().zip(ends).map(|(start, end)| &patch[*start..end]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_pieces() {
        let files = parse_numstat(b"1\t2\ta b\0-\t-\tbin\x003\t0\t\0old\0new\n\0");
        let seen: Vec<_> = files.iter().map(|it| (it.path.as_str(), it.from.as_deref(), it.added)).collect();
        assert_eq!(seen, [("a b", None, Some(1)), ("bin", None, None), ("new\n", Some("old"), Some(3))]);
        let patch = "diff --git a/x b/x\n+1\ndiff --git a/y b/y\n+2\n";
        assert_eq!(split_patch(patch), ["diff --git a/x b/x\n+1\n", "diff --git a/y b/y\n+2\n"]);
        assert_eq!(split_patch("nothing"), Vec::<&str>::new());
        assert!(is_machine_made("web/package-lock.json") && !is_machine_made("lock.rs"));
    }
}
