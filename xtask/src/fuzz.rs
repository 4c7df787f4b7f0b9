use crate::command;

/// Runs the property tests for a long time. `HAFT_FUZZ_SECONDS` limits the time.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    if args.first().map(String::as_str) != Some("commands") {
        return Err(String::from("cargo xtask fuzz commands [LINES] [SEED]"));
    }
    let lines = args.get(1).map_or("1000000", String::as_str);
    let seed = args.get(2).map_or("1", String::as_str);
    let tests = [
        "fuzz::fuzzed_allowed_lines_only_read",
        "fuzz::edits::fuzzed_edit_lines_stay_inside_and_start_no_program",
    ];
    for test in tests {
        let words = ["test", "-p", "haft-permission", "--test", "all", "--", "--exact", test, "--nocapture"];
        command::cargo_with(&words, &[("HAFT_FUZZ_LINES", lines), ("HAFT_FUZZ_SEED", seed)])?;
    }
    Ok(())
}

/// Runs random sessions of the real program against a faulty server. Uses a debug build, as in the
/// tests.
pub(crate) fn requests(args: &[String]) -> Result<(), String> {
    let requests = args.first().map_or("20000", String::as_str);
    let seed = args.get(1).map_or("1", String::as_str);
    if [requests, seed].iter().any(|it| it.parse::<u64>().is_err()) {
        return Err(String::from("cargo xtask requests-soak [REQUESTS] [SEED]"));
    }
    let test = "random_requests::no_session_ends";
    command::cargo(&["build", "-p", "haft-cli", "--bin", "haft"])?;
    let words = ["test", "-p", "haft-e2e", "--test", "all", "--", "--exact", test, "--nocapture"];
    command::cargo_with(&words, &[("HAFT_SOAK_REQUESTS", requests), ("HAFT_SOAK_SEED", seed)])
}

/// Random sequences of commands and edits, undone and redone to their end: every state on the
/// way must come back. The seed makes a run repeatable.
pub(crate) fn undo(args: &[String]) -> Result<(), String> {
    let sequences = args.first().map_or("3000", String::as_str);
    let seed = args.get(1).map_or("1", String::as_str);
    if [sequences, seed].iter().any(|it| it.parse::<u64>().is_err()) {
        return Err(String::from("cargo xtask undo-soak [SEQUENCES] [SEED]"));
    }
    let test = "bash_undo_safety::undo_and_redo_of_random_sequences_restore_every_state";
    let words = ["test", "-p", "haft-builtin-tools", "--test", "all", "--", "--exact", test, "--nocapture"];
    command::cargo_with(&words, &[("HAFT_SEQUENCES", sequences), ("PROPTEST_RNG_SEED", seed)])
}
