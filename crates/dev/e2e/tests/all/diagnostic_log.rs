//! `HAFT_LOG`: its lines show where a call is, and without it nothing is written.

use crate::common::Haft;

/// Runs one command through the tool; returns the log and standard error.
fn logged(filter: Option<&str>) -> (String, String) {
    let haft = Haft::new();
    let file = haft.dir.path().join("log");
    let mut command = haft.command();
    command.args(["tool", "call", "Bash", r#"{"command": "echo one"}"#]);
    command.args(["--permission-mode", "acceptEdits"]).env("HAFT_LOG_FILE", &file);
    command.env("ANTHROPIC_API_KEY", "a-very-secret-value");
    if let Some(filter) = filter {
        command.env("HAFT_LOG", filter);
    }
    let output = command.output().unwrap();
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    (text, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn steps_of_a_call_are_told_in_order() {
    let (log, _) = logged(Some("debug"));
    let mut rest = log.as_str();
    for step in [
        "haft_tool_runtime::pipeline a call begins call=",
        "waits for permission",
        " runs call=",
        "haft_shell::run::shell a command runs",
        "the command has ended",
        "has run; its result is stored and observed",
        "the call has ended",
    ] {
        let at = rest.find(step).unwrap_or_else(|| panic!("`{step}` is missing or late in\n{log}"));
        rest = &rest[at..];
    }
    assert!(!log.contains("echo one") && !log.contains("a-very-secret-value"), "{log}");
    assert!(
        log.lines()
            .all(|line| line.split_whitespace().nth(1).is_some_and(|it| it == "DEBUG" || it == "INFO"))
    );
}

#[test]
fn filters_choose_and_silence_is_the_default() {
    for (filter, wanted, unwanted) in [
        (None, None, Some("haft_")),
        (Some("off"), None, Some("haft_")),
        (Some("haft_shell=debug"), Some("haft_shell"), Some("haft_tool_runtime")),
        (Some("haft_shell=off,debug"), Some("haft_tool_runtime"), Some("haft_shell")),
    ] {
        let (log, _) = logged(filter);
        assert!(wanted.is_none_or(|it| log.contains(it)), "{filter:?}: {log}");
        assert!(unwanted.is_none_or(|it| !log.contains(it)), "{filter:?}: {log}");
    }
}

#[test]
fn a_filter_that_makes_no_sense_is_refused() {
    let (log, complaint) = logged(Some("loud"));
    assert_eq!(log, "");
    assert!(complaint.contains("HAFT_LOG: `loud`"), "{complaint}");
}
