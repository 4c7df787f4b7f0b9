/// What HEAD points at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HeadState {
    /// A branch, which may have no commit yet.
    Branch(String),
    /// A commit (detached HEAD).
    Commit,
}

/// Parses the file `HEAD`. `None` if git stores HEAD elsewhere (reftable) or the name is not UTF-8.
pub fn parse_head(bytes: &[u8]) -> Option<HeadState> {
    let text = std::str::from_utf8(bytes).ok()?.trim_end_matches('\n');
    if matches!(text.len(), 40 | 64) && text.bytes().all(|it| it.is_ascii_hexdigit()) {
        return Some(HeadState::Commit);
    }
    let name = text.strip_prefix("ref: refs/heads/")?;
    // The reftable format writes an invalid branch name as a placeholder.
    let is_name = !name.is_empty() && !name.starts_with('.') && !name.contains(char::is_whitespace);
    is_name.then(|| HeadState::Branch(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_head_returns_branch_commit_or_none() {
        let branch = |name: &str| Some(HeadState::Branch(name.to_owned()));
        for (text, want) in [
            (&b"ref: refs/heads/main\n"[..], branch("main")),
            (b"ref: refs/heads/a/b-c", branch("a/b-c")),
            ("ref: refs/heads/größe\n".as_bytes(), branch("größe")),
            (b"0123456789abcdef0123456789abcdef01234567\n", Some(HeadState::Commit)),
            (b"ref: refs/heads/.invalid\n", None),
            (b"ref: refs/heads/\n", None),
            (b"ref: refs/heads/a b\n", None),
            (b"ref: refs/remotes/origin/main\n", None),
            (b"ref: refs/heads/\xff\n", None),
            (b"0123456789abcdef\n", None),
            (b"", None),
        ] {
            assert_eq!(parse_head(text), want, "{}", String::from_utf8_lossy(text));
        }
    }
}
