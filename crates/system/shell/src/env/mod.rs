//! The environment commands run in: the user's, minus our secrets, and with
//! nobody to ask.

mod capture;
mod definitions;
mod policy;
mod remembered;
mod seal;

pub use capture::{LoginEnv, LoginEnvOptions};
pub use definitions::ShellDefinitions;
pub use policy::{CredentialPolicy, EnvPolicy};
pub use seal::{mask, seal};

pub(crate) use definitions::quote;
pub(crate) use haft_process::environment_entry as entry;
