//! Settings files and flags, layered, into typed values; and trust.
//!
//! Settings come from the person (`~/.claude`, `~/.haft`), the project
//! (`.claude/`, `.haft/`), the command line and the organisation. Each text is
//! taken apart into units, a project's units pass the trust gate, and what is
//! left is merged: lists of all layers count together, single values by the
//! strongest layer. Every value remembers its file and line.
//!
//! **Does not know** what a rule, a sandbox or an MCP server means: it hands on
//! words with their source. Hooks it reads through `haft-hooks`.
//!
//! **Invariant:** a person's file is never overwritten because it could not be
//! understood, and while it is broken its last good version counts.
//!
//! **Invariant:** an update that was acknowledged is on the disk and survives
//! any number of other writers, `kill -9` and a full disk; a reader finds the
//! old text or the new one, never a part.
//!
//! **Invariant:** before somebody has agreed to exactly this content, a
//! project's files can only make things stricter.
//!
//! **Invariant:** only files under `.haft` and `~/.haft` are written.

mod directory_lock;
mod json_edit;
mod json_file;
mod json_spans;
mod keys;
mod last_good;
mod layer;
mod load;
mod mcp_edit;
mod mcp_servers;
mod merge_layers;
mod sandbox_settings;
mod set_value;
mod setting_units;
mod settings;
mod settings_document;
mod settings_paths;
mod settings_store;
mod stable_read;
pub mod state_dir;
mod trust;

pub use json_file::UpdateError;
pub use keys::{known_settings, settings_page};
pub use layer::{SettingsLayer, SettingsNotice, SettingsOrigin, SettingsSourceKind, SettingsText, Sourced};
pub use load::{FlagContent, FlagSettings, LoadOptions, LoadedSettings};
pub use mcp_servers::{McpScope, McpServer};
pub use sandbox_settings::{SandboxFiles, SandboxNetwork, SandboxSettings};
pub use set_value::SetError;
pub use settings::{FeatureSwitch, McpSettings, PermissionSettings, Settings};
pub use settings_paths::{SettingsPaths, SettingsScope, home_directory};
pub use settings_store::SettingsStore;
pub use trust::{BoundFile, ItemKind, PendingItem, PendingTrust, TrustItem, TrustMode};
