//! "Did you mean" suggestions: the known names closest to a misspelt one.

/// Returns up to `most` candidates similar to `word`, closest first, ties by name.
///
/// Own code, because the ranking (ignoring case and separators, a shared prefix or substring before a
/// small edit distance) is what makes suggestions for tool and parameter names useful.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    let wanted = fold(word);
    let mut ranked: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|candidate| distance(&wanted, &fold(candidate)).map(|distance| (distance, candidate)))
        .collect();
    ranked.sort_unstable();
    ranked.dedup();
    ranked.into_iter().take(most).map(|(_, candidate)| candidate).collect()
}

fn fold(text: &str) -> Vec<char> {
    text.chars().filter(|it| it.is_alphanumeric()).flat_map(char::to_lowercase).take(64).collect()
}

/// Dissimilarity of two names; `None` if they are unrelated.
fn distance(wanted: &[char], candidate: &[char]) -> Option<usize> {
    if wanted.is_empty() || candidate.is_empty() {
        return None;
    }
    let edits = edit_distance(wanted, candidate);
    let longest = wanted.len().max(candidate.len());
    if edits * 5 <= longest * 2 {
        return Some(edits * 10);
    }
    let shorter = wanted.len().min(candidate.len());
    let part = 3 <= shorter && (contains(candidate, wanted) || contains(wanted, candidate));
    part.then_some(longest * 10 - shorter)
}

fn contains(text: &[char], part: &[char]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Edit distance with insertions, deletions, substitutions and transpositions.
fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replace = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(last[j] + 1).min(row[j - 1] + 1);
            if 1 < i && 1 < j && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before_last[j - 2] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_intended_name() {
        let names = ["Read", "Write", "Edit", "MultiEdit", "NotebookEdit", "Bash", "TaskOutput", "file_path"];
        for (word, want) in [
            ("Raed", vec!["Read"]),
            ("read", vec!["Read"]),
            ("bahs", vec!["Bash"]),
            ("task_output", vec!["TaskOutput"]),
            ("path", vec!["file_path"]),
            ("filepath", vec!["file_path"]),
            ("edit", vec!["Edit", "MultiEdit", "NotebookEdit"]),
            ("zzz", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(nearest(word, names, 3), want, "{word}");
        }
    }
}
