//! The environment variables that Haft reads, as one list, and the page made of it.

/// Sections of rows: names, default, what overrides it, meaning. The first lines of the
/// file describe its form.
const LIST: &str = include_str!("environment.txt");

/// Every variable in the list, in the order of the page.
pub fn environment_names() -> impl Iterator<Item = &'static str> {
    LIST.lines().filter_map(row).flat_map(|row| row[0].split(", "))
}

/// The page about environment variables, as Markdown.
pub fn environment_page() -> String {
    let mut page = String::from(
        "# Environment variables\n\nEvery variable that Haft reads, its default, and what overrides it. Written by \
         `cargo xtask docs`; do not edit.\n\n```sh\nHAFT_MODEL=opus haft -p \"explain this repository\"\n```\n\nWhere a \
         row has two names for one thing, the first one that is set counts. \"settings `env`\" means that the variable can also \
         stand in `env` of a [settings file](settings.md), which wins over the environment of the process; all other \
         variables are read from the environment only. Flags win over both. A switch is on when it is set to \
         anything but `0` or `false`.\n",
    );
    let mut is_table = false;
    for line in LIST.lines() {
        if let Some(title) = line.strip_prefix("== ") {
            page.push_str(&format!("\n## {title}\n"));
            is_table = false;
        } else if let Some(text) = line.strip_prefix("> ") {
            page.push_str(&format!("\n{text}\n"));
        } else if let Some([names, default, wins, meaning]) = row(line) {
            if !is_table {
                page.push_str("\n| variable | default | overridden by | meaning |\n|---|---|---|---|\n");
                is_table = true;
            }
            let names: Vec<String> = names.split(", ").map(|name| format!("`{name}`")).collect();
            page.push_str(&format!("| {} | {default} | {wins} | {meaning} |\n", names.join(", ")));
        }
    }
    page
}

/// The cells of a row; `None` for every other line.
fn row(line: &'static str) -> Option<[&'static str; 4]> {
    let is_row = line.starts_with(|first: char| first.is_ascii_uppercase());
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    cells.try_into().ok().filter(|_| is_row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_list_is_understood_and_names_are_unique() {
        let is_other =
            |line: &str| line.is_empty() || ["#", "== ", "> "].iter().any(|it| line.starts_with(it));
        for line in LIST.lines().filter(|line| !is_other(line)) {
            let cells = row(line).unwrap_or_else(|| panic!("not a row of four cells: {line}"));
            assert!(!cells[0].is_empty() && !cells[3].is_empty(), "{line}");
        }
        let mut names: Vec<&str> = environment_names().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "a name is listed twice");
        for name in names {
            let is_name = name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
            assert!(is_name, "{name}");
        }
    }

    #[test]
    fn page_has_a_row_for_every_name() {
        let page = environment_page();
        for name in environment_names() {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
        assert!(page.contains("| `HAFT_FLEET_TENANT` | `default` |  | Tenant whose jobs are meant. |"));
    }
}
