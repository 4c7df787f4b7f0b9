//! Loads settings files and flags, merges their layers into typed values, and enforces trust.
//!
//! Settings come from the user (`~/.claude`, `~/.haft`), the project (`.claude/`, `.haft/`), the command
//! line and the organisation. Each text is split into units. A project's units pass the trust check, and
//! the remaining units are merged: lists of all layers are concatenated, single values come from the
//! highest-precedence layer. Every value keeps its file and line.
//!
//! **Out of scope**: the meaning of rules, sandbox settings and MCP servers; callers get them as text
//! with their origin. Hooks are parsed by `haft-hooks`.
//!
//! **Invariant:** a user's file that cannot be parsed is never overwritten, and its last valid version
//! stays in effect.
//!
//! **Invariant:** a successful update is on disk and survives concurrent writers, `kill -9` and a full
//! disk; readers see the old or the new text, never a partial one.
//!
//! **Invariant:** until the user has trusted exactly this content, a project's files can only restrict,
//! never widen.
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
