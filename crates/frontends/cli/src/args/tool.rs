//! Flags of `haft tool`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum ToolCommand {
    /// List tools
    List,
    /// Show what the model is told about a tool
    Describe {
        /// Name or alias of the tool
        name: String,
    },
    /// Call one tool, with permissions and hooks
    Call {
        /// Name or alias of the tool
        name: String,
        /// Input: JSON, `@file`, or `-` for standard input
        #[arg(default_value = "{}", value_name = "JSON")]
        input: String,
        /// Read the files that the input names first: Edit and Write only change what was read
        #[arg(long)]
        read_first: bool,
        #[command(flatten)]
        servers: ToolServerArgs,
    },
    /// Run calls from standard input, one JSON line per message
    ///
    /// An object `{"id"?, "name", "input"}` is a message with one call, an array is one message with
    /// several. One report line comes back per call, in the order of the calls. What tools remember
    /// lives on from line to line.
    Run {
        #[command(flatten)]
        servers: ToolServerArgs,
    },
}

/// MCP servers for calls without a model.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ToolServerArgs {
    /// MCP servers of this run: JSON text or a file; may be repeated
    #[arg(long, value_name = "FILE-OR-JSON")]
    pub(crate) mcp_config: Vec<String>,
    /// Use only the MCP servers of --mcp-config
    #[arg(long)]
    pub(crate) strict_mcp_config: bool,
}
