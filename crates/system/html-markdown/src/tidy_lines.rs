/// Collapses blank lines outside code and removes empty headings. Works in place, without a second copy
/// of the text.
pub(super) fn tidy(markdown: String) -> String {
    let begin = markdown.len() - markdown.trim_start_matches('\n').len();
    let end = markdown.trim_end_matches('\n').len();
    let mut bytes = markdown.into_bytes();
    let (mut kept, mut at) = (0, begin);
    let mut lines = LineJudge::default();
    while at < end {
        let newline = memchr::memchr(b'\n', &bytes[at..end]);
        let next = newline.map_or(end, |length| at + length) + 1;
        let line = &bytes[at..next - 1];
        let line = newline.and_then(|_| line.strip_suffix(b"\r")).unwrap_or(line);
        // Only bytes before this line have been overwritten.
        if let Some(length) = lines.kept_length(std::str::from_utf8(line).unwrap_or_default()) {
            bytes.copy_within(at..at + length, kept);
            kept += length;
            match bytes.get_mut(kept) {
                Some(after) => *after = b'\n',
                None => bytes.push(b'\n'),
            }
            kept += 1;
        }
        at = next;
    }
    bytes.truncate(kept);
    String::from_utf8(bytes).unwrap_or_else(|err| String::from_utf8_lossy(err.as_bytes()).into_owned())
}

#[derive(Default)]
struct LineJudge {
    /// Number of consecutive blank lines so far.
    blank: usize,
    in_code: bool,
}

impl LineJudge {
    /// Returns how many bytes of the line are kept, from its beginning; `None` to drop the line.
    fn kept_length(&mut self, line: &str) -> Option<usize> {
        if line.trim_start().starts_with("```") {
            self.in_code = !self.in_code;
        }
        let line = if self.in_code { line } else { line.trim_end_matches(' ') };
        self.blank = if line.trim().is_empty() { self.blank + 1 } else { 0 };
        let is_empty_heading =
            !self.in_code && !line.is_empty() && line.trim_end().chars().all(|it| it == '#');
        ((self.in_code || self.blank < 2) && !is_empty_heading).then_some(line.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Like [`tidy`], but builds a new string; the reference for the in-place version.
    fn written_anew(markdown: &str) -> String {
        let mut judge = LineJudge::default();
        let kept = |line: &str| judge.kept_length(line).map(|length| format!("{}\n", &line[..length]));
        markdown.trim_matches('\n').lines().filter_map(kept).collect()
    }

    #[test]
    fn tidy_removes_blank_lines_and_empty_headings() {
        for (text, want) in [
            ("", ""),
            ("\n\n", ""),
            ("a", "a\n"),
            ("\n\na  \n\n\n\nb\n", "a\n\nb\n"),
            ("# \n##\nx", "x\n"),
            ("```\na  \n\n\n#\n```\n\n\n#", "```\na  \n\n\n#\n```\n\n"),
            ("a\r\nb\r", "a\nb\r\n"),
            ("größe   \n\u{a0}\n\u{a0}\nx", "größe\nx\n"),
        ] {
            assert_eq!(tidy(text.to_owned()), want, "{text:?}");
            assert_eq!(written_anew(text), want, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn tidy_in_place_equals_rebuilding(text in "([ \\n\\r\\t#`ax\u{e9}\u{a0}]|```|\n\n){0,60}") {
            prop_assert_eq!(tidy(text.clone()), written_anew(&text));
        }
    }
}
