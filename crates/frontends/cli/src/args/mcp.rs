use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use haft_config::McpScope;

use crate::commands::mcp::print_config::ConfiguredClient;

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Name a server: `haft mcp add NAME -- COMMAND ARGS…` or `haft mcp add -t http NAME URL`.
    Add(AddArgs),
    /// Name a server with its JSON entry.
    AddJson {
        /// Its name.
        name: String,
        /// Its entry: `{"command": …}` or `{"type": "http", "url": …}`.
        entry: String,
        /// Who sees it.
        #[arg(short, long, value_enum, default_value_t)]
        scope: ScopeArg,
    },
    /// Connect to one server and show everything about it.
    Get {
        /// Its name.
        name: String,
    },
    /// Connect to all servers and show how they are.
    List,
    /// Log in to a server at an address.
    Login {
        /// Its name.
        name: String,
        /// Only print the page to open.
        #[arg(long)]
        no_browser: bool,
    },
    /// Forget a login.
    Logout {
        /// Its name.
        name: String,
    },
    /// Take a server away.
    Remove {
        /// Its name.
        name: String,
        /// From where; needed if it stands in several places.
        #[arg(short, long, value_enum)]
        scope: Option<ScopeArg>,
    },
    /// Offer the built-in tools to an MCP client.
    Serve(ServeArgs),
    /// Show what a server wrote and what happened to it.
    Logs {
        /// Its name.
        name: String,
        /// How many lines.
        #[arg(short = 'n', long, default_value_t = 100)]
        lines: usize,
    },
    /// Find out why servers do not work.
    Doctor {
        /// Only this one.
        name: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Its name.
    pub(crate) name: String,
    /// The command, or the address.
    pub(crate) command_or_url: String,
    /// Arguments of the command; write `--` before a command with flags.
    pub(crate) args: Vec<String>,
    /// Who sees it: you in this project, everybody in the project, you everywhere.
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) scope: ScopeArg,
    /// How it is reached.
    #[arg(short, long, value_enum)]
    pub(crate) transport: Option<TransportArg>,
    /// A variable for the command: `KEY=value`.
    #[arg(short, long, value_name = "KEY=VALUE")]
    pub(crate) env: Vec<String>,
    /// A header for the address: `Name: value`.
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// A client registered with the authorization server.
    #[arg(long)]
    pub(crate) client_id: Option<String>,
    /// Its secret is in the variable MCP_CLIENT_SECRET.
    #[arg(long)]
    pub(crate) client_secret: bool,
    /// The port its redirect address names.
    #[arg(long)]
    pub(crate) callback_port: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Print what this client's configuration needs, and serve nothing.
    #[arg(long, value_enum, value_name = "CLIENT", exclusive = true)]
    pub(crate) print_config: Option<ConfiguredClient>,
    /// Serve over HTTP at this address instead of standard input and output.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:0")]
    pub(crate) http: Option<SocketAddr>,
    /// Clients must know the token in this variable.
    #[arg(long, value_name = "VARIABLE", requires = "http")]
    pub(crate) token_env: Option<String>,
    /// Clients must know the token in this file.
    #[arg(long, value_name = "FILE", requires = "http", conflicts_with = "token_env")]
    pub(crate) token_file: Option<PathBuf>,
    /// Clients need a token of this authorization server.
    #[arg(long, value_name = "ISSUER", requires_all = ["http", "oauth_introspect"], conflicts_with_all = ["token_env", "token_file"])]
    pub(crate) oauth_server: Option<String>,
    /// Where that server is asked about tokens; HAFT_OAUTH_CLIENT_ID and HAFT_OAUTH_CLIENT_SECRET say
    /// who asks.
    #[arg(long, value_name = "URL", requires = "oauth_server")]
    pub(crate) oauth_introspect: Option<String>,
    /// The address clients know this server by; tokens must be meant for it.
    #[arg(long, value_name = "URL", requires = "oauth_server")]
    pub(crate) resource: Option<String>,
    /// What those tokens must be for.
    #[arg(long, value_name = "SCOPE", requires = "oauth_server")]
    pub(crate) oauth_scope: Vec<String>,
    /// Another name this server answers to.
    #[arg(long, value_name = "NAME", requires = "http")]
    pub(crate) allow_host: Vec<String>,
    /// A web page that may use this server.
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub(crate) allow_origin: Vec<String>,
    /// Send results as data beside the text (`structuredContent`), for clients that are programs.
    #[arg(long)]
    pub(crate) structured: bool,
    /// Accepted for other programs' sake.
    #[arg(long, hide = true)]
    pub(crate) debug: bool,
}

/// Who sees a server.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum ScopeArg {
    /// You, in this project.
    #[default]
    Local,
    /// Everybody who works on the project.
    Project,
    /// You, everywhere.
    User,
}

impl ScopeArg {
    pub(crate) fn scope(self) -> McpScope {
        match self {
            Self::Local => McpScope::Local,
            Self::Project => McpScope::Project,
            Self::User => McpScope::User,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

/// How a server is reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum TransportArg {
    /// A local process.
    Stdio,
    /// Streamable HTTP.
    Http,
    /// The older HTTP with server-sent events.
    Sse,
    /// A WebSocket.
    Ws,
}

impl TransportArg {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Sse => "sse",
            Self::Ws => "ws",
        }
    }
}
