//! Caches the output of slow start-up files, which otherwise delay the first command of every process.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, DirBuilder, File},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

/// Results of faster start-up files are not cached.
const SLOW: Duration = Duration::from_millis(250);
/// How long a cached result is valid.
const BELIEVED: Duration = Duration::from_secs(12 * 60 * 60);

/// Maximum number of cached results.
const MAX_ANSWERS: usize = 8;

/// Variables that differ between terminals and do not affect start-up files.
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

/// Start-up files in the home directory, and files they usually source.
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

/// A cache file and the inputs it depends on.
pub(super) struct LoginEnvCache {
    file: PathBuf,
    question: String,
}

impl LoginEnvCache {
    /// The cache entry for this shell and environment. The shell, start-up files, variables and the boot
    /// are part of the key.
    pub(super) fn new(dir: &Path, shell: &Path, home: &Path, environment: &[(OsString, OsString)]) -> Self {
        let mut hasher = DefaultHasher::new();
        for (name, value) in environment.iter().filter(|it| !is_passing(&it.0)) {
            (name, value).hash(&mut hasher);
        }
        // Terminals with different variables use different files.
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

    /// The cached result, if it is valid.
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

    /// Stores a result that took long. Errors are ignored.
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

/// Deletes the oldest entries beyond the maximum.
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

/// Whether a variable is specific to one terminal or session.
pub(super) fn is_passing(name: &OsStr) -> bool {
    PASSING.iter().any(|it| name == *it)
}
