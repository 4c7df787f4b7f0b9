//! Flags of `haft tool`.

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum ToolCommand {
    /// List the tools.
    List,
    /// Show what a model is told about a tool.
    Describe {
        /// Name or alias of the tool.
        name: String,
    },
    /// Call one tool through the whole pipeline.
    Call {
        /// Name or alias of the tool.
        name: String,
        /// Input: JSON, `@file`, or `-` for standard input.
        #[arg(default_value = "{}", value_name = "JSON")]
        input: String,
        /// Read the files it names first: Edit and Write only change what was read.
        #[arg(long)]
        read_first: bool,
        #[command(flatten)]
        servers: ToolServerArgs,
    },
    /// Run calls from standard input, one JSON line per model message.
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
    /// MCP servers for this run: JSON text or a file; may be given again.
    #[arg(long, value_name = "FILE-OR-JSON")]
    pub(crate) mcp_config: Vec<String>,
    /// Use only the MCP servers of --mcp-config.
    #[arg(long)]
    pub(crate) strict_mcp_config: bool,
}
