use std::collections::HashMap;

use serde::Serialize;

/// Consecutive lines last changed by the same commit.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlameChunk {
    pub sha: String,
    pub author: String,
    /// Author time, in seconds since 1970.
    pub time: i64,
    /// First line of the commit message.
    pub summary: String,
    /// Number of the first line, from 1.
    pub first_line: u64,
    pub lines: Vec<String>,
}

/// Parses `git blame --porcelain`; consecutive lines of one commit are merged.
pub fn parse_blame(printed: &[u8]) -> Vec<BlameChunk> {
    let text = String::from_utf8_lossy(printed);
    let mut known: HashMap<String, (String, i64, String)> = HashMap::new();
    let mut chunks: Vec<BlameChunk> = Vec::new();
    let (mut sha, mut number) = (String::new(), 0);
    for line in text.lines() {
        if let Some(content) = line.strip_prefix('\t') {
            let about = known.get(&sha).cloned().unwrap_or_default();
            match chunks.last_mut() {
                Some(last) if last.sha == sha && last.first_line + last.lines.len() as u64 == number => {
                    last.lines.push(content.to_owned());
                }
                _ => chunks.push(BlameChunk {
                    sha: sha.clone(),
                    author: about.0,
                    time: about.1,
                    summary: about.2,
                    first_line: number,
                    lines: vec![content.to_owned()],
                }),
            }
            continue;
        }
        let mut words = line.splitn(2, ' ');
        let (Some(key), rest) = (words.next(), words.next().unwrap_or_default()) else { continue };
        let entry = known.entry(sha.clone()).or_default();
        match key {
            "author" => entry.0 = rest.to_owned(),
            "author-time" => entry.1 = rest.parse().unwrap_or(0),
            "summary" => entry.2 = rest.to_owned(),
            _ if 40 <= key.len() && key.bytes().all(|it| it.is_ascii_hexdigit()) => {
                sha = key.to_owned();
                number = rest.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
            }
            _ => {}
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_blame_merges_consecutive_lines_of_a_commit() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let printed = format!(
            "{a} 1 1 2\nauthor Ann\nauthor-time 5\nsummary First\n\tone\n{a} 2 2\n\ttwo\n{b} 1 3 1\nauthor Bob\nsummary Second\n\tthree\n{a} 3 4 1\n\tfour\n"
        );
        let chunks = parse_blame(printed.as_bytes());
        let seen: Vec<_> =
            chunks.iter().map(|it| (it.author.as_str(), it.first_line, it.lines.len())).collect();
        assert_eq!(seen, [("Ann", 1, 2), ("Bob", 3, 1), ("Ann", 4, 1)]);
        assert_eq!(chunks[2].summary, "First");
    }
}
