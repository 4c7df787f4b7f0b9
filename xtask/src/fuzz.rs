use crate::command;

/// A long run of what every test run does a little of. `HAFT_FUZZ_SECONDS` ends
/// it early.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    if args.first().map(String::as_str) != Some("commands") {
        return Err(String::from("cargo xtask fuzz commands [LINES] [SEED]"));
    }
    let lines = args.get(1).map_or("1000000", String::as_str);
    let seed = args.get(2).map_or("1", String::as_str);
    let tests = [
        "fuzz::what_is_free_does_nothing_but_read",
        "fuzz::edits::free_lines_that_edit_stay_inside_and_start_nothing",
    ];
    for test in tests {
        let words = ["test", "-p", "haft-permission", "--test", "all", "--", "--exact", test, "--nocapture"];
        command::cargo_with(&words, &[("HAFT_FUZZ_LINES", lines), ("HAFT_FUZZ_SEED", seed)])?;
    }
    Ok(())
}

/// Random sessions of the real program against a server that breaks off, fails and
/// forgets its window. A debug build, as in the tests.
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
