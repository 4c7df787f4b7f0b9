use std::time::Duration;

/// Formats `1 file`, `2 files`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { many })
}

/// Formats `1,234`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if 0 < index && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats `20 s`, `0.5 s`.
pub(crate) fn seconds(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{} s", time.as_secs()),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

/// Returns a note naming the found files that have unsaved changes in an editor, because searches read
/// the files on disk.
pub(crate) fn unsaved_note(files: &haft_workspace::SessionFiles, found: &[String]) -> Option<String> {
    let unsaved = files.workspace().unsaved_files();
    let is_found = |path: &&std::path::PathBuf| found.iter().any(|name| path.ends_with(name));
    let names: Vec<String> = unsaved.iter().filter(is_found).map(|it| it.display().to_string()).collect();
    (!names.is_empty())
        .then(|| format!("[Searched as on disk; the user's editor has unsaved text in {}]", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_for_display() {
        for (number, want) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), want);
        }
        assert_eq!(counted(1, "file", "files"), "1 file");
        assert_eq!(counted(2000, "file", "files"), "2,000 files");
        assert_eq!(seconds(Duration::from_secs(20)), "20 s");
        assert_eq!(seconds(Duration::from_millis(500)), "0.5 s");
    }
}
