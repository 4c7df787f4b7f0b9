//! Flags of `haft login` and `haft logout`.

/// Flags of `haft login`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LoginArgs {
    /// Whose key: anthropic, openai, gemini or openrouter.
    #[arg(default_value = "anthropic", value_parser = ["anthropic", "openai", "gemini", "openrouter"])]
    pub(crate) provider: String,
    /// Keep it in a file for your eyes only, even where there is a keyring.
    #[arg(long)]
    pub(crate) file: bool,
    /// Ask the provider whether it takes the key before it is kept; costs nothing.
    #[arg(long)]
    pub(crate) check: bool,
}

impl LoginArgs {
    /// `haft login` alone.
    pub(crate) fn usual() -> Self {
        Self { provider: String::from("anthropic"), file: false, check: false }
    }
}

/// Flags of `haft logout`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LogoutArgs {
    /// Whose key; all of them when nobody is named.
    #[arg(value_parser = ["anthropic", "openai", "gemini", "openrouter"])]
    pub(crate) provider: Option<String>,
}
