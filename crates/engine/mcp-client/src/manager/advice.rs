//! What a person can do about a server that does not work.

use crate::{
    client::{ConnectError, McpClientError},
    config::{ServerConfig, ServerEndpoint},
};

/// Longer commands are not repeated.
const MAX_PASTED: usize = 300;

/// One word of a command line as a shell reads it, so that pasting the line runs
/// that command and nothing else. Our own, as the rest of the advice: a library
/// for it would be one more.
fn shell_word(word: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "_-./:=@%+,".contains(it);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if word.chars().any(char::is_control) {
        // Line breaks and the like would act when they are pasted.

        let escaped: String = word.chars().map(escaped).collect();
        format!("$'{escaped}'")
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn escaped(it: char) -> String {
    match it {
        '\\' | '\'' => format!("\\{it}"),
        control if control.is_control() => format!("\\u{:04x}", control as u32),
        plain => String::from(plain),
    }
}

/// What to do next, in one sentence or two.
pub(super) fn advice(config: &ServerConfig, err: &ConnectError, is_noisy: bool) -> String {
    let name = &config.name;
    let by_hand = match &config.endpoint {
        ServerEndpoint::Stdio(it) => {
            let words: Vec<String> =
                std::iter::once(&it.program).chain(&it.args).map(|word| shell_word(word)).collect();
            let line = words.join(" ");
            // Half a command is not for pasting.
            if MAX_PASTED < line.chars().count() {
                String::from("run its command by hand and see")
            } else {
                format!("run it by hand and see: {line}")
            }
        }
        _ => String::from("ask whoever runs it"),
    };
    let is_local = matches!(config.endpoint, ServerEndpoint::Stdio(_));
    match err.fault() {
        McpClientError::NotThere if is_local => {
            String::from("install the program, or write its whole path as `command`")
        }
        McpClientError::NotThere => {
            String::from("check that `url` is right and that the server runs and can be reached")
        }
        McpClientError::Ended if is_local => by_hand,
        McpClientError::Ended => {
            String::from("check that `url` leads to an MCP server; it hung up in the middle of an answer")
        }
        McpClientError::Silent if is_noisy => format!(
            "it writes other things than messages to its output, which belong on its error output; {by_hand}"
        ),
        McpClientError::Silent => {
            let most = config.timeouts.startup.as_millis();
            format!("if it is only slow, raise `startupTimeout` (now {most} ms); else {by_hand}")
        }
        McpClientError::SaidNo => {
            String::from("it answers, but refuses; do what it says, or ask whoever made it")
        }
        McpClientError::NotMcp if is_local => {
            format!(
                "it does not write messages of the protocol, which only its authors can repair; {by_hand}"
            )
        }
        McpClientError::NotMcp => {
            String::from("check that `url` leads to an MCP server and not to a web page")
        }
        McpClientError::Status(401 | 403) => String::from("check `headers`, and who may use the server"),
        McpClientError::Status(404 | 405) => {
            String::from("check `url`, and whether `type` should be `sse` or `http`")
        }
        McpClientError::Status(429) => String::from("it has too much to do; try again later"),
        McpClientError::Status(500..=599) => {
            String::from("it is broken at its own end; try again later, or ask whoever runs it")
        }
        McpClientError::Status(_) => String::from("check `url` and `headers`"),
        McpClientError::Elsewhere => String::from("if you trust where it leads, write that address as `url`"),
        McpClientError::Login => format!("log in with `haft mcp login {name}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_pasted_as_they_are_meant() {
        for (word, want) in [
            ("node", "node"),
            ("--port=80", "--port=80"),
            ("", "''"),
            ("sleep 1; exit 3", "'sleep 1; exit 3'"),
            ("it's $HOME", r"'it'\''s $HOME'"),
            ("a\nexit", r"$'a\u000aexit'"),
            ("~", "'~'"),
        ] {
            assert_eq!(shell_word(word), want);
        }
    }
}
