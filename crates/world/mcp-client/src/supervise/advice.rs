//! What a person can do about a server that does not work.

use crate::{
    client::{ConnectError, Fault},
    config::{Endpoint, ServerConfig},
};

/// What to do next, in one sentence or two.
pub(super) fn advice(config: &ServerConfig, err: &ConnectError, is_noisy: bool) -> String {
    let name = &config.name;
    let by_hand = match &config.endpoint {
        Endpoint::Stdio(it) => {
            let words: Vec<&str> = std::iter::once(&it.program).chain(&it.args).map(String::as_str).collect();
            format!("run it by hand and see: {}", haft_types::text::one_line(&words.join(" "), 300))
        }
        _ => String::from("ask whoever runs it"),
    };
    let is_local = matches!(config.endpoint, Endpoint::Stdio(_));
    match err.fault() {
        Fault::NotThere if is_local => {
            String::from("install the program, or write its whole path as `command`")
        }
        Fault::NotThere => {
            String::from("check that `url` is right and that the server runs and can be reached")
        }
        Fault::Ended if is_local => by_hand,
        Fault::Ended => {
            String::from("check that `url` leads to an MCP server; it hung up in the middle of an answer")
        }
        Fault::Silent if is_noisy => format!(
            "it writes other things than messages to its output, which belong on its error output; {by_hand}"
        ),
        Fault::Silent => {
            let most = config.timeouts.startup.as_millis();
            format!("if it is only slow, raise `startupTimeout` (now {most} ms); else {by_hand}")
        }
        Fault::SaidNo => String::from("it answers, but refuses; do what it says, or ask whoever made it"),
        Fault::NotMcp if is_local => {
            format!(
                "it does not write messages of the protocol, which only its authors can repair; {by_hand}"
            )
        }
        Fault::NotMcp => String::from("check that `url` leads to an MCP server and not to a web page"),
        Fault::Status(401 | 403) => String::from("check `headers`, and who may use the server"),
        Fault::Status(404 | 405) => String::from("check `url`, and whether `type` should be `sse` or `http`"),
        Fault::Status(429) => String::from("it has too much to do; try again later"),
        Fault::Status(500..=599) => {
            String::from("it is broken at its own end; try again later, or ask whoever runs it")
        }
        Fault::Status(_) => String::from("check `url` and `headers`"),
        Fault::Elsewhere => String::from("if you trust where it leads, write that address as `url`"),
        Fault::Login => format!("log in with `haft mcp login {name}`"),
    }
}
