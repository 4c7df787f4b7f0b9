use serde::Serialize;

/// `--format` argument that [`parse_log`] reads: fields end with a unit separator, commits with a record
/// separator, which are assumed not to occur in messages.
pub const LOG_FORMAT: &str = "%H%x1f%h%x1f%an%x1f%aI%x1f%D%x1f%s%x1f%b%x1f%x1e";

#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitInfo {
    /// Full commit id.
    pub sha: String,
    /// Abbreviated commit id.
    pub short: String,
    /// Author name.
    pub author: String,
    pub date: String,
    /// Branches and tags that point at it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub refs: String,
    /// First line of the message.
    pub subject: String,
    /// Rest of the message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// Patch of the commit, if the log was printed with one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub patch: String,
}

/// Parses a log printed with [`LOG_FORMAT`].
pub fn parse_log(printed: &[u8]) -> Vec<CommitInfo> {
    let text = String::from_utf8_lossy(printed);
    let mut commits: Vec<CommitInfo> = Vec::new();
    // The patch of a commit precedes the fields of the next one.
    for piece in text.split('\x1e') {
        // A commit id has 40 or 64 digits.
        let digits = |it: &str| it.len() - it.trim_end_matches(|it: char| it.is_ascii_hexdigit()).len();
        let start = piece.find('\x1f').and_then(|at| {
            let most = digits(&piece[..at]);
            [64, 40].into_iter().find(|it| *it <= most).map(|it| at - it)
        });
        let Some(start) = start else {
            if let Some(last) = commits.last_mut() {
                last.patch = piece.trim_matches(['\n', '\0']).to_owned();
            }
            continue;
        };
        let (before, fields) = piece.split_at(start);
        if let Some(last) = commits.last_mut() {
            last.patch = before.trim_matches(['\n', '\0']).to_owned();
        }
        let fields: Vec<&str> = fields.split('\x1f').collect();
        let field =
            |at: usize| fields.get(at).map(|it| (*it).trim_end_matches('\n').to_owned()).unwrap_or_default();
        commits.push(CommitInfo {
            sha: field(0),
            short: field(1),
            author: field(2),
            date: field(3),
            refs: field(4),
            subject: field(5),
            body: field(6),
            patch: String::new(),
        });
    }
    commits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_log_reads_commits_with_and_without_patches() {
        let sha = "0123456789abcdef0123456789abcdef01234567";
        let one = format!(
            "{sha}\x1f0123456\x1fA B\x1f2026-01-02\x1fHEAD -> main\x1fSubject\x1fBody\nmore\n\x1f\x1e"
        );
        let plain = parse_log(format!("{one}\n{one}").as_bytes());
        assert_eq!(plain.len(), 2);
        assert_eq!((plain[1].subject.as_str(), plain[1].body.as_str()), ("Subject", "Body\nmore"));
        let patched = parse_log(format!("{one}\ndiff --git a b\n+x\n{one}\ndiff --git c d\n").as_bytes());
        assert_eq!(
            (patched[0].patch.as_str(), patched[1].patch.as_str()),
            ("diff --git a b\n+x", "diff --git c d")
        );
    }
}
