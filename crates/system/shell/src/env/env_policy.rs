use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
};

use haft_types::secret_variables::{is_credential, is_own_secret, is_provider_secret, name_matches};

/// Variables that change the meaning of command lines, inject code into programs, or belong to Haft.
const MEANING: &[&str] = &[
    "BASHOPTS",
    "BASH_ENV",
    "BASH_FUNC_*",
    "BASH_XTRACEFD",
    "CDPATH",
    "ENV",
    "EXECIGNORE",
    "GLOBIGNORE",
    "HAFT_CALL",
    "HAFT_SANDBOX",
    "LD_AUDIT",
    "LD_PRELOAD",
    "OTEL_*",
    "PROMPT_COMMAND",
    "PS4",
    "SHELLOPTS",
];

/// Variables that make programs fail instead of waiting for input.
const NON_INTERACTIVE: &[(&str, &str)] = &[
    ("AWS_PAGER", ""),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("EDITOR", "true"),
    ("GCM_INTERACTIVE", "never"),
    ("GIT_EDITOR", "true"),
    ("GIT_PAGER", "cat"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // A pager that prints runs no preprocessor.
    ("LESS", ""),
    ("LESSOPEN", ""),
    ("LESSSECURE", "1"),
    ("MANPAGER", "cat"),
    ("MORE", ""),
    ("PAGER", "cat"),
    ("PIP_NO_INPUT", "1"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("SYSTEMD_PAGER", "cat"),
    ("TERM", "dumb"),
    ("VISUAL", "true"),
];

/// Which environment variables commands get.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EnvPolicy {
    /// Additional names to remove, such as the source of our API key; `*` is a wildcard.
    pub hide: Vec<String>,
    /// Exact names to pass although a rule removes them. Has no effect on Haft's own keys.
    pub keep: Vec<String>,
    /// Variables to set.
    pub set: Vec<(String, String)>,
    /// Whether everything that looks like a credential is removed.
    pub credentials: CredentialPolicy,
    /// Directories searched for programs after those in `PATH`.
    pub programs: Vec<PathBuf>,
}

/// What to do with credentials that are not Haft's own.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CredentialPolicy {
    /// Pass them: the user's commands need them.
    #[default]
    Pass,
    /// Remove them.
    Hide,
}

impl EnvPolicy {
    /// The policy set by this process's environment.
    pub fn from_env() -> Self {
        Self::from(|name| std::env::var(name).ok())
    }

    /// The policy set by variables: `HAFT_SUBPROCESS_ENV_SCRUB` or `CLAUDE_CODE_SUBPROCESS_ENV_SCRUB`
    /// hides credentials; `HAFT_ENV_HIDE` and `HAFT_ENV_KEEP` are comma-separated names.
    pub fn from(variable: impl Fn(&str) -> Option<String>) -> Self {
        let scrub = ["HAFT_SUBPROCESS_ENV_SCRUB", "CLAUDE_CODE_SUBPROCESS_ENV_SCRUB"];
        let is_on = |name: &&str| variable(name).is_some_and(|it| !matches!(it.as_str(), "" | "0" | "false"));
        let credentials =
            if scrub.iter().any(is_on) { CredentialPolicy::Hide } else { CredentialPolicy::Pass };
        let names = |name: &str| -> Vec<String> {
            let text = variable(name).unwrap_or_default();
            text.split(',').map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned).collect()
        };
        let (hide, keep) = (names("HAFT_ENV_HIDE"), names("HAFT_ENV_KEEP"));
        Self { credentials, hide, keep, ..Self::default() }
    }

    /// Adds variables from settings, except Haft's own keys.
    pub fn set_all(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        self.set.extend(variables.into_iter().filter(|(name, _)| !is_own_secret(name)));
    }

    /// Whether a command gets this variable.
    pub fn passes(&self, name: &OsStr) -> bool {
        let Some(name) = name.to_str() else { return true };
        if is_own_secret(name) {
            return false;
        }
        if self.keep.iter().any(|it| it == name) {
            return true;
        }
        let is_secret = match self.credentials {
            CredentialPolicy::Pass => is_provider_secret(name),
            CredentialPolicy::Hide => is_credential(name),
        };
        let mut hidden = MEANING.iter().copied().chain(self.hide.iter().map(String::as_str));
        !is_secret && !hidden.any(|pattern| name_matches(pattern, name))
    }

    /// Builds the environment of a command from ours (`own`) and the login shell's: removes what does
    /// not pass and adds what keeps programs from prompting.
    ///
    /// `PATH` comes from the login shell; for other variables our value takes precedence.
    pub fn environment(
        &self,
        own: impl IntoIterator<Item = (OsString, OsString)>,
        login: &[(OsString, OsString)],
    ) -> Vec<(OsString, OsString)> {
        let own: Vec<(OsString, OsString)> = own.into_iter().collect();
        let path = |list: &[(OsString, OsString)]| list.iter().find(|it| it.0 == "PATH").cloned();
        let mut made: Vec<(OsString, OsString)> = path(login).or_else(|| path(&own)).into_iter().collect();
        if let Some((_, path)) = made.first_mut() {
            for dir in &self.programs {
                path.push(":");
                path.push(dir);
            }
        }
        let fixed = NON_INTERACTIVE.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let marks =
            [(String::from("CLAUDECODE"), String::from("1")), (String::from("HAFT"), String::from("1"))];
        let all = self.set.iter().cloned().chain(fixed).chain(marks);
        let given = all.map(|(name, value)| (name.into(), value.into()));
        let inherited = own.into_iter().chain(login.iter().cloned()).filter(|it| self.passes(&it.0));
        for (name, value) in given.chain(inherited) {
            let valid =
                !name.is_empty() && !name.as_bytes().contains(&b'=') && !value.as_bytes().contains(&0);
            if valid && !made.iter().any(|it| it.0 == name) {
                made.push((name, value));
            }
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        list.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn name_patterns_match_variables() {
        for (pattern, name, want) in [
            ("A", "A", true),
            ("A", "AB", false),
            ("A_*", "A_B", true),
            ("*_TOKEN", "GH_TOKEN", true),
            ("*_TOKEN", "TOKEN", false),
            ("A_*_KEY", "A_B_C_KEY", true),
            ("A_*_KEY", "A_KEY", false),
            ("*", "anything", true),
        ] {
            assert_eq!(name_matches(pattern, name), want, "{pattern} {name}");
        }
    }

    #[test]
    fn env_policy_removes_own_keys_and_passes_others() {
        let policy = EnvPolicy { hide: vec![String::from("MY_PROVIDER_*")], ..EnvPolicy::default() };
        for (name, want) in [
            ("ANTHROPIC_API_KEY", false),
            ("ANTHROPIC_FOUNDRY_API_KEY", false),
            ("ANTHROPIC_BASE_URL", true),
            ("CLAUDE_CODE_OAUTH_TOKEN", false),
            ("HAFT_GATEWAY_TOKEN", false),
            ("MY_PROVIDER_KEY", false),
            ("BASH_ENV", false),
            ("BASH_FUNC_ls%%", false),
            ("GH_TOKEN", true),
            ("HOME", true),
        ] {
            assert_eq!(policy.passes(OsStr::new(name)), want, "{name}");
        }
        let strict =
            EnvPolicy { credentials: CredentialPolicy::Hide, keep: vec![String::from("GH_TOKEN")], ..policy };
        assert!(!strict.passes(OsStr::new("AWS_SECRET_ACCESS_KEY")) && strict.passes(OsStr::new("GH_TOKEN")));
        let mut told = EnvPolicy::from(|name| match name {
            "HAFT_ENV_HIDE" => Some(String::from("DB_*, SECRET_X")),
            "HAFT_ENV_KEEP" => Some(String::from("OPENAI_API_KEY,ANTHROPIC_API_KEY")),
            _ => None,
        });
        for (name, want) in
            [("DB_URL", false), ("SECRET_X", false), ("OPENAI_API_KEY", true), ("ANTHROPIC_API_KEY", false)]
        {
            assert_eq!(told.passes(OsStr::new(name)), want, "{name}");
        }
        let pair = |name: &str| (name.to_owned(), String::from("x"));
        told.set_all([pair("MINE"), pair("ANTHROPIC_API_KEY")]);
        assert_eq!(told.set, [pair("MINE")]);
    }

    #[test]
    fn environment_takes_only_path_from_login_shell() {
        let own = pairs(&[("PATH", "/own"), ("LANG", "own"), ("OPENAI_API_KEY", "x"), ("PAGER", "less")]);
        let login =
            pairs(&[("PATH", "/login"), ("LANG", "login"), ("NVM_DIR", "/nvm"), ("ANTHROPIC_API_KEY", "y")]);
        let got = EnvPolicy::default().environment(own, &login);
        let value = |name: &str| got.iter().find(|it| it.0 == name).and_then(|it| it.1.to_str());
        assert_eq!(value("PATH"), Some("/login"));
        assert_eq!(value("LANG"), Some("own"));
        assert_eq!(value("NVM_DIR"), Some("/nvm"));
        assert_eq!(value("PAGER"), Some("cat"));
        assert_eq!((value("OPENAI_API_KEY"), value("ANTHROPIC_API_KEY"), value("CI")), (None, None, None));
        assert_eq!(got.iter().filter(|it| it.0 == "PATH").count(), 1);
    }
}
