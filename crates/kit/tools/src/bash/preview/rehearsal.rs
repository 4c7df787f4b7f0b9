//! What commands would remove that look for it themselves, by letting them look
//! without removing.

use std::{
    ffi::OsStr,
    io::Read as _,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

use haft_command::{Part, Word};

/// How long they may look.
const PATIENCE: Duration = Duration::from_secs(2);
/// How much of what they find is read.
const MOST: u64 = 4 << 20;

/// What a `find … -delete` or a `git clean` would remove.
pub(super) fn removed(part: &Part) -> Vec<PathBuf> {
    let literal = |word: &Word| match word {
        Word::Literal(text) => Some(text.clone()),
        Word::Pattern(_) | Word::Unknown(_) => None,
    };
    let words: Option<Vec<String>> = part.words.iter().map(literal).collect();
    let (Some(words), Some(dir)) = (words, part.directory.single()) else { return Vec::new() };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match &words[..] {
        ["find", rest @ ..] if rest.contains(&"-delete") => find(rest, dir),
        ["git", "clean", rest @ ..] => clean(rest, dir),
        _ => Vec::new(),
    }
}

/// Predicates that do more than look.
const ACTS: &[&str] = &[
    "-exec",
    "-execdir",
    "-ok",
    "-okdir",
    "-fls",
    "-fprint",
    "-fprint0",
    "-fprintf",
    "-print",
    "-print0",
    "-printf",
    "-ls",
    "-files0-from",
];

fn find(words: &[&str], dir: &Path) -> Vec<PathBuf> {
    if words.iter().any(|word| ACTS.contains(word)) {
        return Vec::new();
    }
    let looks = words.iter().map(|word| if *word == "-delete" { "-print0" } else { word });
    let found = output(Command::new("find").args(looks).current_dir(dir));
    let names = found.split(|byte| *byte == 0).filter(|it| !it.is_empty());
    names.map(|it| haft_paths::lexical(&dir.join(OsStr::from_bytes(it)))).collect()
}

fn clean(words: &[&str], dir: &Path) -> Vec<PathBuf> {
    // Help is shown by whatever program the repository names.
    if words.iter().any(|word| *word == "-h" || word.starts_with("--h")) {
        return Vec::new();
    }
    let kept = words.iter().filter_map(|word| match *word {
        "--force" | "--quiet" | "--interactive" => None,
        word if word.starts_with("--") || !word.starts_with('-') => Some(word.to_owned()),
        // What follows `e` is a pattern.
        word if word.contains('e') => Some(word.to_owned()),
        word => Some(word.chars().filter(|it| !"fqi".contains(*it)).collect()).filter(|it| it != "-"),
    });
    let quiet = ["-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "clean", "--dry-run"];
    let mut command = Command::new("git");
    command.args(quiet).args(kept).current_dir(dir);
    let found = output(&mut command);
    let text = String::from_utf8_lossy(&found).into_owned();
    let names = text.lines().filter_map(|line| line.strip_prefix("Would remove "));
    names.map(|name| haft_paths::lexical(&dir.join(name.trim_matches('"')))).collect()
}

/// What a program prints, as far as it gets in time.
fn output(command: &mut Command) -> Vec<u8> {
    // Nothing but what it needs to look.
    let kept = ["PATH", "HOME", "XDG_CONFIG_HOME"].into_iter();
    let kept = kept.filter_map(|name| std::env::var_os(name).map(|value| (name, value)));
    command.env_clear().envs(kept).env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0");
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = spawned else { return Vec::new() };
    let (sender, receiver) = mpsc::channel();
    if let Some(printed) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            printed.take(MOST).read_to_end(&mut bytes).ok();
            sender.send(bytes).ok();
        });
    }
    let printed = receiver.recv_timeout(PATIENCE).unwrap_or_default();
    child.kill().ok();
    child.wait().ok();
    printed
}
