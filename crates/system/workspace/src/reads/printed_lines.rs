use std::ops::Range;

/// Finds the lines of `text` in printed output of `cat`, `sed -n`, `grep -n` and similar. Only exact
/// matches count, so truncated or unrelated output adds nothing.
pub(crate) fn printed_lines(text: &str, output: &str) -> Vec<Range<u64>> {
    let lines: Vec<&str> = text.lines().collect();
    let printed: Vec<&str> = output.lines().collect();
    if lines.is_empty() || printed.is_empty() {
        return Vec::new();
    }
    // `cat a b` prints several files.
    if !occurrences(&printed, &lines).is_empty() {
        let all = 1..lines.len() as u64 + 1;
        return Vec::from([all]);
    }
    let blocks = occurrences(&lines, &printed);
    if !blocks.is_empty() {
        let len = printed.len();
        return blocks.into_iter().map(|at| at as u64 + 1..(at + len) as u64 + 1).collect();
    }
    let numbered: Vec<u64> = printed.iter().filter_map(|line| numbered(line, &lines)).collect();
    let numbers = if numbered.is_empty() { in_order(&lines, &printed) } else { numbered };
    joined(numbers)
}

/// Indices at which `wanted` occurs in `lines`.
fn occurrences(lines: &[&str], wanted: &[&str]) -> Vec<usize> {
    let Some(last) = lines.len().checked_sub(wanted.len()) else { return Vec::new() };
    (0..=last).filter(|at| lines[*at..at + wanted.len()] == *wanted).collect()
}

/// The line number printed with a line: `12:text`, `12-text`, `12 text` or, with a tab, as in `cat -n`
/// and `nl`.
fn numbered(printed: &str, lines: &[&str]) -> Option<u64> {
    let printed = printed.trim_start_matches(' ');
    let digits = printed.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = printed[..digits].parse().ok()?;
    let line = lines.get(usize::try_from(number).ok()?.checked_sub(1)?)?;
    let rest = &printed[digits..];
    let matches = |separator: &str| rest.strip_prefix(separator).is_some_and(|it| it == *line);
    let is_shown = [":", "-", "\t", "  ", " "].into_iter().any(matches);
    is_shown.then_some(number)
}

/// Lines printed without numbers, each searched after the previous one.
fn in_order(lines: &[&str], printed: &[&str]) -> Vec<u64> {
    let mut from = 0;
    let mut found = Vec::new();
    for wanted in printed {
        if let Some(at) = lines[from..].iter().position(|line| line == wanted) {
            from += at + 1;
            found.push(from as u64);
        }
    }
    found
}

fn joined(numbers: Vec<u64>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some(range) if range.end == number => range.end += 1,
            _ => ranges.push(number..number + 1),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_lines_finds_only_lines_in_the_output() {
        let text = "one\n  two\n\nthree\nfour\n  two\nlast\n";
        for (output, want) in [
            (text, &[(1, 8)][..]),
            ("other\none\n  two\n\nthree\nfour\n  two\nlast\nmore\n", &[(1, 8)]),
            // `head`, `tail`, `sed -n`.
            ("one\n  two\n", &[(1, 3)]),
            ("four\n  two\nlast\n", &[(5, 8)]),
            // The same line twice: both were shown.
            ("  two\n", &[(2, 3), (6, 7)]),
            // `cat -n`, `nl`, `grep -n` with context.
            ("     1\tone\n     2\t  two\n     3\t\n", &[(1, 4)]),
            ("2:  two\n3-\n--\n6:  two\n", &[(2, 4), (6, 7)]),
            // `grep` without numbers.
            ("one\nthree\nlast\n", &[(1, 2), (4, 5), (7, 8)]),
            // Wrong numbers, missing text, empty output.
            ("9:one\n2:one\n", &[]),
            ("somewhere else\n", &[]),
            ("", &[]),
            // Truncated in the middle.
            ("one\n  two\n[… 900 characters truncated …]\nlast\n", &[(1, 3), (7, 8)]),
        ] {
            let got: Vec<(u64, u64)> =
                printed_lines(text, output).into_iter().map(|it| (it.start, it.end)).collect();
            assert_eq!(got, want, "{output:?}");
        }
        assert_eq!(printed_lines("", "x\n"), []);
    }
}
