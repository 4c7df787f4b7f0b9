//! `haft mcp serve --print-config CLIENT`: prints the configuration entry with which a client uses Haft
//! as an MCP server.

use std::process::ExitCode;

use clap::ValueEnum;
use haft_console::stdout::{CliError, CommandExit, print_line, write_error};
use haft_mcp_server::client_snippets;

/// A client that can use Haft as a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum ConfiguredClient {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    Vscode,
    Zed,
    Codex,
}

impl ConfiguredClient {
    fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Cursor => "Cursor",
            Self::Vscode => "VS Code",
            Self::Zed => "Zed",
            Self::Codex => "Codex",
        }
    }
}

/// Prints the entry to standard output, and the file it belongs in to standard error.
pub(super) fn run(client: ConfiguredClient) -> CommandExit {
    // Clients start servers with their own `PATH`, so the absolute path is needed.
    let program = std::env::current_exe().ok().and_then(|it| it.to_str().map(str::to_owned));
    let snippets = client_snippets("haft", program.as_deref().unwrap_or("haft"), &["mcp", "serve"]);
    let Some(snippet) = snippets.iter().find(|it| it.client == client.name()) else {
        return Err(CliError::Message(format!("nothing is known about {}", client.name())));
    };
    write_error(&format!("For {}:", snippet.file));
    print_line(&snippet.text)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_is_known() {
        let snippets = client_snippets("haft", "haft", &[]);
        for client in ConfiguredClient::value_variants() {
            assert!(snippets.iter().any(|it| it.client == client.name()), "{client:?}");
        }
        assert_eq!(snippets.len(), ConfiguredClient::value_variants().len());
    }
}
