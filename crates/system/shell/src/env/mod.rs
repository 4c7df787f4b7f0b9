//! The environment of commands: the user's, without Haft's secrets, and non-interactive.

mod aliases;
mod env_policy;
mod hide_secrets;
mod login_env;
mod login_env_cache;

pub use aliases::ShellDefinitions;
pub use env_policy::{CredentialPolicy, EnvPolicy};
pub use hide_secrets::{mask, seal};
pub use login_env::{LoginEnv, LoginEnvOptions};

pub(crate) use aliases::quote;
pub(crate) use haft_process::environment_entry as entry;
