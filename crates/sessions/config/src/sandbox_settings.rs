use crate::{SettingsLayer, Sourced, merge_layers::MergedSettings};

/// The sandbox of commands, as the settings want it. What nobody says is
/// absent; the builder of the sandbox knows the defaults.
#[derive(Clone, Debug, Default)]
pub struct SandboxSettings {
    /// Whether commands run in it.
    pub enabled: Option<Sourced<bool>>,
    /// Whether to refuse to work where it cannot be had.
    pub fail_if_unavailable: Option<Sourced<bool>>,
    /// Whether commands in it run without a question.
    pub auto_allow_bash: Option<Sourced<bool>>,
    /// Whether a command may ask to run outside.
    pub allow_unsandboxed_commands: Option<Sourced<bool>>,
    /// Commands that run outside.
    pub excluded_commands: Vec<Sourced<String>>,
    /// What commands may reach over the network.
    pub network: SandboxNetwork,
    /// What commands may reach on the disk.
    pub filesystem: SandboxFiles,
}

/// What commands may reach over the network.
#[derive(Clone, Debug, Default)]
pub struct SandboxNetwork {
    /// Hosts that may be reached.
    pub allowed_domains: Vec<Sourced<String>>,
    /// Hosts that may not.
    pub denied_domains: Vec<Sourced<String>>,
    /// Whether hosts not listed are refused instead of asked about.
    pub strict_allowlist: Option<Sourced<bool>>,
    /// Sockets that may be used.
    pub allow_unix_sockets: Vec<Sourced<String>>,
    /// Whether all sockets may be used.
    pub allow_all_unix_sockets: Option<Sourced<bool>>,
    /// Whether servers may be started on this machine.
    pub allow_local_binding: Option<Sourced<bool>>,
}

/// What commands may reach on the disk. Paths are as written.
#[derive(Clone, Debug, Default)]
pub struct SandboxFiles {
    /// May be written.
    pub allow_write: Vec<Sourced<String>>,
    /// May not be written.
    pub deny_write: Vec<Sourced<String>>,
    /// May be read although a wider rule refuses.
    pub allow_read: Vec<Sourced<String>>,
    /// May not be read.
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
