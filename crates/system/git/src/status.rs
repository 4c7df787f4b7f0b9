use serde::Serialize;

use crate::path_text;

/// Parsed `git status`.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GitStatus {
    /// Current branch; `None` if HEAD is detached.
    pub branch: Option<String>,
    /// Commit id of HEAD; `None` before the first commit.
    pub head: Option<String>,
    /// Upstream branch.
    pub upstream: Option<String>,
    /// Commits ahead of upstream.
    pub ahead: u64,
    /// Commits behind upstream.
    pub behind: u64,
    /// Number of stash entries.
    pub stashed: u64,
    /// Changed paths.
    pub entries: Vec<StatusEntry>,
}

/// A changed path.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusEntry {
    /// Two status letters as in `--short`: index, then working tree. `??` is untracked, `U` a conflict.
    pub code: String,
    /// Path relative to the repository root.
    pub path: String,
    /// Old path of a renamed file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Which stages of a conflict exist: base, ours, theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<[bool; 3]>,
}

impl StatusEntry {
    pub fn is_conflict(&self) -> bool {
        self.stages.is_some()
    }

    /// Whether it has staged changes.
    pub fn is_staged(&self) -> bool {
        !matches!(self.code.as_bytes().first(), None | Some(b'.' | b'?' | b'!')) && !self.is_conflict()
    }

    /// Describes the kind of conflict.
    pub fn conflict(&self) -> Option<&'static str> {
        Some(match self.stages? {
            [true, true, true] => "both sides changed it",
            [false, true, true] => "both sides added it",
            [true, false, true] => "we deleted it, they changed it",
            [true, true, false] => "we changed it, they deleted it",
            [true, false, false] => "both sides deleted it",
            [false, true, false] => "we added it",
            [false, false, true] => "they added it",
            [false, false, false] => "nothing is left of it",
        })
    }
}

/// Parses `git status --porcelain=v2 --branch --show-stash -z`.
pub fn parse_status(printed: &[u8]) -> GitStatus {
    let mut fields = printed.split(|it| *it == 0);
    let mut status = GitStatus::default();
    while let Some(field) = fields.next() {
        let [kind, b' ', rest @ ..] = field else { continue };
        match kind {
            b'#' => header(&mut status, &String::from_utf8_lossy(rest)),
            b'1' => status.entries.extend(entry(rest, 7, None)),
            b'2' => {
                let from = fields.next().map(path_text);
                status.entries.extend(entry(rest, 8, from));
            }
            b'u' => status.entries.extend(conflict(rest)),
            b'?' => status.entries.push(StatusEntry {
                code: String::from("??"),
                path: path_text(rest),
                from: None,
                stages: None,
            }),
            _ => {}
        }
    }
    status
}

fn header(status: &mut GitStatus, rest: &str) {
    let Some((name, value)) = rest.split_once(' ') else { return };
    match name {
        "branch.oid" => status.head = (value != "(initial)").then(|| value.to_owned()),
        "branch.head" => status.branch = (value != "(detached)").then(|| value.to_owned()),
        "branch.upstream" => status.upstream = Some(value.to_owned()),
        "branch.ab" => {
            let number = |text: &str| text.trim_start_matches(['+', '-']).parse().unwrap_or(0);
            if let Some((ahead, behind)) = value.split_once(' ') {
                (status.ahead, status.behind) = (number(ahead), number(behind));
            }
        }
        "stash" => status.stashed = value.parse().unwrap_or(0),
        _ => {}
    }
}

/// An entry whose path follows after `fields` fields.
fn entry(rest: &[u8], fields: usize, from: Option<String>) -> Option<StatusEntry> {
    let mut parts = rest.splitn(fields + 1, |it| *it == b' ');
    let code = String::from_utf8_lossy(parts.next()?).into_owned();
    let path = path_text(parts.nth(fields - 1)?);
    Some(StatusEntry { code, path, from, stages: None })
}

/// A conflict: code, submodule state, four modes, three object ids and the path. A missing stage has
/// mode zero.
fn conflict(rest: &[u8]) -> Option<StatusEntry> {
    let parts: Vec<&[u8]> = rest.splitn(10, |it| *it == b' ').collect();
    let there = |at: usize| parts.get(at).is_some_and(|it| *it != b"000000");
    Some(StatusEntry {
        code: String::from_utf8_lossy(parts.first()?).into_owned(),
        path: path_text(parts.get(9)?),
        from: None,
        stages: Some([there(2), there(3), there(4)]),
    })
}

/// An operation in progress in a repository.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RepositoryOperation {
    Merge,
    Rebase,
    /// A cherry-pick.
    CherryPick,
    /// A revert.
    Revert,
    /// A bisection.
    Bisect,
}

/// The operation in progress. `has` must tell whether a name exists in the git directory.
pub fn state_of(has: impl Fn(&str) -> bool) -> Option<RepositoryOperation> {
    [
        ("rebase-merge", RepositoryOperation::Rebase),
        ("rebase-apply", RepositoryOperation::Rebase),
        ("MERGE_HEAD", RepositoryOperation::Merge),
        ("CHERRY_PICK_HEAD", RepositoryOperation::CherryPick),
        ("REVERT_HEAD", RepositoryOperation::Revert),
        ("BISECT_LOG", RepositoryOperation::Bisect),
    ]
    .into_iter()
    .find(|(name, _)| has(name))
    .map(|it| it.1)
}

impl RepositoryOperation {
    /// Name of the Git tool's operation that continues it.
    pub fn operation(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Rebase => "rebase",
            Self::CherryPick => "cherry_pick",
            Self::Revert => "revert",
            Self::Bisect => "bisect",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parse_status_reads_all_entry_types() {
        let printed = "# branch.oid abc\0# branch.head main\0# branch.upstream origin/main\0# branch.ab +2 -1\0# stash 3\0\
            1 M. N... 100644 100644 100644 a b staged file\0\
            1 .D N... 100644 100644 000000 a b gone\0\
            2 R. N... 100644 100644 100644 a b R100 new name\0old name\0\
            u UU N... 100644 100644 100644 100644 a b c both\0\
            u DU N... 100644 000000 100644 100644 a b c ours gone\0\
            ? new\nline\0";
        let status = parse_status(printed.as_bytes());
        assert_eq!((status.ahead, status.behind, status.stashed), (2, 1, 3));
        let seen: Vec<_> =
            status.entries.iter().map(|it| (it.code.as_str(), it.path.as_str(), it.conflict())).collect();
        assert_eq!(
            seen,
            [
                ("M.", "staged file", None),
                (".D", "gone", None),
                ("R.", "new name", None),
                ("UU", "both", Some("both sides changed it")),
                ("DU", "ours gone", Some("we deleted it, they changed it")),
                ("??", "new\nline", None),
            ]
        );
        assert_eq!(status.entries[2].from.as_deref(), Some("old name"));
        assert!(status.entries[0].is_staged() && !status.entries[1].is_staged());
    }

    proptest! {
        #[test]
        fn parse_status_never_panics_on_arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            parse_status(&bytes);
            crate::parse_numstat(&bytes);
            crate::parse_log(&bytes);
            crate::parse_blame(&bytes);
            crate::parse_facts(&bytes);
            let patch = String::from_utf8_lossy(&bytes).into_owned();
            let length: usize = crate::split_patch(&patch).iter().map(|it| it.len()).sum();
            prop_assert!(length <= patch.len());
        }
    }
}
