use serde_json::Value;

use super::{FromProject, SettingKey, SettingShape, Speakers};

fn is_true(value: &Value) -> bool {
    *value == Value::Bool(true)
}

fn is_all(value: &Value) -> bool {
    value == "all"
}

fn is_false(value: &Value) -> bool {
    *value == Value::Bool(false)
}

/// Only this mode is stricter than whatever the person has chosen.
fn is_plan(value: &Value) -> bool {
    value.as_str() == Some("plan")
}

fn is_bypass(value: &Value) -> bool {
    value.as_str() == Some("bypassPermissions")
}

/// All top-level keys: first those Haft reads or gives a shape, then Haft's
/// own, then those that are known from elsewhere and silently passed over.
pub(crate) const KEYS: &[SettingKey] = &[
    SettingKey::of("$schema", SettingShape::Text).tightens(),
    SettingKey::of("apiKeyHelper", SettingShape::Text),
    SettingKey::of("proxyAuthHelper", SettingShape::Text),
    SettingKey::of("awsCredentialExport", SettingShape::Text),
    SettingKey::of("awsAuthRefresh", SettingShape::Text),
    SettingKey::of("gcpAuthRefresh", SettingShape::Text),
    SettingKey::of("policyHelper", SettingShape::Any).managed_only(),
    SettingKey::of("respectGitignore", SettingShape::Flag),
    SettingKey::of("cleanupPeriodDays", SettingShape::Number),
    SettingKey::of("desktopSessionCleanupPeriodDays", SettingShape::Number),
    SettingKey::of("skillListingMaxDescChars", SettingShape::Number),
    SettingKey::of("skillListingBudgetFraction", SettingShape::Number),
    SettingKey::of("env", SettingShape::TextMap),
    SettingKey::of("includeCoAuthoredBy", SettingShape::Flag),
    SettingKey::of("includeGitInstructions", SettingShape::Flag),
    SettingKey::of("permissions", SettingShape::Object(PERMISSIONS)),
    SettingKey::of("model", SettingShape::Text),
    SettingKey::of("fallbackModel", SettingShape::Any),
    SettingKey::of("availableModels", SettingShape::List),
    SettingKey::of("deniedModels", SettingShape::Texts).tightens(),
    SettingKey::of("modelOverrides", SettingShape::Map),
    SettingKey::of("enableAllProjectMcpServers", SettingShape::Flag),
    SettingKey::of("enabledMcpjsonServers", SettingShape::Texts),
    SettingKey::of("disabledMcpjsonServers", SettingShape::Texts).tightens(),
    SettingKey::of("disableClaudeAiConnectors", SettingShape::Flag).tightens_if(is_true),
    SettingKey::of("skillOverrides", SettingShape::Map),
    SettingKey::of("disableBundledSkills", SettingShape::Flag).tightens_if(is_true),
    SettingKey::of("managedMcpServers", SettingShape::Map).managed_only(),
    SettingKey::of("allowedMcpServers", SettingShape::Values),
    SettingKey::of("deniedMcpServers", SettingShape::Values).tightens(),
    SettingKey::of("hooks", SettingShape::Hooks),
    SettingKey::of("worktree", SettingShape::Object(WORKTREE)),
    SettingKey::of("disableAllHooks", SettingShape::Flag),
    SettingKey::of("disableAgentView", SettingShape::Flag),
    SettingKey::of("disableRemoteControl", SettingShape::Flag).tightens_if(is_true),
    SettingKey::of("disableWorkflows", SettingShape::Flag).tightens_if(is_true),
    SettingKey::of("disableSkillShellExecution", SettingShape::Flag).tightens_if(is_true),
    SettingKey::of("defaultShell", SettingShape::Text),
    SettingKey::of("bashEditDiffEnabled", SettingShape::Flag),
    SettingKey::of("bashOutputMaxChars", SettingShape::Number),
    SettingKey::of("taskOutputMaxChars", SettingShape::Number),
    SettingKey::of("respondToBashCommands", SettingShape::Flag),
    SettingKey::of("allowManagedHooksOnly", SettingShape::Flag).managed_only(),
    SettingKey::of("allowedHttpHookUrls", SettingShape::Texts),
    SettingKey::of("httpHookAllowedEnvVars", SettingShape::Texts),
    SettingKey::of("allowManagedPermissionRulesOnly", SettingShape::Flag).managed_only(),
    SettingKey::of("allowManagedMcpServersOnly", SettingShape::Flag).managed_only(),
    SettingKey::of("strictPluginOnlyCustomization", SettingShape::Any),
    SettingKey::of("statusLine", SettingShape::Map),
    SettingKey::of("enabledPlugins", SettingShape::Map),
    SettingKey::of("extraKnownMarketplaces", SettingShape::Map),
    SettingKey::of("additionalMarketplaces", SettingShape::Map),
    SettingKey::of("parentSettingsBehavior", SettingShape::Any).managed_only(),
    SettingKey::of("managedSourcesBehavior", SettingShape::Any).managed_only(),
    SettingKey::of("outputStyle", SettingShape::Text),
    SettingKey::of("language", SettingShape::Text),
    SettingKey::of("maskSecrets", SettingShape::Text).tightens_if(is_all),
    SettingKey::of("skipWebFetchPreflight", SettingShape::Flag),
    SettingKey::of("sandbox", SettingShape::Object(SANDBOX)),
    SettingKey::of("spinnerTipsEnabled", SettingShape::Flag),
    SettingKey::of("syntaxHighlightingDisabled", SettingShape::Flag),
    SettingKey::of("promptCacheTtl", SettingShape::Any),
    SettingKey::of("subagentPromptCacheTtl", SettingShape::Any),
    SettingKey::of("alwaysThinkingEnabled", SettingShape::Flag),
    SettingKey::of("effortLevel", SettingShape::Text),
    SettingKey::of("maxEffortLevel", SettingShape::Text),
    SettingKey::of("autoCompactWindow", SettingShape::Number),
    SettingKey::of("askUserQuestionTimeout", SettingShape::Any),
    SettingKey::of("agent", SettingShape::Text),
    SettingKey::of("plansDirectory", SettingShape::Text),
    SettingKey::of("prefersReducedMotion", SettingShape::Flag),
    SettingKey::of("autoMemoryEnabled", SettingShape::Flag),
    SettingKey::of("autoMemoryDirectory", SettingShape::Text),
    SettingKey::of("skipDangerousModePermissionPrompt", SettingShape::Flag).never_from_project(),
    SettingKey::of("disableAutoMode", SettingShape::Word(&["disable"])).tightens(),
    SettingKey::of("claudeMdExcludes", SettingShape::Texts),
    SettingKey::of("theme", SettingShape::Text),
    SettingKey::of("verbose", SettingShape::Flag),
    SettingKey::of("autoCompactEnabled", SettingShape::Flag),
    SettingKey::of("precomputeCompactionEnabled", SettingShape::Flag),
    SettingKey::of("fileCheckpointingEnabled", SettingShape::Flag),
    SettingKey::of("showTurnDuration", SettingShape::Flag),
    SettingKey::of("todoFeatureEnabled", SettingShape::Flag),
    SettingKey::of("skipAutoPermissionPrompt", SettingShape::Flag).never_from_project(),
    SettingKey::of("autoMode", SettingShape::Map),
    // Haft's own.
    SettingKey::of("disabledHooks", SettingShape::Texts),
    SettingKey::of("features", SettingShape::FlagMap),
    SettingKey::of("web", SettingShape::Object(WEB)),
    SettingKey::of("lsp", SettingShape::Object(LSP)),
    SettingKey::of("triggers", SettingShape::Map).never_from_project(),
    SettingKey::of("terminal", SettingShape::Map),
    SettingKey::of("hosts", SettingShape::Map).never_from_project(),
    SettingKey::of("host", SettingShape::Any).never_from_project(),
    SettingKey::of("toolHost", SettingShape::Map).never_from_project(),
    // Known, not used by Haft.
    SettingKey::of("processWrapper", SettingShape::Any),
    SettingKey::of("fileSuggestion", SettingShape::Any),
    SettingKey::of("syncClaudeAiSkills", SettingShape::Any),
    SettingKey::of("syncClaudeAiPlugins", SettingShape::Any),
    SettingKey::of("wslInheritsWindowsSettings", SettingShape::Any),
    SettingKey::of("attribution", SettingShape::Any),
    SettingKey::of("attributionProject", SettingShape::Any),
    SettingKey::of("attributionProjectPolicy", SettingShape::Any),
    SettingKey::of("enforceAvailableModels", SettingShape::Any),
    SettingKey::of("availableModelsMatch", SettingShape::Any),
    SettingKey::of("modelPicker", SettingShape::Any),
    SettingKey::of("modelPricing", SettingShape::Any),
    SettingKey::of("disableReplyCheck", SettingShape::Any),
    SettingKey::of("disableArtifact", SettingShape::Any),
    SettingKey::of("enableArtifact", SettingShape::Any),
    SettingKey::of("enableWorkflows", SettingShape::Any),
    SettingKey::of("workflowSizeGuideline", SettingShape::Any),
    SettingKey::of("workflowKeywordTriggerEnabled", SettingShape::Any),
    SettingKey::of("disableWindowsBashCommandSplit", SettingShape::Any),
    SettingKey::of("allowAllClaudeAiMcps", SettingShape::Any),
    SettingKey::of("allowClaudeInChromeWithManagedMcp", SettingShape::Any),
    SettingKey::of("prUrlTemplate", SettingShape::Any),
    SettingKey::of("footerLinksRegexes", SettingShape::Any),
    SettingKey::of("subagentStatusLine", SettingShape::Any),
    SettingKey::of("prependPlugins", SettingShape::Any),
    SettingKey::of("appendPlugins", SettingShape::Any),
    SettingKey::of("strictKnownMarketplaces", SettingShape::Any),
    SettingKey::of("allowedMarketplaces", SettingShape::Any),
    SettingKey::of("blockedMarketplaces", SettingShape::Any),
    SettingKey::of("disableCommandPluginSources", SettingShape::Any),
    SettingKey::of("disableSideloadFlags", SettingShape::Any),
    SettingKey::of("pluginSuggestionMarketplaces", SettingShape::Any),
    SettingKey::of("forceLoginMethod", SettingShape::Any),
    SettingKey::of("forceLoginGatewayUrl", SettingShape::Any),
    SettingKey::of("gatewayInternalNetworks", SettingShape::Any),
    SettingKey::of("forceLoginOrgUUID", SettingShape::Any),
    SettingKey::of("allowedProviders", SettingShape::Any),
    SettingKey::of("forceRemoteSettingsRefresh", SettingShape::Any),
    SettingKey::of("otelHeadersHelper", SettingShape::Text),
    SettingKey::of("viewMode", SettingShape::Any),
    SettingKey::of("feedbackSurveyRate", SettingShape::Any),
    SettingKey::of("feedbackDrafts", SettingShape::Any),
    SettingKey::of("spinnerVerbs", SettingShape::Any),
    SettingKey::of("spinnerTipsOverride", SettingShape::Any),
    SettingKey::of("maxProseWidth", SettingShape::Any),
    SettingKey::of("spellcheck", SettingShape::Any),
    SettingKey::of("terminalTitleFromRename", SettingShape::Any),
    SettingKey::of("modelSettings", SettingShape::Any),
    SettingKey::of("ultracode", SettingShape::Any),
    SettingKey::of("advisorModel", SettingShape::Any),
    SettingKey::of("fastMode", SettingShape::Any),
    SettingKey::of("fastModePerSessionOptIn", SettingShape::Any),
    SettingKey::of("promptSuggestionEnabled", SettingShape::Any),
    SettingKey::of("emojiCompletionEnabled", SettingShape::Any),
    SettingKey::of("showClearContextOnPlanAccept", SettingShape::Any),
    SettingKey::of("dialogExpiry", SettingShape::Any),
    SettingKey::of("companyAnnouncements", SettingShape::Any),
    SettingKey::of("pluginConfigs", SettingShape::Any),
    SettingKey::of("remote", SettingShape::Any),
    SettingKey::of("autoUpdatesChannel", SettingShape::Any),
    SettingKey::of("minimumVersion", SettingShape::Any),
    SettingKey::of("requiredMinimumVersion", SettingShape::Any),
    SettingKey::of("requiredMaximumVersion", SettingShape::Any),
    SettingKey::of("tui", SettingShape::Any),
    SettingKey::of("voice", SettingShape::Any),
    SettingKey::of("channelsEnabled", SettingShape::Any),
    SettingKey::of("allowedChannelPlugins", SettingShape::Any),
    SettingKey::of("timeFormat", SettingShape::Any),
    SettingKey::of("timeZone", SettingShape::Any),
    SettingKey::of("autoDreamEnabled", SettingShape::Any),
    SettingKey::of("showThinkingSummaries", SettingShape::Any),
    SettingKey::of("sshConfigs", SettingShape::Any),
    SettingKey::of("sshHostCommands", SettingShape::Any),
    SettingKey::of("claudeMd", SettingShape::Any),
    SettingKey::of("pluginTrustMessage", SettingShape::Any),
    SettingKey::of("editorMode", SettingShape::Any),
    SettingKey::of("keybindingFlavor", SettingShape::Any),
    SettingKey::of("vimInsertModeRemaps", SettingShape::Any),
    SettingKey::of("preferredNotifChannel", SettingShape::Any),
    SettingKey::of("idleCompaction", SettingShape::Any),
    SettingKey::of("switchModelsOnFlag", SettingShape::Any),
    SettingKey::of("autoContinueAtUsageLimit", SettingShape::Any),
    SettingKey::of("autoScrollEnabled", SettingShape::Any),
    SettingKey::of("wheelScrollAccelerationEnabled", SettingShape::Any),
    SettingKey::of("showMessageTimestamps", SettingShape::Any),
    SettingKey::of("terminalProgressBarEnabled", SettingShape::Any),
    SettingKey::of("teammateMode", SettingShape::Any),
    SettingKey::of("remoteControlAtStartup", SettingShape::Any),
    SettingKey::of("isolatePeerMachines", SettingShape::Any),
    SettingKey::of("daemonColdStart", SettingShape::Any),
    SettingKey::of("crossSessionInbound", SettingShape::Any),
    SettingKey::of("autoUploadSessions", SettingShape::Any),
    SettingKey::of("inputNeededNotifEnabled", SettingShape::Any),
    SettingKey::of("agentPushNotifEnabled", SettingShape::Any),
    SettingKey::of("useAutoModeDuringPlan", SettingShape::Any),
    SettingKey::of("disableDeepLinkRegistration", SettingShape::Any),
    SettingKey::of("voiceEnabled", SettingShape::Any),
    SettingKey::of("defaultView", SettingShape::Any),
];

const MODES: &[&str] = &["default", "manual", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions"];

const PERMISSIONS: &[SettingKey] = &[
    SettingKey::of("allow", SettingShape::Texts),
    SettingKey::of("deny", SettingShape::Texts).tightens(),
    SettingKey::of("ask", SettingShape::Texts).tightens(),
    SettingKey {
        name: "defaultMode",
        shape: SettingShape::Word(MODES),
        from_project: FromProject::NeverIf { never: is_bypass, tightens: is_plan },
        from: Speakers::All,
    },
    SettingKey::of("disableBypassPermissionsMode", SettingShape::Word(&["disable"])).tightens(),
    SettingKey::of("disableAutoMode", SettingShape::Word(&["disable"])).tightens(),
    SettingKey::of("additionalDirectories", SettingShape::Texts),
    SettingKey::of("blockReadsOutsideWorkingDirectories", SettingShape::Flag).tightens_if(is_true),
    SettingKey::of("blockWritesOutsideWorkingDirectories", SettingShape::Flag).tightens_if(is_true),
    SettingKey::of("denyInsteadOfPrompting", SettingShape::Flag).tightens_if(is_true),
];

/// What lets a call near this machine, or sends questions of the person to a
/// server, is the person's own to say.
const LSP: &[SettingKey] = &[
    SettingKey::of("servers", SettingShape::Map),
    SettingKey::of("disabled", SettingShape::Texts).tightens(),
    SettingKey::of("editDiagnostics", SettingShape::Flag).tightens_if(is_false),
    SettingKey::of("memoryMb", SettingShape::Number),
];

const WEB: &[SettingKey] = &[
    SettingKey::of("userAgent", SettingShape::Text),
    SettingKey::of("allowPrivateHosts", SettingShape::Texts).never_from_project(),
    SettingKey::of("preapprovedDomains", SettingShape::Texts),
    SettingKey::of("cacheSeconds", SettingShape::Number),
    SettingKey::of("summaryModel", SettingShape::Text),
    SettingKey::of(
        "searchProvider",
        SettingShape::Word(&["brave", "tavily", "exa", "kagi", "searxng", "model", "none"]),
    )
    .never_from_project(),
    SettingKey::of("searchUrl", SettingShape::Text).never_from_project(),
];

const WORKTREE: &[SettingKey] = &[
    SettingKey::of("symlinkDirectories", SettingShape::Texts),
    SettingKey::of("sparsePaths", SettingShape::Texts),
    SettingKey::of("baseRef", SettingShape::Word(&["fresh", "head"])),
    SettingKey::of("bgIsolation", SettingShape::Any),
    SettingKey::of("location", SettingShape::Text),
];

/// Turning the sandbox on is not on the list of what tightens: commands may be
/// allowed without a question because they are in it.
const SANDBOX: &[SettingKey] = &[
    SettingKey::of("enabled", SettingShape::Flag),
    SettingKey::of("failIfUnavailable", SettingShape::Flag).tightens_if(is_true),
    SettingKey::of("autoAllowBashIfSandboxed", SettingShape::Flag).tightens_if(is_false),
    SettingKey::of("allowUnsandboxedCommands", SettingShape::Flag).tightens_if(is_false),
    SettingKey::of("excludedCommands", SettingShape::Texts),
    // Our own: local MCP servers are held too.
    SettingKey::of("mcpServers", SettingShape::Flag).tightens_if(is_true),
    // Our own: where nobody is asked, files of the home that a line does not name stay.
    SettingKey::of("keepHome", SettingShape::Flag).tightens_if(is_true),
    SettingKey::of("network", SettingShape::Object(SANDBOX_NETWORK)),
    SettingKey::of("filesystem", SettingShape::Object(SANDBOX_FILES)),
    SettingKey::of("credentials", SettingShape::Map),
    SettingKey::of("ignoreViolations", SettingShape::Map),
    SettingKey::of("enableWeakerNestedSandbox", SettingShape::Flag),
    SettingKey::of("allowNestedUserNamespaces", SettingShape::Flag),
    SettingKey::of("ripgrep", SettingShape::Map),
    SettingKey::of("bwrapPath", SettingShape::Text),
    SettingKey::of("socatPath", SettingShape::Text),
];

const SANDBOX_NETWORK: &[SettingKey] = &[
    SettingKey::of("allowedDomains", SettingShape::Texts),
    SettingKey::of("deniedDomains", SettingShape::Texts).tightens(),
    SettingKey::of("strictAllowlist", SettingShape::Flag).tightens_if(is_true),
    SettingKey::of("allowManagedDomainsOnly", SettingShape::Flag).tightens_if(is_true),
    SettingKey::of("allowUnixSockets", SettingShape::Texts),
    SettingKey::of("allowAllUnixSockets", SettingShape::Flag),
    SettingKey::of("allowLocalBinding", SettingShape::Flag),
    SettingKey::of("allowMachLookup", SettingShape::Texts),
    SettingKey::of("httpProxyPort", SettingShape::Number),
    SettingKey::of("socksProxyPort", SettingShape::Number),
    SettingKey::of("tlsTerminate", SettingShape::Any),
];

const SANDBOX_FILES: &[SettingKey] = &[
    SettingKey::of("allowWrite", SettingShape::Texts),
    SettingKey::of("denyWrite", SettingShape::Texts).tightens(),
    SettingKey::of("denyRead", SettingShape::Texts).tightens(),
    SettingKey::of("allowRead", SettingShape::Texts),
    SettingKey::of("disabled", SettingShape::Flag).tightens_if(is_false),
];
