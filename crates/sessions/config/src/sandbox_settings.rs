use crate::{SettingsLayer, Sourced, merge_layers::MergedSettings};

/// Sandbox settings. Unset values are `None`; the code that builds the sandbox has the defaults.
#[derive(Clone, Debug, Default)]
pub struct SandboxSettings {
    /// Whether commands run in the sandbox.
    pub enabled: Option<Sourced<bool>>,
    /// Whether to refuse to start when the sandbox is not available.
    pub fail_if_unavailable: Option<Sourced<bool>>,
    /// Whether sandboxed commands run without a permission prompt.
    pub auto_allow_bash: Option<Sourced<bool>>,
    /// Whether a command may request to run outside the sandbox.
    pub allow_unsandboxed_commands: Option<Sourced<bool>>,
    /// Commands that run outside the sandbox.
    pub excluded_commands: Vec<Sourced<String>>,
    pub network: SandboxNetwork,
    pub filesystem: SandboxFiles,
}

/// Network access of sandboxed commands.
#[derive(Clone, Debug, Default)]
pub struct SandboxNetwork {
    /// Hosts that may be contacted.
    pub allowed_domains: Vec<Sourced<String>>,
    /// Hosts that may not be contacted.
    pub denied_domains: Vec<Sourced<String>>,
    /// Whether unlisted hosts are denied without a prompt.
    pub strict_allowlist: Option<Sourced<bool>>,
    /// Unix sockets that may be used.
    pub allow_unix_sockets: Vec<Sourced<String>>,
    /// Whether all Unix sockets may be used.
    pub allow_all_unix_sockets: Option<Sourced<bool>>,
    /// Whether commands may listen on local ports.
    pub allow_local_binding: Option<Sourced<bool>>,
}

/// File access of sandboxed commands. Paths are as written in the settings.
#[derive(Clone, Debug, Default)]
pub struct SandboxFiles {
    /// Writable paths.
    pub allow_write: Vec<Sourced<String>>,
    /// Write-protected paths.
    pub deny_write: Vec<Sourced<String>>,
    /// Readable paths inside a denied one.
    pub allow_read: Vec<Sourced<String>>,
    /// Paths that may not be read.
    pub deny_read: Vec<Sourced<String>>,
}

impl SandboxSettings {
    pub(crate) fn from_merged(merged: &MergedSettings) -> Self {
        let managed_only = merged.flag("sandbox.network.allowManagedDomainsOnly").filter(|it| it.value);
        let counts = |domain: &Sourced<String>| {
            managed_only.is_none() || domain.origin.source.layer == SettingsLayer::Managed
        };
        let allowed = merged.texts("sandbox.network.allowedDomains").into_iter().filter(counts).collect();
        Self {
            enabled: merged.flag("sandbox.enabled"),
            fail_if_unavailable: merged.flag("sandbox.failIfUnavailable"),
            auto_allow_bash: merged.flag("sandbox.autoAllowBashIfSandboxed"),
            allow_unsandboxed_commands: merged.flag("sandbox.allowUnsandboxedCommands"),
            excluded_commands: merged.texts("sandbox.excludedCommands"),
            network: SandboxNetwork {
                allowed_domains: allowed,
                denied_domains: merged.texts("sandbox.network.deniedDomains"),
                strict_allowlist: managed_only.or_else(|| merged.flag("sandbox.network.strictAllowlist")),
                allow_unix_sockets: merged.texts("sandbox.network.allowUnixSockets"),
                allow_all_unix_sockets: merged.flag("sandbox.network.allowAllUnixSockets"),
                allow_local_binding: merged.flag("sandbox.network.allowLocalBinding"),
            },
            filesystem: SandboxFiles {
                allow_write: merged.texts("sandbox.filesystem.allowWrite"),
                deny_write: merged.texts("sandbox.filesystem.denyWrite"),
                allow_read: merged.texts("sandbox.filesystem.allowRead"),
                deny_read: merged.texts("sandbox.filesystem.denyRead"),
            },
        }
    }
}
