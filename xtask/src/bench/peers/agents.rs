//! The measured agents, and how each is given the same work: its call format and its settings for
//! another model URL.

use std::{fs, path::Path, path::PathBuf};

use serde_json::{Value, json};

/// An agent.
pub(super) struct MeasuredAgent {
    /// Name in the table.
    pub(super) name: &'static str,
    /// npm package and version; `None` for Haft.
    pub(super) package: Option<(&'static str, &'static str)>,
    /// Program below `node_modules`, and its first arguments.
    program: &'static [&'static str],
    /// Arguments that run a prompt without permission prompts.
    pub(super) arguments: &'static [&'static str],
    /// Environment variables; `@URL@` is replaced by the model's URL.
    variables: &'static [(&'static str, &'static str)],
    /// A settings file below the home directory; `@URL@` as above.
    settings: Option<(&'static str, &'static str)>,
    /// Builds the call that reads a file.
    pub(super) read: fn(&str) -> Value,
    /// Builds the call that runs a command.
    pub(super) command: fn(&str) -> Value,
}

impl MeasuredAgent {
    /// Returns program and first arguments; `None` if it is not installed.
    pub(super) fn program(&self, haft: &Path, modules: &Path) -> Option<Vec<String>> {
        if self.package.is_none() {
            return Some(vec![haft.display().to_string()]);
        }
        let (script, runner) = self.program.split_last()?;
        let path: PathBuf = modules.join(script);
        let mut words: Vec<String> = runner.iter().map(|it| (*it).to_owned()).collect();
        words.push(path.display().to_string());
        path.is_file().then_some(words)
    }

    /// Returns the environment variables for a URL.
    pub(super) fn variables(&self, url: &str) -> Vec<(&'static str, String)> {
        self.variables.iter().map(|(name, value)| (*name, value.replace("@URL@", url))).collect()
    }

    /// Writes its settings to a home directory.
    pub(super) fn settle(&self, home: &Path, url: &str) -> Result<(), String> {
        let Some((place, text)) = self.settings else { return Ok(()) };
        let path = home.join(place);
        let dir = path.parent().ok_or("a settings file without a directory")?;
        fs::create_dir_all(dir).map_err(|err| err.to_string())?;
        fs::write(&path, text.replace("@URL@", url)).map_err(|err| err.to_string())
    }
}

fn call(name: &str, input: Value) -> Value {
    json!({"tool": {"name": name, "input": input}})
}

/// All agents, Haft first, because the others are compared with it. Downloads, telemetry and updates of
/// the others are disabled by their own settings, so that only the work is measured.
pub(super) const AGENTS: &[MeasuredAgent] = &[
    MeasuredAgent {
        name: "Haft",
        package: None,
        program: &[],
        arguments: &["-p", "go", "--permission-mode", "bypassPermissions"],
        variables: &[("ANTHROPIC_BASE_URL", "@URL@"), ("ANTHROPIC_API_KEY", "bench"), ("IS_SANDBOX", "1")],
        settings: None,
        read: |file| call("Read", json!({"file_path": file})),
        command: |line| call("Bash", json!({"command": line})),
    },
    MeasuredAgent {
        name: "Claude Code",
        package: Some(("@anthropic-ai/claude-code", "2.1.197")),
        program: &["@anthropic-ai/claude-code/bin/claude.exe"],
        arguments: &["-p", "go", "--dangerously-skip-permissions"],
        variables: &[
            ("ANTHROPIC_BASE_URL", "@URL@"),
            ("ANTHROPIC_API_KEY", "bench"),
            ("IS_SANDBOX", "1"),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
        ],
        settings: None,
        read: |file| call("Read", json!({"file_path": file})),
        command: |line| call("Bash", json!({"command": line, "description": "Print a number"})),
    },
    MeasuredAgent {
        name: "Codex",
        package: Some(("@openai/codex", "0.169.0")),
        program: &["@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"],
        arguments: &["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "go"],
        variables: &[("MOCK_KEY", "bench")],
        settings: Some((
            ".codex/config.toml",
            "model = \"gpt-5\"\nmodel_provider = \"mock\"\ncheck_for_update_on_startup = false\n\
             [analytics]\nenabled = false\n\
             [model_providers.mock]\nname = \"mock\"\nbase_url = \"@URL@/v1\"\nenv_key = \"MOCK_KEY\"\nwire_api = \"responses\"\n",
        )),
        // It has no tool for reading files.
        read: |file| call("exec_command", json!({"cmd": format!("cat {file}"), "login": false})),
        command: |line| call("exec_command", json!({"cmd": line, "login": false})),
    },
    MeasuredAgent {
        name: "Gemini CLI",
        package: Some(("@google/gemini-cli", "0.61.0")),
        program: &["node", "@google/gemini-cli/bundle/gemini.js"],
        arguments: &["-p", "go", "--yolo", "--skip-trust", "-m", "gemini-2.5-pro"],
        variables: &[("GEMINI_API_KEY", "bench"), ("GOOGLE_GEMINI_BASE_URL", "@URL@")],
        settings: Some((
            ".gemini/settings.json",
            r#"{"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"disableAutoUpdate": true}, "model": {"disableLoopDetection": true},
                "privacy": {"usageStatisticsEnabled": false}, "telemetry": {"enabled": false}}"#,
        )),
        read: |file| call("read_file", json!({"file_path": file})),
        command: |line| call("run_shell_command", json!({"command": line, "description": "Print a number"})),
    },
    MeasuredAgent {
        name: "opencode",
        package: Some(("opencode-ai", "1.18.33")),
        program: &["opencode-ai/bin/opencode.exe"],
        arguments: &["run", "go"],
        variables: &[
            ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
            ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
        ],
        settings: Some((
            ".config/opencode/opencode.json",
            r#"{"model": "anthropic/claude-sonnet-4-5", "autoupdate": false, "share": "disabled", "permission": {"*": "allow"},
                "provider": {"anthropic": {"options": {"baseURL": "@URL@/v1", "apiKey": "bench"}}}}"#,
        )),
        read: |file| call("read", json!({"filePath": file})),
        command: |line| call("bash", json!({"command": line, "description": "Print a number"})),
    },
];
