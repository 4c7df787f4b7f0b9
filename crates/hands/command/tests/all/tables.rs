//! Tables of commands, judged without any rule in default mode.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::judging;

use std::path::Path;

use judging::{Decision, Judge, Rules};

fn lines(table: &str) -> impl Iterator<Item = String> {
    table
        .lines()
        .filter(|line| !line.starts_with("# ") && !line.is_empty())
        .map(|line| line.replace('⏎', "\n").replace('␉', "\t").replace('␇', "\u{7}"))
}

fn decide(command: &str) -> Decision {
    let rules = Rules::default();
    let judge =
        Judge { rules: &rules, mode: "default", cwd: Path::new("/ws/proj"), home: Path::new("/home/u") };
    judge.decide(command)
}

#[test]
fn dangerous_commands_never_run_unasked() {
    let all =
        lines(include_str!("tables/dangerous.txt")).chain(lines(include_str!("tables/dangerous_more.txt")));
    let allowed: Vec<String> = all.filter(|line| decide(line) == Decision::Allow).collect();
    assert!(allowed.is_empty(), "{} allowed:\n{}", allowed.len(), allowed.join("\n"));
}

#[test]
fn harmless_commands_run_unasked() {
    let all =
        lines(include_str!("tables/harmless.txt")).chain(lines(include_str!("tables/harmless_more.txt")));
    let asked: Vec<String> = all.filter(|line| decide(line) != Decision::Allow).collect();
    assert!(asked.is_empty(), "{} asked:\n{}", asked.len(), asked.join("\n"));
}

/// Rules about some commands and lines made of them: each part decides.
#[test]
fn compound_lines_are_judged_by_their_parts() {
    let list = |rules: &[&str]| rules.iter().map(|it| (*it).to_owned()).collect();
    let rules = Rules {
        allow: list(&["Bash(git *)", "Bash(grep *)", "Bash(head *)", "Bash(jq *)"]),
        ask: Vec::new(),
        deny: list(&["Bash(rm *)"]),
    };
    let judge =
        Judge { rules: &rules, mode: "default", cwd: Path::new("/ws/proj"), home: Path::new("/home/u") };
    let mut want = None;
    let mut wrong = Vec::new();
    let mut rows = 0;
    for line in include_str!("tables/compound.txt").lines().filter(|line| !line.is_empty()) {
        match line {
            "# allow" => want = Some(Decision::Allow),
            "# deny" => want = Some(Decision::Deny),
            "# never allow" => want = None,
            _ => {
                rows += 1;
                let got = judge.decide(&line.replace('⏎', "\n"));
                if want.map_or(got == Decision::Allow, |want| got != want) {
                    wrong.push(format!("{line}: {got:?}, not {want:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(120 <= rows, "{rows}");
}
