//! The setting `otelHeadersHelper`: a command that prints HTTP headers for the collector.

use std::{process::Stdio, time::Duration};

use haft_types::EnvVars;
use serde_json::{Map, Value};
use tokio::process::Command;

/// Time limit of the command.
const HELPER_TIME: Duration = Duration::from_secs(10);

/// A command that prints a JSON object of header names and values. It gets the session's variables,
/// except secrets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct HeadersHelper {
    pub(crate) command: String,
    pub(crate) variables: EnvVars,
}

impl HeadersHelper {
    /// Runs the command. Errors do not include its output, which may contain a secret.
    pub(super) async fn headers(&self) -> Result<Vec<(String, String)>, String> {
        let mut command = Command::new("sh");
        command.env_clear().envs(self.variables.inherited()).arg("-c").arg(&self.command);
        command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let ended = tokio::time::timeout(HELPER_TIME, command.output()).await;
        let output = match ended {
            Err(_) => return Err(format!("otelHeadersHelper did not end within {HELPER_TIME:?}")),
            Ok(Err(err)) => return Err(format!("otelHeadersHelper could not be started: {err}")),
            Ok(Ok(output)) if !output.status.success() => {
                return Err(format!("otelHeadersHelper ended with {}", output.status));
            }
            Ok(Ok(output)) => output.stdout,
        };
        let wrong = || String::from("otelHeadersHelper did not print a JSON object of texts");
        let object: Map<String, Value> = serde_json::from_slice(&output).map_err(|_| wrong())?;
        object
            .into_iter()
            .map(|(name, value)| Ok((name, value.as_str().ok_or_else(wrong)?.to_owned())))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_it_prints_is_taken_or_refused() {
        for (command, want) in [
            (r#"echo '{"a": "b", "c": "d"}'"#, Ok(2)),
            ("echo '{}'", Ok(0)),
            ("echo secret", Err("did not print a JSON object")),
            (r#"echo '{"a": 1}'"#, Err("did not print a JSON object")),
            ("exit 3", Err("ended with")),
        ] {
            let helper = HeadersHelper { command: command.to_owned(), variables: EnvVars::of_process() };
            match (helper.headers().await, want) {
                (Ok(found), Ok(count)) => assert_eq!(found.len(), count, "{command}"),
                (Err(found), Err(words)) => {
                    assert!(found.contains(words) && !found.contains("secret"), "{command}: {found}");
                }
                (found, want) => panic!("{command}: {found:?}, not {want:?}"),
            }
        }
    }
}
