use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use haft_config::McpScope;

use crate::commands::mcp::print_config::ConfiguredClient;

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Add a server: `haft mcp add NAME -- COMMAND ARGS…` or `haft mcp add -t http NAME URL`
    Add(AddArgs),
    /// Add a server as JSON
    AddJson {
        /// Name of the server
        name: String,
        /// The entry: `{"command": …}` or `{"type": "http", "url": …}`
        entry: String,
        /// Who uses it
        #[arg(short, long, value_enum, default_value_t)]
        scope: ScopeArg,
    },
    /// Connect to one server and show everything about it
    Get {
        /// Name of the server
        name: String,
    },
    /// Connect to all MCP servers and show their state
    List,
    /// Log in to a server with OAuth
    Login {
        /// Name of the server
        name: String,
        /// Only print the URL to open
        #[arg(long)]
        no_browser: bool,
    },
    /// Delete a login
    Logout {
        /// Name of the server
        name: String,
    },
    /// Remove a server
    Remove {
        /// Name of the server
        name: String,
        /// Scope to remove it from; required if it is in several
        #[arg(short, long, value_enum)]
        scope: Option<ScopeArg>,
    },
    /// Serve Haft's tools over MCP
    Serve(ServeArgs),
    /// Show a server's stderr and events
    Logs {
        /// Name of the server
        name: String,
        /// Number of lines
        #[arg(short = 'n', long, default_value_t = 100)]
        lines: usize,
    },
    /// Find out why servers do not work
    Doctor {
        /// Only this server
        name: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// Name of the server
    pub(crate) name: String,
    /// The command, or the URL
    pub(crate) command_or_url: String,
    /// Arguments of the command; write `--` before a command with flags
    pub(crate) args: Vec<String>,
    /// Who uses it: you in this project, everybody in the project, you everywhere
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) scope: ScopeArg,
    /// How to connect to it
    #[arg(short, long, value_enum)]
    pub(crate) transport: Option<TransportArg>,
    /// Environment variable of the command; may be repeated
    #[arg(short, long, value_name = "KEY=VALUE")]
    pub(crate) env: Vec<String>,
    /// HTTP header for the URL; may be repeated
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// OAuth client id that is registered with the authorization server
    #[arg(long)]
    pub(crate) client_id: Option<String>,
    /// Read the secret of that client from MCP_CLIENT_SECRET
    #[arg(long)]
    pub(crate) client_secret: bool,
    /// Port of the redirect URL of that client
    #[arg(long)]
    pub(crate) callback_port: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Print the configuration for this MCP client and exit
    #[arg(long, value_enum, value_name = "CLIENT", exclusive = true)]
    pub(crate) print_config: Option<ConfiguredClient>,
    /// Serve HTTP at this address instead of standard input and output
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:0")]
    pub(crate) http: Option<SocketAddr>,
    /// Require the token in this environment variable
    #[arg(long, value_name = "VARIABLE", requires = "http")]
    pub(crate) token_env: Option<String>,
    /// Require the token in this file
    #[arg(long, value_name = "FILE", requires = "http", conflicts_with = "token_env")]
    pub(crate) token_file: Option<PathBuf>,
    /// Require a token of this authorization server
    #[arg(long, value_name = "ISSUER", requires_all = ["http", "oauth_introspect"], conflicts_with_all = ["token_env", "token_file"])]
    pub(crate) oauth_server: Option<String>,
    /// Introspection endpoint of that server, called as HAFT_OAUTH_CLIENT_ID with HAFT_OAUTH_CLIENT_SECRET
    #[arg(long, value_name = "URL", requires = "oauth_server")]
    pub(crate) oauth_introspect: Option<String>,
    /// URL of this server as clients know it: the audience of tokens
    #[arg(long, value_name = "URL", requires = "oauth_server")]
    pub(crate) resource: Option<String>,
    /// Scope that tokens must have; may be repeated
    #[arg(long, value_name = "SCOPE", requires = "oauth_server")]
    pub(crate) oauth_scope: Vec<String>,
    /// Accept requests for this host name; may be repeated
    #[arg(long, value_name = "NAME", requires = "http")]
    pub(crate) allow_host: Vec<String>,
    /// Accept requests of web pages from this origin; may be repeated
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub(crate) allow_origin: Vec<String>,
    /// Send results as data beside the text (`structuredContent`), for clients that are programs
    #[arg(long)]
    pub(crate) structured: bool,
    /// Accepted, no effect
    #[arg(long, hide = true)]
    pub(crate) debug: bool,
}

/// Who sees a server.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum ScopeArg {
    /// You, in this project
    #[default]
    Local,
    /// Everybody who works on the project
    Project,
    /// You, everywhere
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
