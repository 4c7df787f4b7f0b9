/// Where HEAD is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HeadState {
    /// At a branch, which may have no commit yet.
    Branch(String),
    /// At a commit.
    Commit,
}

/// What the file `HEAD` says; nothing where git keeps that elsewhere or the name
/// is no text.
pub fn parse_head(bytes: &[u8]) -> Option<HeadState> {
    let text = std::str::from_utf8(bytes).ok()?.trim_end_matches('\n');
    if matches!(text.len(), 40 | 64) && text.bytes().all(|it| it.is_ascii_hexdigit()) {
        return Some(HeadState::Commit);
    }
    let name = text.strip_prefix("ref: refs/heads/")?;
    // No branch has such a name: the real one is in a table.
    let is_name = !name.is_empty() && !name.starts_with('.') && !name.contains(char::is_whitespace);
    is_name.then(|| HeadState::Branch(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_or_a_commit_or_unknown() {
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
