//! The exit codes of the program `haft`, and the page made of them.

/// Done.
pub const SUCCESS: u8 = 0;
/// The run stopped early, or a command found something wrong.
pub const FAILURE: u8 = 1;
/// Flags, settings or files are wrong.
pub const USAGE: u8 = 2;
/// The model was done, but calls were denied.
pub const DENIED: u8 = 3;
/// The limit on turns was reached.
pub const OUT_OF_TURNS: u8 = 4;
/// The limit on money, tokens, time or disk space was reached.
pub const OUT_OF_BUDGET: u8 = 5;
/// The provider could not answer.
pub const PROVIDER_FAILED: u8 = 6;
/// Ended by SIGHUP.
pub const HANGUP: u8 = 129;
/// Ended by SIGINT.
pub const INTERRUPTED: u8 = 130;
/// Ended by SIGQUIT.
pub const QUIT: u8 = 131;
/// The reader of standard output is gone.
pub const CLOSED_PIPE: u8 = 141;
/// Ended by SIGTERM.
pub const TERMINATED: u8 = 143;

/// Every exit code: the code, the `outcome` in the JSON result of a run, its meaning.
pub const EXIT_CODES: &[(u8, &str, &str)] = &[
    (
        SUCCESS,
        "success",
        "Done. No call was denied, or `--allow-denials` was given. Denials that a read-only agent always gets are not \
         counted.",
    ),
    (
        FAILURE,
        "incomplete",
        "The run stopped before the model was done: a hook ended it, the model repeated itself, gave no usable answer, \
         wrote calls that could not be read, asked for calls that did not run because the session log could not be \
         written (a full disk), was cut off again and again, declined, or did not deliver the output that \
         `--json-schema` asks for. Other commands: something failed or was found to be wrong.",
    ),
    (USAGE, "", "Flags, settings or files are wrong. No request was sent."),
    (
        DENIED,
        "denied",
        "The model was done, but calls were denied; `permission_denials` lists them with reasons.",
    ),
    (OUT_OF_TURNS, "incomplete", "`--max-turns` was reached."),
    (
        OUT_OF_BUDGET,
        "incomplete",
        "`--max-budget-usd` or another budget is spent, also when the last answer arrived and cost more than was left \
         (its text is printed). Jobs of a fleet: also the limits on time and disk space.",
    ),
    (PROVIDER_FAILED, "failed", "The provider could not answer."),
    (HANGUP, "interrupted", "SIGHUP: the terminal was closed. Ignored if the parent ignores it (`nohup`)."),
    (
        INTERRUPTED,
        "interrupted",
        "SIGINT, Ctrl-C: running calls are stopped and report how far they came. A second signal ends Haft at once.",
    ),
    (QUIT, "", "SIGQUIT in a terminal session."),
    (CLOSED_PIPE, "", "The reader of standard output is gone; the run is stopped."),
    (TERMINATED, "interrupted", "SIGTERM: as Ctrl-C."),
];

/// The page about exit codes, as Markdown.
pub fn exit_codes_page() -> String {
    let mut page = String::from(
        "# Exit codes\n\nHow a run or a command ended, for scripts. Written by `cargo xtask docs`; do not edit.\n\n\
         ```sh\nhaft -p \"fix the failing test\" --max-turns 20 --output-format json; echo $?\n```\n\nThe JSON result of \
         `haft -p` holds the code as `exit_code` and a word for it as `outcome`.\n\n\
         | code | `outcome` | meaning |\n|---:|---|---|\n",
    );
    for (code, outcome, meaning) in EXIT_CODES {
        let outcome = if outcome.is_empty() { String::new() } else { format!("`{outcome}`") };
        page.push_str(&format!("| {code} | {outcome} | {meaning} |\n"));
    }
    page.push_str(
        "\nUnder an Agent SDK (`--input-format stream-json`) the codes are 0, 1 when the last result was an error or the \
         session could not start, and 143 after SIGTERM. `haft permissions test` and `explain` exit with 1 when the \
         call would ask or be denied. `haft fleet submit --wait` and `haft replay` exit as the run did.\n",
    );
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_listed_once_in_order() {
        assert!(EXIT_CODES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let page = exit_codes_page();
        for (code, ..) in EXIT_CODES {
            assert!(page.contains(&format!("\n| {code} | ")), "{code}");
        }
    }
}
