//! What slow start-up files said, for the next process: theirs is the longest
//! wait before a first command.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, DirBuilder, File},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

/// Start-up files that take no longer are asked every time.
const SLOW: Duration = Duration::from_millis(250);
/// As long as their answer is believed.
const BELIEVED: Duration = Duration::from_secs(12 * 60 * 60);

/// As many answers are kept.
const MAX_ANSWERS: usize = 8;

/// Differs from terminal to terminal and says nothing about start-up files.
const PASSING: &[&str] = &[
    "CLAUDE_PID",
    "COLUMNS",
    "LINES",
    "OLDPWD",
    "PWD",
    "SHLVL",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "TERM_SESSION_ID",
    "TMUX_PANE",
    "WINDOWID",
    "XDG_SESSION_ID",
    "_",
];

/// Files of the home that shells start with, and what those usually read.
const OF_HOME: &[&str] = &[
    ".bash_aliases",
    ".bash_login",
    ".bash_profile",
    ".bashrc",
    ".cargo/env",
    ".config/fish/config.fish",
    ".nvm/nvm.sh",
    ".profile",
    ".zlogin",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];
const OF_SYSTEM: &[&str] = &[
    "/etc/bash.bashrc",
    "/etc/environment",
    "/etc/profile",
    "/etc/profile.d",
    "/etc/zsh/zshenv",
    "/etc/zsh/zshrc",
];

/// Where an answer is kept, and what it is an answer to.
pub(super) struct LoginEnvCache {
    file: PathBuf,
    question: String,
}

impl LoginEnvCache {
    /// What this shell says in this environment. Another shell, a changed
    /// start-up file, another variable or a restart of the machine is another
    /// question.
    pub(super) fn new(dir: &Path, shell: &Path, home: &Path, environment: &[(OsString, OsString)]) -> Self {
        let mut hasher = DefaultHasher::new();
        for (name, value) in environment.iter().filter(|it| !is_passing(&it.0)) {
            (name, value).hash(&mut hasher);
        }
        // Two terminals that differ do not take each other's answer away.
        let variables = hasher.finish();
        let files = OF_HOME.iter().map(|it| home.join(it)).chain(OF_SYSTEM.iter().map(PathBuf::from));
        for file in std::iter::once(shell.to_owned()).chain(files) {
            let meta = fs::metadata(&file).ok();
            let facts = meta.map(|it| (it.mtime(), it.mtime_nsec(), it.size(), it.ino(), it.dev()));
            (file, facts).hash(&mut hasher);
        }
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let question = format!("haft shell 1 {:016x} {}", hasher.finish(), boot.trim());
        let name = shell.file_name().and_then(OsStr::to_str).unwrap_or("shell");
        Self { file: dir.join(format!("{name}-{variables:016x}.environment")), question }
    }

    /// The answer, if it was given and still counts.
    pub(super) fn answer(&self) -> Option<Vec<u8>> {
        let meta = fs::symlink_metadata(&self.file).ok().filter(|it| it.is_file())?;
        let own = fs::metadata("/proc/self").ok()?.uid();
        let young = meta.modified().ok()?.elapsed().is_ok_and(|age| age < BELIEVED);
        if meta.uid() != own || meta.mode() & 0o022 != 0 || !young {
            return None;
        }
        let text = fs::read(&self.file).ok()?;
        text.strip_prefix(self.question.as_bytes())?.strip_prefix(b"\n").map(<[u8]>::to_vec)
    }

    /// Keeps an answer that took long. That it cannot be kept costs only time.
    pub(super) fn keep(&self, answer: &[u8], took: Duration) {
        if took < SLOW {
            return;
        }
        let Some(dir) = self.file.parent() else { return };
        DirBuilder::new().recursive(true).mode(0o700).create(dir).ok();
        let part = self.file.with_extension(format!("{}.part", std::process::id()));
        let written =
            File::options().write(true).create_new(true).mode(0o600).open(&part).and_then(|mut file| {
                file.write_all(&[self.question.as_bytes(), b"\n", answer].concat())?;
                fs::rename(&part, &self.file)
            });
        if written.is_err() {
            fs::remove_file(&part).ok();
        }
        forget_oldest(dir);
    }
}

/// Answers for other environments go when there are many.
fn forget_oldest(dir: &Path) {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|it| it.path());
    let is_answer = |it: &PathBuf| it.extension().is_some_and(|it| it == "environment");
    let mut answers: Vec<_> = entries
        .filter(is_answer)
        .filter_map(|it| Some((fs::symlink_metadata(&it).ok()?.modified().ok()?, it)))
        .collect();
    answers.sort();
    for (_, path) in answers.iter().rev().skip(MAX_ANSWERS) {
        fs::remove_file(path).ok();
    }
}

/// Whether a variable belongs to one terminal or one session.
pub(super) fn is_passing(name: &OsStr) -> bool {
    PASSING.iter().any(|it| name == *it)
}
