//! `cargo xtask bench table`: runs the benchmarks and prints one table.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use crate::command;

/// Areas in the order of the table, and their benchmarks.
const AREAS: &[(&str, &str)] = &[
    ("start", "start"),
    ("turns: gaps and memory", "turns"),
    ("calls", "overhead"),
    ("files and search", "files"),
    ("commands", "shell"),
    ("MCP", "mcp"),
    ("terminal", "terminal"),
    ("Agent SDKs", "sdk"),
    ("editors", "editors"),
    ("session page", "view"),
    ("agents", "agents"),
    ("fleet", "fleet"),
    ("web", "web"),
];

/// An output line of a benchmark.
#[derive(Debug, Eq, PartialEq)]
struct BenchRow {
    /// Its heading, if any.
    under: String,
    what: String,
    goal: String,
}

/// Runs all or the named areas in sequence and prints the table. A failed area gets a row that says so,
/// and the command fails at the end.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let wanted = |name: &str| words.is_empty() || words.iter().any(|it| it == name);
    let mut table = String::from("| area | measured | goal |\n|---|---|---|\n");
    let mut failed = Vec::new();
    for (area, name) in AREAS.iter().filter(|(_, name)| wanted(name)) {
        println!("== {area}");
        match printed(name) {
            Ok(lines) => {
                for row in rows(&lines) {
                    let what =
                        if row.under.is_empty() { row.what } else { format!("{}: {}", row.under, row.what) };
                    let _ = writeln!(table, "| {area} | {} | {} |", cell(&what), cell(&row.goal));
                }
            }
            Err(problem) => {
                let _ = writeln!(table, "| {area} | failed: {} | |", cell(&problem));
                failed.push(*name);
            }
        }
    }
    let dir = command::target_dir()?.join("bench");
    fs::create_dir_all(&dir).map_err(|err| err.to_string())?;
    let path = dir.join("table.md");
    fs::write(&path, &table).map_err(|err| err.to_string())?;
    println!("\n{table}\nthe table is in {}", path.display());
    if failed.is_empty() { Ok(()) } else { Err(format!("these did not work: {}", failed.join(", "))) }
}

/// Runs a benchmark, showing and returning its output.
fn printed(name: &str) -> Result<Vec<String>, String> {
    let own = std::env::current_exe().map_err(|err| err.to_string())?;
    let mut child = Command::new(own)
        .args(["bench", name])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|err| err.to_string())?;
    let out = child.stdout.take().ok_or("no output")?;
    let mut lines = Vec::new();
    for line in BufReader::new(out).lines() {
        let line = line.map_err(|err| err.to_string())?;
        println!("{line}");
        lines.push(line);
    }
    let status = child.wait().map_err(|err| err.to_string())?;
    if status.success() { Ok(lines) } else { Err(format!("cargo xtask bench {name} ended with {status}")) }
}

/// Extracts the measurements. A line followed by lines with more indentation is their heading; commands
/// and empty lines are skipped.
fn rows(lines: &[String]) -> Vec<BenchRow> {
    let said: Vec<&String> =
        lines.iter().filter(|it| !it.trim().is_empty() && !it.starts_with('$')).collect();
    let is_inner = |line: &str| line.starts_with(' ');
    let mut under = String::new();
    let mut rows = Vec::new();
    for (at, line) in said.iter().enumerate() {
        let opens = said.get(at + 1).is_some_and(|next| is_inner(next));
        if !is_inner(line) {
            under.clear();
        }
        let (what, goal) = without_goal(line);
        if opens && !is_inner(line) {
            under = what.trim_end_matches(':').to_owned();
            // A heading with a value is a measurement too.
            if goal.is_empty() {
                continue;
            }
            rows.push(BenchRow { under: String::new(), what, goal });
            continue;
        }
        rows.push(BenchRow { under: under.clone(), what, goal });
    }
    rows
}

/// Splits a line into its text and its goals.
fn without_goal(line: &str) -> (String, String) {
    let mut goals = Vec::new();
    let mut rest = line.to_owned();
    for mark in ["(goal ", "(wanted: "] {
        while let Some(at) = rest.find(mark) {
            let Some(end) = rest[at..].find(')') else { break };
            goals.push(rest[at + mark.len()..at + end].to_owned());
            rest.replace_range(at..=at + end, "");
        }
    }
    if let Some(at) = rest.find(" goal ") {
        let end = rest[at..].find(';').map_or(rest.len(), |end| at + end);
        goals.insert(0, rest[at + " goal ".len()..end].trim().to_owned());
        rest.replace_range(at..end, "");
    }
    let rest = rest.split_whitespace().collect::<Vec<_>>().join(" ").replace(" ;", ";");
    (rest, goals.join("; "))
}

/// Escapes a text for a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::{BenchRow, rows};

    fn check(printed: &str, want: &[(&str, &str, &str)]) {
        let lines: Vec<String> = printed.lines().map(str::to_owned).collect();
        let want: Vec<BenchRow> = want
            .iter()
            .map(|(under, what, goal)| BenchRow {
                under: (*under).to_owned(),
                what: (*what).to_owned(),
                goal: (*goal).to_owned(),
            })
            .collect();
        assert_eq!(rows(&lines), want, "{printed}");
    }

    #[test]
    fn benchmark_lines_become_table_rows() {
        check("", &[]);
        check("$ cargo bench\n\n", &[]);
        check("one stat: 3 ns, ratio 2.0 (goal 10)", &[("", "one stat: 3 ns, ratio 2.0", "10")]);
        check(
            "Grep over 9 files, against rg\n    1.20x (goal 1.5)  3 ms / 2 ms  TODO\nfork 3 of 4 (wanted: all)",
            &[("Grep over 9 files, against rg", "1.20x 3 ms / 2 ms TODO", "1.5"), ("", "fork 3 of 4", "all")],
        );
        check(
            "gaps\n  20 edits  1.2 ms  2.0 ms  goal 1 ms; peak 30 MB (goal 18)",
            &[("gaps", "20 edits 1.2 ms 2.0 ms; peak 30 MB", "1 ms; 18")],
        );
        check(
            "2000 turns: 9 s, peak 78 MB (goal 150)\n  first quarter 1 ms",
            &[
                ("", "2000 turns: 9 s, peak 78 MB", "150"),
                ("2000 turns: 9 s, peak 78 MB", "first quarter 1 ms", ""),
            ],
        );
    }
}
