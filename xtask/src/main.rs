//! Set-up, tests, benchmarks and repository rules, in one place and without
//! anything but Rust: `cargo xtask test | bench | tidy | docs`.
//!
//! **Does not know** how Haft works; it runs commands and reads files.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool for developers")]

mod bench;
mod bench_mcp;
mod bench_sdk;
mod bench_shell;
mod dist;
mod fuzz;
mod run;
mod setup;
mod site;
mod tidy;
mod turns;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask test    set up what the tests need, then format check, lints, repository rules and every test
cargo xtask bench   benchmarks, reported as ratios against something run beside it
cargo xtask fuzz commands [LINES] [SEED]
                    make command lines, run what is judged free in a scratch tree, and look what it did
cargo xtask tidy    repository rules only: layers, files, names, documents, dependencies
cargo xtask dist [--binary FILE] [--out DIR] [--releases URL] [--static] [--strip]
                    make the packages people install: npm, wheel, deb, archive, and what downloads it
cargo xtask docs    write the generated pages under docs/ again
cargo xtask site    build the documents as a book (needs mdbook)";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.first().map(String::as_str) {
        Some("test") => test(),
        Some("bench") => bench::run(&args[1..]),
        Some("fuzz") => fuzz::run(&args[1..]),
        Some("tidy") => tidy::check(),
        Some("site") => site::build(),
        Some("dist") => dist::run(&args[1..]),
        Some("docs") => run::cargo(&["run", "--quiet", "--", "dev", "docs", "docs"]),
        _ => Err(HELP.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Cheap checks first: what fails in a second should not wait for a build.
fn test() -> Result<(), String> {
    setup::test_tools()?;
    run::cargo(&["fmt", "--all", "--check"])?;
    tidy::check()?;
    run::cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    run::cargo(&["nextest", "run", "--workspace", "--no-fail-fast"])?;
    run::cargo(&["test", "--workspace", "--doc", "--quiet"])
}
