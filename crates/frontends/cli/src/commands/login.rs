//! `haft login | logout`: stores and deletes API keys.
//!
//! **Invariant:** a key is read without echo or from standard input, never from an argument that
//! other users could see. It is stored in the keyring or in a file only its owner can read, and is never
//! printed.

use std::{
    ffi::OsStr,
    io::{self, IsTerminal as _, Read as _, Write as _},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, print_line, write_error},
};
use haft_model::{StoredKey, StoredKeys};
use haft_paths::{Durability, ModeOnReplace, replace_file};
use haft_session::SessionEnvironment;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use crate::{
    args::{LoginArgs, LogoutArgs},
    run::{local_model_servers::with_causes, session_spec},
};

/// Maximum bytes read as a key; longer input is rejected.
const LONGEST_KEY: u64 = 64 * 1024;

pub(crate) fn login(args: &LoginArgs, options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let state = own_state(&premises)?;
    let mut keys = read(&state)?;
    let key = asked_key(&args.provider)?;
    if args.check {
        session_spec::runtime()?.block_on(check(&args.provider, &key))?;
    }
    let (kept, place) = match Keyring::here(&premises).filter(|_| !args.file) {
        Some(ring) => match ring.put(&args.provider, &key) {
            Ok(()) => (StoredKey::Command(ring.lookup(&args.provider)), String::from("the keyring")),
            Err(why) => {
                write_error(&format!("haft: the keyring did not take it ({why}); it goes into a file"));
                (StoredKey::Key(key), file(&state).display().to_string())
            }
        },
        None => (StoredKey::Key(key), file(&state).display().to_string()),
    };
    keys.put(&args.provider, kept);
    write(&state, &keys)?;
    let variable = StoredKeys::variable(&args.provider).unwrap_or_default();
    print_line(&format!("The key of {} is kept in {place}.", args.provider))?;
    if premises.variable(variable).is_some_and(|it| !it.trim().is_empty()) {
        print_line(&format!("{variable} is set too, and wins as long as it is."))?;
    }
    if premises.string_setting("apiKeyHelper").is_some() && args.provider == "anthropic" {
        print_line("The setting apiKeyHelper is there too, and wins as long as it is.")?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn logout(args: &LogoutArgs, options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let state = own_state(&premises)?;
    let mut keys = read(&state)?;
    let names: Vec<String> = match &args.provider {
        Some(name) => vec![name.clone()],
        None => keys.names().map(str::to_owned).collect(),
    };
    let mut forgotten = Vec::new();
    for name in names {
        if matches!(keys.get(&name), Some(StoredKey::Command(_)))
            && let Some(ring) = Keyring::here(&premises)
        {
            ring.forget(&name);
        }
        if keys.remove(&name) {
            forgotten.push(name);
        }
    }
    if forgotten.is_empty() {
        print_line("There was no key to forget.")?;
        return Ok(ExitCode::SUCCESS);
    }
    if keys.names().next().is_none() {
        std::fs::remove_file(file(&state))?;
    } else {
        write(&state, &keys)?;
    }
    print_line(&format!("Forgotten: {}.", forgotten.join(", ")))?;
    Ok(ExitCode::SUCCESS)
}

fn own_state(premises: &SessionEnvironment) -> Result<PathBuf, CliError> {
    if premises.home.is_none() && premises.variable("HAFT_CONFIG_DIR").is_none() {
        let help = "there is no home directory to keep a key in: set HOME, or give the key in a variable";
        return Err(CliError::Message(help.to_owned()));
    }
    Ok(premises.state_dir())
}

fn file(state: &Path) -> PathBuf {
    state.join("credentials.json")
}

/// Reads the stored keys.
fn read(state: &Path) -> Result<StoredKeys, CliError> {
    let path = file(state);
    match std::fs::read(&path) {
        Ok(bytes) => {
            StoredKeys::parse(&bytes).map_err(|err| CliError::Message(format!("{}: {err}", path.display())))
        }
        // No file yet. Whether it can be written shows when a key is stored.
        Err(err) if matches!(err.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(StoredKeys::default())
        }
        Err(err) => Err(CliError::Message(format!("{}: {err}", path.display()))),
    }
}

fn write(state: &Path, keys: &StoredKeys) -> Result<(), CliError> {
    let path = file(state);
    let failed = |err: &dyn std::fmt::Display| {
        let help = "set HAFT_CONFIG_DIR to a directory that can be written, or give the key in a variable";
        CliError::Message(format!("{}: {err}; {help}", path.display()))
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(state).map_err(|err| failed(&err))?;
    let text = serde_json::to_string_pretty(keys).map_err(|err| failed(&err))? + "\n";
    replace_file(&path, text.as_bytes(), ModeOnReplace::Private, Durability::ContentAndName)
        .map_err(|err| failed(&err))
}

/// Reads the key: typed without echo on a terminal, otherwise all of standard input.
fn asked_key(provider: &str) -> Result<String, CliError> {
    let input = io::stdin();
    let text = if input.is_terminal() {
        write!(io::stderr(), "Key of {provider} (it is not shown): ")?;
        io::stderr().flush()?;
        let typed = typed_hidden()?;
        write_error("");
        typed
    } else {
        let mut bytes = Vec::new();
        input.lock().take(LONGEST_KEY).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == LONGEST_KEY {
            return Err(CliError::Message(String::from("this is too long for a key; nothing is kept")));
        }
        typed_text(bytes)?
    };
    let key = text.trim();
    if key.is_empty() {
        return Err(CliError::Message(String::from("no key was given; nothing is kept")));
    }
    if key.chars().any(|it| it.is_control() || it.is_whitespace()) {
        return Err(CliError::Message(String::from(
            "the key contains spaces or control characters; nothing was saved",
        )));
    }
    Ok(key.to_owned())
}

/// Reads a line from the terminal without echo, key by key, so that Ctrl-C restores the terminal.
fn typed_hidden() -> Result<String, CliError> {
    let _hidden = HiddenEcho::begin();
    let mut typed = Vec::new();
    for byte in io::stdin().lock().bytes() {
        match byte? {
            b'\r' | b'\n' => break,
            0x03 | 0x04 => return Err(CliError::Message(String::from("given up; nothing is kept"))),
            0x08 | 0x7f => drop(typed.pop()),
            0x15 => typed.clear(),
            byte => typed.push(byte),
        }
    }
    typed_text(typed)
}

fn typed_text(bytes: Vec<u8>) -> Result<String, CliError> {
    String::from_utf8(bytes).map_err(|_| CliError::Message(String::from("this is no text; nothing is kept")))
}

/// Terminal echo is off while this value lives; drop restores it.
struct HiddenEcho(Option<rustix::termios::Termios>);

impl HiddenEcho {
    fn begin() -> Self {
        let before = tcgetattr(io::stdin()).ok();
        if let Some(before) = &before {
            let mut hidden = before.clone();
            hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
            let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &hidden);
        }
        Self(before)
    }
}

impl Drop for HiddenEcho {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Flush, before);
        }
    }
}

/// The desktop's keyring, accessed through its command-line program.
struct Keyring {
    kind: KeyringKind,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum KeyringKind {
    /// The Secret Service of Linux desktops (`secret-tool`).
    SecretTool,
    /// The macOS keychain (`security`).
    Security,
}

impl Keyring {
    /// The keyring of this desktop; `None` without its program or (on Linux) without a D-Bus session.
    fn here(premises: &SessionEnvironment) -> Option<Self> {
        let path = premises.variables.os_text("PATH");
        if cfg!(target_os = "macos") {
            return in_path(path.as_deref(), "security").then_some(Self { kind: KeyringKind::Security });
        }
        let has_desktop = premises.variable("DBUS_SESSION_BUS_ADDRESS").is_some();
        (has_desktop && in_path(path.as_deref(), "secret-tool"))
            .then_some(Self { kind: KeyringKind::SecretTool })
    }

    /// The shell command that prints the key, for `apiKeyHelper`.
    fn lookup(&self, provider: &str) -> String {
        match self.kind {
            KeyringKind::SecretTool => format!("secret-tool lookup service haft provider {provider}"),
            KeyringKind::Security => format!("security find-generic-password -s haft -a {provider} -w"),
        }
    }

    fn put(&self, provider: &str, key: &str) -> Result<(), String> {
        let ran = match self.kind {
            KeyringKind::SecretTool => {
                let label = format!("Haft: {provider}");
                let words = ["store", "--label", &label, "service", "haft", "provider", provider];
                ran("secret-tool", &words, key)
            }
            // The command is passed on standard input, so that the key is not visible in the process
            // list.
            KeyringKind::Security => {
                let line = format!("add-generic-password -U -s haft -a {provider} -w {key}\n");
                ran("security", &["-i"], &line)
            }
        };
        ran.map_err(|err| err.to_string())?;
        let words = self.lookup(provider);
        let mut words = words.split(' ');
        let read = Command::new(words.next().unwrap_or_default())
            .args(words)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        match read {
            Ok(read) if String::from_utf8_lossy(&read.stdout).trim() == key => Ok(()),
            _ => Err(String::from("it does not give back what it was given")),
        }
    }

    fn forget(&self, provider: &str) {
        let _gone = match self.kind {
            KeyringKind::SecretTool => {
                ran("secret-tool", &["clear", "service", "haft", "provider", provider], "")
            }
            KeyringKind::Security => {
                ran("security", &["delete-generic-password", "-s", "haft", "-a", provider], "")
            }
        };
    }
}

fn ran(program: &str, words: &[&str], input: &str) -> io::Result<()> {
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    match child.wait()? {
        status if status.success() => Ok(()),
        status => Err(io::Error::other(format!("{program} ended with {status}"))),
    }
}

/// Whether `path` contains this program.
pub(crate) fn in_path(path: Option<&OsStr>, program: &str) -> bool {
    found_in(path, program).is_some()
}

/// Full path of a program found in `path`.
pub(crate) fn found_in(path: Option<&OsStr>, program: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let runs = |place: &PathBuf| {
        std::fs::metadata(place).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path?).map(|dir| dir.join(program)).find(runs)
}

/// Verifies the key with a request to the provider (timeout 15 s). Another base URL is taken only from
/// the process environment, never from settings: a project must not redirect a key.
async fn check(provider: &str, key: &str) -> Result<(), CliError> {
    let variables = haft_types::EnvVars::of_process();
    let own = |name: &str| variables.text(name).filter(|it| !it.trim().is_empty());
    let (variable, usual, path) = match provider {
        "openai" => ("OPENAI_BASE_URL", "https://api.openai.com/v1", "/models"),
        "gemini" => ("GEMINI_BASE_URL", "https://generativelanguage.googleapis.com", "/v1beta/models"),
        "openrouter" => ("OPENROUTER_BASE_URL", "https://openrouter.ai/api/v1", "/key"),
        _ => ("ANTHROPIC_BASE_URL", "https://api.anthropic.com", "/v1/models"),
    };
    let base = own(variable).unwrap_or_else(|| usual.to_owned());
    let failed = |why: String| CliError::Message(format!("the key was not kept: {why}"));
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(Duration::from_secs(15))
        .build()
        .map_err(|err| failed(err.to_string()))?;
    let request = client.get(format!("{}{path}", base.trim_end_matches('/')));
    let request = match provider {
        "anthropic" => request.header("x-api-key", key).header("anthropic-version", "2023-06-01"),
        "gemini" => request.header("x-goog-api-key", key),
        _ => request.bearer_auth(key),
    };
    let response = request.send().await.map_err(|err| failed(format!("{base}: {}", with_causes(err))))?;
    match response.status().as_u16() {
        200..300 => Ok(()),
        status => Err(failed(format!("{base} answered {status}"))),
    }
}
