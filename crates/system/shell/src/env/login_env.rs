//! Captures the environment of the user's login shell.

use std::{
    collections::BTreeSet,
    ffi::{CString, OsStr, OsString},
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use haft_process::{CapturedOutput, OutputCapture, ProcessOwner};
use haft_types::EnvVars;

use crate::env::{
    ShellDefinitions, entry,
    login_env_cache::{LoginEnvCache, is_passing},
};

/// Environment and definitions of a login shell.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LoginEnv {
    /// Exported variables.
    pub environment: Vec<(OsString, OsString)>,
    /// Aliases and functions.
    pub definitions: ShellDefinitions,
    /// What was left out and why; to show to the user once.
    pub notices: Vec<String>,
}

/// How to capture the environment.
#[derive(Clone, Debug)]
pub struct LoginEnvOptions {
    /// The user's shell.
    pub shell: PathBuf,
    /// The bash that runs commands.
    pub bash: PathBuf,
    /// The home directory.
    pub home: PathBuf,
    /// Timeout for start-up files.
    pub patience: Duration,
    /// Directory of the cache for slow start-up files; `None` for no cache.
    pub kept: Option<PathBuf>,
}

/// Descriptor for the dump, so that output of start-up files does not mix with it.
const DUMP: i32 = 9;
const VARIABLES: &str = "\u{1}variables";
const ALIASES: &str = "\u{1}aliases";
const FUNCTIONS: &str = "\u{1}functions";
const BUILTINS: &str = "\u{1}builtins";
const END: &str = "\u{1}end";

const BASH: &str = r#"
printf '\1variables\0' >&9; \command env -0 >&9
[ -n "$HAFT_RC" ] && [ -r "$HAFT_RC" ] && . "$HAFT_RC" >/dev/null 2>&1 </dev/null
printf '\1aliases\0' >&9
for haft_name in "${!BASH_ALIASES[@]}"; do printf '%s\0%s\0' "$haft_name" "${BASH_ALIASES[$haft_name]}"; done >&9
printf '\1functions\0' >&9
while read -r _ _ haft_name; do printf '%s\0' "$haft_name"; declare -f -- "$haft_name"; printf '\0'; done < <(declare -F) >&9
printf '\1end\0' >&9
"#;
const ZSH: &str = r#"
printf '\1variables\0' >&9; \command env -0 >&9
printf '\1aliases\0' >&9
for haft_name in ${(k)aliases}; do printf '%s\0%s\0' "$haft_name" "$aliases[$haft_name]"; done >&9
printf '\1end\0' >&9
"#;
const OTHER: &str = r"printf '\001variables\000' >&9; command env -0 >&9; printf '\001end\000' >&9";

/// Reads each definition back like a command would, and prints the names of those that fail.
const CHECK: &str = r#"
shopt -s extglob
while IFS= read -r -d '' haft_name && IFS= read -r -d '' haft_text; do
  eval "function $haft_text" 2>/dev/null || printf '%s\0' "$haft_name" >&9
done
printf '\1builtins\0' >&9; compgen -bk | tr '\n' '\0' >&9; printf '\1end\0' >&9
"#;

impl LoginEnvOptions {
    /// Defaults for this user: the shell in `CLAUDE_CODE_SHELL` or `SHELL`, and a timeout of ten
    /// seconds.
    pub fn from_variables(bash: &Path, variables: &EnvVars) -> Self {
        let named = ["HAFT_SHELL", "CLAUDE_CODE_SHELL", "SHELL"].into_iter();
        let named = named.filter_map(|name| variables.os_text(name));
        let shell = named.map(PathBuf::from).find(|shell| shell.is_absolute() && shell.exists());
        let home = variables.os_text("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
        let shell = shell.unwrap_or_else(|| bash.to_owned());
        Self { shell, bash: bash.to_owned(), home, patience: Duration::from_secs(10), kept: None }
    }

    /// Runs the shell once as an interactive login shell and captures its environment. Never fails:
    /// problems become notices. Blocks up to the timeout; returns the cached result if one is valid.
    pub fn capture(&self, owner: &ProcessOwner, environment: &[(OsString, OsString)]) -> LoginEnv {
        let name = self.shell.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let script = match name {
            "bash" => BASH,
            "zsh" => ZSH,
            _ => OTHER,
        };
        let mut variables: Vec<CString> = environment.iter().filter_map(|it| entry(&it.0, &it.1)).collect();
        if name == "bash" && !self.login_file_reads_rc() {
            variables.extend(entry(OsStr::new("HAFT_RC"), self.home.join(".bashrc").as_os_str()));
        }
        let kept =
            self.kept.as_ref().map(|dir| LoginEnvCache::new(dir, &self.shell, &self.home, environment));
        if let Some(dump) = kept.as_ref().and_then(LoginEnvCache::answer) {
            let collected = CapturedOutput { dump, errors: Vec::new(), timed_out: false };
            let mut captured = self.understood(owner, &variables, collected);
            captured.environment.retain(|(name, _)| !is_passing(name));
            return captured;
        }
        let started = Instant::now();
        let collect = OutputCapture {
            call: "shell-environment",
            program: &self.shell,
            arguments: &["-l", "-i", "-c", script],
            environment: &variables,
            directory: &self.home,
            dump: DUMP,
            input: Vec::new(),
            patience: self.patience,
        };
        match collect.run(owner) {
            Ok(collected) => {
                let complete = collected.dump.ends_with(format!("{END}\0").as_bytes());
                if let Some(kept) = kept.filter(|_| complete && !collected.timed_out) {
                    kept.keep(&collected.dump, started.elapsed());
                }
                self.understood(owner, &variables, collected)
            }
            Err(err) => self.nothing(&err.to_string()),
        }
    }

    fn understood(&self, owner: &ProcessOwner, variables: &[CString], collected: CapturedOutput) -> LoginEnv {
        let mut captured = parse(&collected.dump);
        captured.environment.retain(|(name, _)| name != "HAFT_RC" && name != "_" && name != "SHLVL");
        if captured.environment.is_empty() {
            let why = if collected.timed_out {
                format!("it took longer than {:?}", self.patience)
            } else {
                String::from("it ended before it could tell")
            };
            return self.nothing(&why);
        }
        captured.notices.extend(complaint(&collected.errors));
        self.check(owner, variables, &mut captured);
        captured
    }

    fn nothing(&self, why: &str) -> LoginEnv {
        let shell = self.shell.display();
        let notice = format!("the environment of your login shell {shell} is not used: {why}");
        LoginEnv { notices: vec![notice], ..LoginEnv::default() }
    }

    /// Whether the login start-up file sources `.bashrc` itself.
    fn login_file_reads_rc(&self) -> bool {
        let files = [".bash_profile", ".bash_login", ".profile"].map(|name| self.home.join(name));
        let first = files.iter().find_map(|file| std::fs::read(file).ok());
        first.is_some_and(|text| memchr::memmem::find(&text, b"bashrc").is_some())
    }

    fn check(&self, owner: &ProcessOwner, variables: &[CString], captured: &mut LoginEnv) {
        // Most machines define nothing; skip the check, because the first command waits for it.
        if captured.definitions.is_empty() {
            return;
        }
        let mut input = Vec::new();
        for (name, body) in &captured.definitions.functions {
            input.extend([name.as_bytes(), b"\0", body.as_bytes(), b"\0"].concat());
        }
        let collect = OutputCapture {
            call: "shell-environment",
            program: &self.bash,
            arguments: &["--norc", "--noprofile", "-c", CHECK],
            environment: variables,
            directory: &self.home,
            dump: DUMP,
            input,
            patience: self.patience,
        };
        let told = collect.run(owner).map(|it| it.dump).unwrap_or_default();
        let mut records = told.split(|it| *it == 0);
        let unreadable: Vec<String> = records
            .by_ref()
            .take_while(|it| *it != BUILTINS.as_bytes())
            .map(|it| String::from_utf8_lossy(it).into_owned())
            .collect();
        let builtins: BTreeSet<String> =
            records.map(|it| String::from_utf8_lossy(it).into_owned()).filter(|it| !it.is_empty()).collect();
        for name in &unreadable {
            captured.definitions.functions.remove(name);
            captured.notices.push(format!("function `{name}` cannot be read back"));
        }
        let path = captured.environment.iter().find(|it| it.0 == "PATH").map(|it| it.1.clone());
        let dirs: Vec<PathBuf> = path.iter().flat_map(std::env::split_paths).collect();
        let dirs: Vec<&Path> = dirs.iter().map(PathBuf::as_path).collect();
        captured.notices.extend(captured.definitions.drop_broken(&dirs, &builtins));
    }
}

fn parse(dump: &[u8]) -> LoginEnv {
    let mut captured = LoginEnv::default();
    let mut section: &[u8] = b"";
    let mut waiting: Option<String> = None;
    for record in dump.split(|it| *it == 0) {
        if [VARIABLES, ALIASES, FUNCTIONS, END].iter().any(|it| it.as_bytes() == record) {
            section = record;
            waiting = None;
        } else if section == VARIABLES.as_bytes() {
            if let Some(at) = memchr::memchr(b'=', record) {
                let value = OsString::from_vec(record[at + 1..].to_vec());
                captured.environment.push((OsString::from_vec(record[..at].to_vec()), value));
            }
        } else if section == ALIASES.as_bytes() || section == FUNCTIONS.as_bytes() {
            let Ok(text) = String::from_utf8(record.to_vec()) else { continue };
            match waiting.take() {
                None => waiting = Some(text),
                Some(name) if !is_plain_name(&name) => {}
                Some(name) if section == ALIASES.as_bytes() => {
                    captured.definitions.aliases.insert(name, text);
                }
                Some(name) => {
                    captured.definitions.functions.insert(name, text.trim_end().to_owned());
                }
            }
        }
    }
    captured
}

/// Whether the name needs no quoting in a script.
fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|it| it.is_alphanumeric() || matches!(it, '_' | '-' | '.' | ':' | '@' | '+' | '%'))
}

/// The first error message of a start-up file, unless it is about the missing terminal.
fn complaint(errors: &[u8]) -> Option<String> {
    let text = crate::output::clean(errors);
    let mut lines = text.lines().filter(|line| line.contains("line ") || line.contains("parse error"));
    let line =
        lines.find(|line| !line.contains("terminal process group") && !line.contains("job control"))?;
    Some(format!("a start-up file of your shell reported: {}", haft_types::text::one_line(line, 200)))
}
