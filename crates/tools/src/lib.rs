//! The built-in tools, one folder each, and [`base`], the one ordered list.
//!
//! **Does not know** the runtime that calls it, the agent loop, or any rule.
//! What a tool needs from above it names as a small trait of its own and takes
//! in its constructor.
//!
//! **Invariant:** adding a tool touches one folder and one line of [`base`].

use std::sync::Arc;

use haft_tool::{DynTool, erase};

pub mod config;
mod finding;
pub mod glob;
pub mod grep;
pub mod ls;
pub mod search;
pub mod todo_write;

pub use finding::FindSettings;

/// What the tools of one session share, and what they need from above.
pub struct Services {
    /// Reads and changes settings.
    pub settings: Arc<dyn config::SettingsAccess>,
}

/// Every built-in tool there is. The single source of truth: help, search,
/// schemas and docs come from it.
pub fn base(services: &Services) -> Vec<Arc<dyn DynTool>> {
    vec![erase(config::Config::new(Arc::clone(&services.settings))), erase(todo_write::TodoWrite::default())]
}
