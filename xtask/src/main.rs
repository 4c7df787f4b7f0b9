//! Setup, tests, benchmarks and repository rules, with Rust as the only requirement: `cargo xtask test |
//! bench | tidy | docs`.
//!
//! **Out of scope**: how Haft works; xtask runs commands and reads files.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool for developers")]

mod bench;
mod bench_mcp;
mod bench_sdk;
mod bench_shell;
mod calls_soak;
mod command;
mod dist;
mod features;
mod fleet_kills;
mod fleet_sim;
mod fleet_soak;
mod fuzz;
mod gate;
mod hot_functions;
mod install_tools;
mod readme_image;
mod semver;
mod session_log;
mod site;
mod tidy;
mod turns;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask test    install what the tests need, then check format, repository rules, lints, every test and the
                    documentation; ends with the number of tests that passed, failed and were skipped, and why
cargo xtask quick [REV]
                    format, repository rules, lints and fast tests of the crates that changed since REV (HEAD)
                    and of those that depend on them
cargo xtask flaky N [FILTERSET]
                    every test N times while all cores are busy; names each test that failed once
cargo xtask bench [WORD]…
                    benchmarks, reported as ratios against something run beside it
cargo xtask bench table [AREA]…
                    all of them as one table, in target/bench/table.md
cargo xtask bench peers [--rounds N] [--turns N] [--write]
                    other agents beside Haft, as a table; --write puts it into docs/concepts/benchmarks.md
cargo xtask fuzz commands [LINES] [SEED]
                    make command lines, run what is judged free in a scratch tree, and look what it did
cargo xtask requests-soak [REQUESTS] [SEED]
                    random sessions on three wires with a server of a bad day: no session ends
cargo xtask undo-soak [SEQUENCES] [SEED]
                    random sequences of commands and edits, undone and redone: every state comes back
cargo xtask calls-soak [CALLS]
                    make this many calls in one session: descriptors, threads, processes and memory stay flat
cargo xtask fleet-soak [KILLS]
                    kill workers of a fleet this often: everything ends, no call runs twice
cargo xtask fleet-kills N [--engine sqlite|nats|postgres]
                    kill workers of a fleet N times while they work, and look that nothing was lost or done twice
cargo xtask fleet-sim [SESSIONS…] [--engine sqlite|nats|postgres]
                    many sessions with a model that takes its time: how near to the ideal rate, and what bounds it
cargo xtask session-log FILE [MB]
                    write the log of a long session, the same every time
cargo xtask tidy    repository rules only: layers, files, names, documents, dependencies
cargo xtask dist [--binary FILE]... [--target TRIPLE]... [--out DIR] [--releases URL] [--static] [--strip]
                    make the packages people install: npm, wheel, deb, archive, and what downloads it
cargo xtask package-check
                    pack every crate as a registry would take it, and compile all of them from their packages, once
cargo xtask features [CRATE]…
                    check that every feature of a crate compiles alone, with all others, and left out
cargo xtask semver [BASE]
                    compare what the library promises with a revision, by default the newest tag or the last commit
cargo xtask hot-functions
                    find out what usual sessions run, so that the linker puts it together
cargo xtask dist --reproduce [PACKAGE] [PROFILE]
                    build twice in two directories and compare the bytes
cargo xtask docs    write the generated pages under docs/ again
cargo xtask picture draw the picture in the README: what `haft demo` shows
cargo xtask site    build the documents as a book, with a pinned mdBook";

fn main() -> ExitCode {
    if gate::is_rustdoc() {
        return gate::stand_in_for_rustdoc();
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.first().map(String::as_str) {
        Some("test") => gate::test(),
        Some("quick") => gate::quick(&args[1..]),
        Some("flaky") => gate::flaky(&args[1..]),
        Some("bench") => bench::run(&args[1..]),
        Some("fuzz") => fuzz::run(&args[1..]),
        Some("requests-soak") => fuzz::requests(&args[1..]),
        Some("undo-soak") => fuzz::undo(&args[1..]),
        Some("calls-soak") => calls_soak::run(&args[1..]),
        Some("fleet-soak") => fleet_soak::run(&args[1..]),
        Some("fleet-sim") => fleet_sim::run(&args[1..]),
        Some("fleet-kills") => fleet_kills::run(&args[1..]),
        Some("session-log") => session_log::run(&args[1..]),
        Some("hot-functions") => hot_functions::write(),
        Some("features") => features::check(&args[1..]),
        Some("semver") => semver::run(&args[1..]),
        Some("tidy") => tidy::check(),
        Some("site") => site::build(),
        Some("picture") => readme_image::draw(),
        Some("dist") => dist::run(&args[1..]),
        Some("package-check") => dist::crates::check(&args[1..]),
        Some("docs") => command::cargo(&["run", "--quiet", "--", "dev", "docs", "docs"]),
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
