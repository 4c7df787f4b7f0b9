//! Flags of `haft login` and `haft logout`.

/// Flags of `haft login`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LoginArgs {
    /// The provider of the key
    #[arg(default_value = "anthropic", value_parser = ["anthropic", "openai", "gemini", "openrouter"])]
    pub(crate) provider: String,
    /// Save it in a file that only you can read, even if there is a keyring
    #[arg(long)]
    pub(crate) file: bool,
    /// Ask the provider whether the key is valid before it is saved; costs nothing
    #[arg(long)]
    pub(crate) check: bool,
}

impl LoginArgs {
    /// The flags of `haft login` without arguments: Anthropic, keyring if there is one, no check of the
    /// key.
    pub(crate) fn usual() -> Self {
        Self { provider: String::from("anthropic"), file: false, check: false }
    }
}

/// Flags of `haft logout`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LogoutArgs {
    /// The provider of the key; all keys if none is given
    #[arg(value_parser = ["anthropic", "openai", "gemini", "openrouter"])]
    pub(crate) provider: Option<String>,
}
