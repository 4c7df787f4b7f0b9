//! Haft for embedders: define a tool in ten lines, run calls in ten more.
//!
//! ```
//! use haft::prelude::*;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Args {
//!     /// Whom to greet.
//!     name: String,
//! }
//!
//! # async fn run() {
//! let greet = tool("greet", "Greets somebody.", async |args: Args, _cx| {
//!     Ok(format!("hello {}", args.name).into())
//! });
//! let mut tools = Tools::new(vec![greet.read_only().build()]);
//! let report = tools.call("greet", json!({"name": "you"})).await;
//! assert_eq!(report.content.to_text(), "hello you");
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(run());
//! ```
//!
//! **Does not know** terminals, flags or settings files: what a program wants,
//! it says.
//!
//! **Invariant:** a call made here goes through the same eight stages as one a
//! model makes.

pub mod mcp;
mod tools;

pub use haft_permission as permission;
pub use haft_runtime as runtime;
pub use haft_tool as tool;
pub use haft_types as types;
pub use tools::Tools;

/// What a file that defines tools usually needs.
pub mod prelude {
    pub use haft_tool::{
        CallContext, Content, ErrorKind, Outcome, Reach, Tool, ToolContext, ToolError, Traits, Verdict,
        erase, tool,
    };
    pub use schemars::{self, JsonSchema};
    pub use serde::{self, Deserialize, Serialize};
    pub use serde_json::json;

    pub use haft_runtime::Pool;

    pub use crate::{Tools, mcp::HttpOptions};
}
