//! The part of the system prompt about the environment: state of the repository, approver, sandbox.
//!
//! Git runs in whatever directory the user opens, so it must not run anything that the directory
//! configures: no file system monitor, filters, signature programs or hooks.

use std::{
    io::Read as _,
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use haft_types::{PermissionMode, text};

use crate::{ApproverSpec, SessionSpec, environment::SessionEnvironment};

/// Time limit for the git commands. The session starts without their output if they take longer.
const TIMEOUT: Duration = Duration::from_millis(700);

/// Maximum bytes read from git's output.
const MOST_BYTES: u64 = 64 << 10;

/// Maximum number of changed files and of commits listed.
const MAX_FILES: usize = 15;
const MAX_COMMITS: &str = "5";

/// The lines for the system prompt. Runs git.
pub(super) fn notes(premises: &SessionEnvironment, spec: &SessionSpec, mode: PermissionMode) -> Vec<String> {
    let mut notes = Vec::new();
    let shell = premises.variables.text("SHELL").filter(|it| !it.trim().is_empty());
    let login = shell.as_deref().and_then(|it| it.rsplit('/').next()).filter(|it| *it != "bash");
    let login = login.map(|it| format!(" (the person's own is {it})")).unwrap_or_default();
    notes.push(format!("Shell: bash{login}"));
    notes.push(mode_note(premises, spec, mode));
    notes.push(wall_note(premises));
    notes.extend(told_repository(premises));
    notes.extend(language_note(premises));
    notes
}

/// The state of the repository, unless the settings exclude it.
fn told_repository(premises: &SessionEnvironment) -> Vec<String> {
    let wanted = premises.loaded().settings.get("includeGitInstructions");
    match wanted.and_then(|it| it.value.as_bool()) {
        Some(false) => Vec::new(),
        _ => repository(&premises.cwd),
    }
}

/// The user's language, if the settings name one.
pub(super) fn language_note(premises: &SessionEnvironment) -> Option<String> {
    let language = premises.string_setting("language").filter(|it| !it.trim().is_empty())?;
    let language = text::one_line(language.trim(), 60);
    Some(format!("Language of the person: {language}. Write to them in it; code stays as it is"))
}

/// Describes the sandbox of commands.
fn wall_note(premises: &SessionEnvironment) -> String {
    String::from(if premises.walls.allows_without_asking() {
        "Sandbox: commands write in the workspace and temporary directories only"
    } else {
        "Sandbox: none"
    })
}

/// Describes the permission mode and who answers questions.
pub(super) fn mode_note(premises: &SessionEnvironment, spec: &SessionSpec, mode: PermissionMode) -> String {
    let nobody = matches!(spec.asking, ApproverSpec::Nobody)
        || premises.loaded().settings.permissions.deny_instead_of_prompting;
    match (nobody, mode) {
        (_, PermissionMode::BypassPermissions) => format!("Permission mode: {mode}, nothing is asked"),
        (true, _) => {
            format!(
                "Permission mode: {mode}. Nobody can answer: what needs a yes is denied, so do not wait for one"
            )
        }
        (false, _) => format!("Permission mode: {mode}. A person answers questions"),
    }
}

/// Notes about shell, sandbox and repository.
pub(crate) fn place_notes(premises: &SessionEnvironment) -> Vec<String> {
    let mut notes = vec![String::from("Shell: bash")];
    notes.push(wall_note(premises));
    notes.extend(told_repository(premises));
    notes
}

/// Branch, changed files and latest commits; empty outside a repository.
fn repository(cwd: &Path) -> Vec<String> {
    if !cwd.ancestors().any(|dir| dir.join(".git").exists()) {
        return Vec::new();
    }
    let Some(disarmed) = disarmed(cwd) else { return Vec::new() };
    let log = begin(cwd, &disarmed, &["log", "--no-color", "--format=%h %s", "-n", MAX_COMMITS]);
    let status = begin(
        cwd,
        &disarmed,
        &["status", "--porcelain=v1", "--branch", "--untracked-files=normal", "--ignore-submodules=all"],
    );
    let mut notes = Vec::new();
    if let Some(status) = status.and_then(GitQuery::answer) {
        notes.extend(state(&status));
    }
    if let Some(log) = log.and_then(GitQuery::answer).filter(|it| !it.trim().is_empty()) {
        let commits: Vec<String> = log.lines().map(|it| format!("  {}", text::one_line(it, 100))).collect();
        notes.push(format!("Newest commits:\n{}", commits.join("\n")));
    }
    notes
}

/// Parses branch and changed files from `git status --porcelain --branch`.
fn state(status: &str) -> Vec<String> {
    let mut lines = status.lines();
    let branch = lines.next().and_then(|it| it.strip_prefix("## ")).unwrap_or_default();
    let branch = branch.strip_prefix("No commits yet on ").unwrap_or(branch);
    let mut notes = vec![format!("Branch: {}", text::one_line(branch, 100))];
    let changed: Vec<String> = lines.map(|it| text::one_line(it.trim(), 120)).collect();
    if changed.is_empty() {
        notes.push(String::from("Working tree: clean"));
        return notes;
    }
    let more = changed.len().saturating_sub(MAX_FILES);
    let more = if 0 < more { format!(", and {more} more") } else { String::new() };
    let shown = changed[..changed.len().min(MAX_FILES)].join(", ");
    notes.push(format!("Changed when the session began: {shown}{more}"));
    notes
}

/// Git arguments that disable everything the configuration of this directory would run. `None` if git
/// must not be used here.
fn disarmed(cwd: &Path) -> Option<Vec<String>> {
    let names = begin(cwd, &[], &["config", "--list", "--name-only", "-z"])?.answer()?;
    let mut off = vec![
        String::from("core.fsmonitor=false"),
        String::from("core.untrackedCache=false"),
        String::from("log.showSignature=false"),
        String::from("core.hooksPath=/dev/null"),
    ];
    for name in names.split('\0') {
        // With `core.worktree`, git would show files of another directory.
        if name.eq_ignore_ascii_case("core.worktree") {
            return None;
        }
        let Some(rest) = name.strip_prefix("filter.") else { continue };
        match rest.rsplit_once('.').map(|it| it.1) {
            Some("required") => off.push(format!("{name}=false")),
            Some("clean" | "process" | "smudge") => off.push(format!("{name}=")),
            _ => (),
        }
    }
    Some(off.into_iter().flat_map(|it| [String::from("-c"), it]).collect())
}

/// A running git command.
struct GitQuery {
    child: std::process::Child,
    printed: mpsc::Receiver<Vec<u8>>,
}

fn begin(cwd: &Path, disarmed: &[String], args: &[&str]) -> Option<GitQuery> {
    let mut command = Command::new("git");
    command.args(["--no-pager", "--no-optional-locks"]).args(disarmed).args(args).current_dir(cwd);
    let kept = ["PATH", "HOME", "XDG_CONFIG_HOME"].into_iter();
    let kept = kept.filter_map(|name| std::env::var_os(name).map(|value| (name, value)));
    command.env_clear().envs(kept).env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let stdout = child.stdout.take()?;
    let (sender, printed) = mpsc::channel();
    let reader = std::thread::Builder::new().name(String::from("haft-git")).spawn(move || {
        let mut bytes = Vec::new();
        stdout.take(MOST_BYTES).read_to_end(&mut bytes).ok();
        sender.send(bytes).ok();
    });
    if reader.is_err() {
        child.kill().ok();
        child.wait().ok();
        return None;
    }
    Some(GitQuery { child, printed })
}

impl GitQuery {
    /// The output of git, if it succeeded in time.
    fn answer(mut self) -> Option<String> {
        let printed = self.printed.recv_timeout(TIMEOUT).ok();
        if printed.is_none() {
            self.child.kill().ok();
        }
        let ended = self.child.wait().ok()?;
        let printed = printed.filter(|it| ended.success() || MOST_BYTES <= it.len() as u64)?;
        Some(String::from_utf8_lossy(&printed).into_owned())
    }
}
