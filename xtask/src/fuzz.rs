use crate::run;

/// A long run of what every test run does a little of. `HAFT_FUZZ_SECONDS` ends
/// it early.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    if args.first().map(String::as_str) != Some("commands") {
        return Err(String::from("cargo xtask fuzz commands [LINES] [SEED]"));
    }
    let lines = args.get(1).map_or("1000000", String::as_str);
    let seed = args.get(2).map_or("1", String::as_str);
    let test = "fuzz::what_is_free_does_nothing_but_read";
    let words = ["test", "-p", "haft-permission", "--test", "all", "--", "--exact", test, "--nocapture"];
    run::cargo_with(&words, &[("HAFT_FUZZ_LINES", lines), ("HAFT_FUZZ_SEED", seed)])
}
