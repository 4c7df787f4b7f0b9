//! Finds out what `find … -delete` and `git clean` would remove, by running them without deleting.
//!
//! **Invariant:** a dry run cannot change anything. Its arguments are built here from a closed grammar; an unknown argument
//! means no dry run. It runs in a read-only sandbox, or not at all.

use std::{
    ffi::OsStr,
    io::Read as _,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, OnceLock, mpsc},
    time::Duration,
};

use haft_bash_analysis::{AnalyzedCommand, Word};
use haft_shell::sandbox::{ReadOnlyPolicy, ReadOnlySandbox};

/// Timeout of a dry run.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum bytes read of its output.
const MOST: u64 = 4 << 20;

/// Returns what a `find … -delete` or a `git clean` would remove; empty if that cannot be determined.
pub(super) fn removed(part: &AnalyzedCommand) -> Vec<PathBuf> {
    let literal = |word: &Word| match word {
        Word::Literal(text) => Some(text.clone()),
        Word::Pattern(_) | Word::Unknown(_) => None,
    };
    let words: Option<Vec<String>> = part.words.iter().map(literal).collect();
    let (Some(words), Some(dir)) = (words, part.directory.single()) else { return Vec::new() };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match &words[..] {
        ["find", rest @ ..] => find(rest, dir).unwrap_or_default(),
        ["git", "clean", rest @ ..] => clean(rest, dir).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Read-only predicates of `find`, and whether they take a value.
const LOOKS: &[(&str, bool)] = &[
    ("!", false),
    ("(", false),
    (")", false),
    ("-a", false),
    ("-and", false),
    ("-depth", false),
    ("-empty", false),
    ("-iname", true),
    ("-ipath", true),
    ("-iregex", true),
    ("-maxdepth", true),
    ("-mindepth", true),
    ("-mmin", true),
    ("-mtime", true),
    ("-name", true),
    ("-newer", true),
    ("-not", false),
    ("-o", false),
    ("-or", false),
    ("-path", true),
    ("-perm", true),
    ("-regex", true),
    ("-size", true),
    ("-type", true),
    ("-user", true),
    ("-wholename", true),
    ("-xdev", false),
];

fn find(words: &[&str], dir: &Path) -> Option<Vec<PathBuf>> {
    let starts = words.iter().take_while(|word| !word.starts_with(['-', '(', '!'])).count();
    let mut looks: Vec<String> = words[..starts].iter().map(|it| (*it).to_owned()).collect();
    let mut deletes = false;
    let mut rest = words[starts..].iter();
    while let Some(word) = rest.next() {
        if *word == "-delete" {
            deletes = true;
            looks.push(String::from("-print0"));
            continue;
        }
        let (_, valued) = LOOKS.iter().find(|(name, _)| name == word)?;
        looks.push((*word).to_owned());
        if *valued {
            looks.push((*rest.next()?).to_owned());
        }
    }
    let found = output("find", looks, dir).filter(|_| deletes)?;
    let names = found.split(|byte| *byte == 0).filter(|it| !it.is_empty());
    Some(names.map(|it| haft_paths::lexical(&dir.join(OsStr::from_bytes(it)))).collect())
}

/// The arguments of `git clean` that determine what it removes.
#[derive(Default)]
struct GitCleanArgs {
    directories: bool,
    ignored_too: bool,
    ignored_only: bool,
    patterns: Vec<String>,
    paths: Vec<String>,
}

impl GitCleanArgs {
    /// Parses the arguments; `None` for any that are unknown.
    fn read(words: &[&str]) -> Option<Self> {
        let mut read = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--" => {
                    read.paths.extend(words.by_ref().map(|it| (*it).to_owned()));
                }
                "--force" | "--quiet" | "--dry-run" => {}
                "-e" => read.patterns.push((*words.next()?).to_owned()),
                word if word.starts_with("--") => {
                    read.patterns.push(word.strip_prefix("--exclude=")?.to_owned());
                }
                word if word.starts_with('-') && word.len() > 1 => {
                    for letter in word[1..].chars() {
                        match letter {
                            'f' | 'q' | 'n' => {}
                            'd' => read.directories = true,
                            'x' => read.ignored_too = true,
                            'X' => read.ignored_only = true,
                            _ => return None,
                        }
                    }
                }
                word => read.paths.push(word.to_owned()),
            }
        }
        Some(read)
    }

    /// Returns the arguments of a dry run.
    fn rehearsed(self) -> Vec<String> {
        let quiet =
            ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false"];
        let mut words: Vec<String> =
            quiet.into_iter().chain(["clean", "--dry-run"]).map(str::to_owned).collect();
        let flags = [(self.directories, "-d"), (self.ignored_too, "-x"), (self.ignored_only, "-X")];
        words.extend(flags.into_iter().filter(|it| it.0).map(|it| it.1.to_owned()));
        words.extend(self.patterns.iter().map(|pattern| format!("--exclude={pattern}")));
        words.push(String::from("--dry-run"));
        words.push(String::from("--"));
        words.extend(self.paths);
        words
    }
}

fn clean(words: &[&str], dir: &Path) -> Option<Vec<PathBuf>> {
    let found = output("git", GitCleanArgs::read(words)?.rehearsed(), dir)?;
    let text = String::from_utf8_lossy(&found).into_owned();
    let names = text.lines().filter_map(|line| line.strip_prefix("Would remove "));
    Some(names.map(|name| haft_paths::lexical(&dir.join(name.trim_matches('"')))).collect())
}

/// Returns the read-only sandbox; `None` if this machine does not support one.
fn walls() -> Option<&'static Arc<ReadOnlySandbox>> {
    static WALLS: OnceLock<Option<Arc<ReadOnlySandbox>>> = OnceLock::new();
    WALLS.get_or_init(|| ReadOnlySandbox::build(ReadOnlyPolicy::default()).ok()).as_ref()
}

/// Returns the output of a program, as far as it arrives in time. `None` without a sandbox.
pub(super) fn output(program: &'static str, words: Vec<String>, dir: &Path) -> Option<Vec<u8>> {
    let dir = dir.to_owned();
    let spawned = walls()?.run(move || {
        // Passes only the environment it needs.
        let kept = ["PATH", "HOME", "XDG_CONFIG_HOME"].into_iter();
        let kept = kept.filter_map(|name| std::env::var_os(name).map(|value| (name, value)));
        Command::new(program)
            .args(words)
            .current_dir(dir)
            .env_clear()
            .envs(kept)
            .env("LC_ALL", "C")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
    });
    let mut child = spawned.ok()?.ok()?;
    let (sender, receiver) = mpsc::channel();
    if let Some(printed) = child.stdout.take() {
        let read = move || {
            let mut bytes = Vec::new();
            printed.take(MOST).read_to_end(&mut bytes).ok();
            sender.send(bytes).ok();
        };
        std::thread::Builder::new().spawn(read).ok();
    }
    let printed = receiver.recv_timeout(TIMEOUT).unwrap_or_default();
    child.kill().ok();
    let status = child.wait().ok()?;
    (status.success() || !printed.is_empty()).then_some(printed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use haft_bash_analysis::{AnalysisContext, analyse};

    use super::*;

    fn repository() -> std::io::Result<(tempfile::TempDir, PathBuf)> {
        let dir = tempfile::tempdir()?;
        let root = dir.path().canonicalize()?;
        Command::new("git").args(["init", "-q"]).current_dir(&root).output()?;
        std::fs::create_dir_all(root.join("u/v"))?;
        for name in ["loose", "u/1", "u/v/2", "x.o", "--force"] {
            std::fs::write(root.join(name), "12345")?;
        }
        std::fs::write(root.join(".gitignore"), "*.o\n")?;
        Ok((dir, root))
    }

    /// Whatever command is previewed, no file is removed.
    #[test]
    fn dry_run_removes_nothing() -> std::io::Result<()> {
        let (_dir, root) = repository()?;
        // A program that a repository's configuration could run.
        let script = root.join("evil.sh");
        std::fs::write(&script, "#!/bin/sh\ntouch /tmp/haft-rehearsed \"$0.ran\"\n")?;
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
        for key in ["core.fsmonitor", "core.pager", "diff.external", "alias.clean"] {
            let value = script.display().to_string();
            Command::new("git").args(["config", key, &value]).current_dir(&root).output()?;
        }
        let roots = [root.clone()];
        for line in [
            "git clean --no-dry-run --forc",
            "git clean --no-dry-run -f",
            "git clean -f --no-dry",
            "git clean --no-dry-run --force -d -x",
            "git clean -ff --no-dr",
            "git clean -fdx -e --no-dry-run",
            "git clean -e x --no-dry-run -f",
            "git clean -f -- --no-dry-run",
            "git clean --interactive",
            "git clean -i",
            "git clean --help",
            "git clean -h",
            "git clean --int",
            "git clean -fd -- u --no-dry-run -f",
            "git clean -fn --no-d",
            "find . -delete -exec rm -f {} +",
            "find . -fprint out -delete",
            "find . -name x -delete -o -delete",
            "find . -ok rm {} ; -delete",
            "find . -D exec -delete",
            "find -O3 . -delete",
            "find . -files0-from loose -delete",
            "find . -regextype egrep -execdir touch ran ; -delete",
            "find -delete",
            "find . -type f -delete",
        ] {
            let place = AnalysisContext { cwd: &root, home: None, roots: &roots };
            for part in &analyse(line, place).parts {
                drop(removed(part));
            }
            for name in ["loose", "u/1", "u/v/2", "x.o", "--force", "evil.sh"] {
                assert!(root.join(name).exists(), "{line} removed {name}");
            }
            for name in ["evil.sh.ran", "ran", "out"] {
                assert!(!root.join(name).exists(), "{line} made {name}");
            }
        }
        Ok(())
    }

    #[test]
    fn git_clean_arguments_become_a_dry_run() {
        for (line, want) in [
            ("-f", Some("clean --dry-run --dry-run --")),
            ("-fdx a", Some("clean --dry-run -d -x --dry-run -- a")),
            (
                "-f -e x --exclude=y -- --force",
                Some("clean --dry-run --exclude=x --exclude=y --dry-run -- --force"),
            ),
            ("--forc", None),
            ("--no-dry-run", None),
            ("-fi", None),
            ("-fe", None),
            ("--exclude x", None),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let got = GitCleanArgs::read(&words).map(|it| it.rehearsed()[6..].join(" "));
            assert_eq!(got.as_deref(), want, "{line}");
        }
    }
}
