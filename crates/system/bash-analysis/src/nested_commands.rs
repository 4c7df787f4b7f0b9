//! Finds every command that a command would run in turn, as far as its words show it.
//!
//! Used to match deny rules, so it rather finds too many commands.

use super::{
    fallback_scan, programs,
    raw_checks::is_misleading,
    subcommands::without_options,
    syntax::{self, AssignedValue, CommandKind, CommandList, ParsedCommand, Word, WordPiece},
};

/// Maximum nesting of scripts in arguments of scripts.
const MAX_DEPTH: usize = 4;

/// Maximum words kept per command; no rule is longer.
const MAX_WORDS: usize = 200;

/// Maximum number of commands found inside one command.
const MAX_FOUND: usize = 400;

/// Maximum bytes of script text read inside one command.
const MAX_READ: usize = 64 * 1024;

/// Options of `find` and `fd` that are followed by a command.
const FINDERS_OPTIONS: &[&str] =
    &["-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"];

/// A program that runs another command given in its arguments.
struct WrapperProgram {
    name: &'static str,
    /// Options whose value is the next word.
    valued: &'static [&'static str],
    /// Options without a value. After any other option it is unknown whether the next word is its value.
    flags: &'static [&'static str],
    /// Number of operands before the command.
    operands: usize,
}

const fn runner(
    name: &'static str,
    flags: &'static [&'static str],
    valued: &'static [&'static str],
    operands: usize,
) -> WrapperProgram {
    WrapperProgram { name, valued, flags, operands }
}

const RUNNERS: &[WrapperProgram] = &[
    runner("abduco", &["-n", "-c", "-A"], &["-e"], 1),
    runner("alias", &[], &[], 0),
    runner("asdf", &["exec"], &[], 0),
    runner("at", &[], &["-f", "-q", "-t"], 0),
    runner("bundle", &["exec"], &[], 0),
    runner("bwrap", &[], &["--bind", "--ro-bind", "--dev-bind", "--chdir", "--setenv"], 0),
    runner("capsh", &[], &[], 0),
    runner("catchsegv", &[], &[], 0),
    runner("chronic", &[], &[], 0),
    runner("conda", &["run"], &["-n", "-p"], 0),
    runner("cpulimit", &["-z", "-i"], &["-l", "-p", "-e"], 0),
    runner("daemonize", &[], &[], 0),
    runner("direnv", &["exec"], &[], 1),
    runner("dtach", &[], &[], 1),
    runner("dumb-init", &[], &[], 0),
    runner("entr", &["-c", "-r", "-s"], &[], 0),
    runner("fakechroot", &[], &["-c", "-e"], 0),
    runner("fakeroot", &["-u"], &["-l", "-s", "-i", "-b"], 0),
    runner("firejail", &[], &[], 0),
    runner("gosu", &[], &[], 1),
    runner("hatch", &["run"], &["-e"], 0),
    runner("i386", &[], &[], 0),
    runner("ifne", &["-n"], &[], 0),
    runner("linux32", &[], &[], 0),
    runner("linux64", &[], &[], 0),
    runner("mise", &["exec", "x"], &["-C"], 0),
    runner("numactl", &[], &["-C", "-m", "-N", "-i"], 0),
    runner("pdm", &["run"], &[], 0),
    runner("perf", &["stat", "record", "trace"], &["-e", "-o"], 0),
    runner("pipenv", &["run"], &[], 0),
    runner("pixi", &["run"], &[], 0),
    runner("pkexec", &[], &["--user"], 0),
    runner("poetry", &["run"], &[], 0),
    runner("prlimit", &[], &["-p", "--pid"], 0),
    runner("proot", &[], &["-r", "-b", "-w"], 0),
    runner("pyenv", &["exec"], &[], 0),
    runner("rbenv", &["exec"], &[], 0),
    runner("rlwrap", &[], &["-a", "-f", "-H"], 0),
    runner("runcon", &[], &["-t", "-u", "-r", "-l"], 1),
    runner("rye", &["run"], &[], 0),
    runner("screen", &["-d", "-m", "-D"], &["-S"], 0),
    runner("setarch", &["-R", "-3", "-B", "-F", "-I", "-L", "-S", "-T", "-X", "-Z"], &[], 1),
    runner("setpriv", &[], &["--reuid", "--regid", "--groups"], 0),
    runner("start-stop-daemon", &[], &["--exec", "-x", "--startas", "-a"], 0),
    runner("su-exec", &[], &[], 1),
    runner("systemd-inhibit", &[], &[], 0),
    runner("tini", &["-g", "-s", "-v"], &[], 0),
    runner("unbuffer", &["-p"], &[], 0),
    runner(
        "uv",
        &["run"],
        &["--with", "--python", "-p", "--project", "--directory", "--extra", "--group"],
        0,
    ),
    runner("valgrind", &[], &[], 0),
    runner("x86_64", &[], &[], 0),
    runner("aa-exec", &[], &["-p"], 0),
    runner("cgexec", &[], &["-g"], 0),
    runner("chpst", &[], &["-u", "-e"], 0),
    runner("choom", &[], &["-n"], 0),
    runner("eatmydata", &[], &[], 0),
    runner("envdir", &[], &[], 1),
    runner("faketime", &["-f"], &[], 1),
    runner("gdb", &["--args", "-q", "-batch"], &["-ex"], 0),
    runner("nocache", &[], &[], 0),
    runner("proxychains", &["-q"], &["-f"], 0),
    runner("proxychains4", &["-q"], &["-f"], 0),
    runner("schedtool", &[], &["-e"], 0),
    runner("setuidgid", &[], &[], 1),
    runner("softlimit", &[], &["-m"], 0),
    runner("spawn", &[], &[], 0),
    runner("torify", &[], &[], 0),
    runner("torsocks", &[], &[], 0),
    runner("trickle", &["-s"], &["-d", "-u"], 0),
    runner("tsocks", &[], &[], 0),
    runner("uclampset", &["-a"], &["-m", "-M"], 0),
    runner("watchexec", &["-r", "-n"], &["-e", "-w"], 0),
    runner("xvfb-run", &["-a"], &["-s", "-n"], 0),
    runner("builtin", &[], &[], 0),
    runner("bunx", &[], &[], 0),
    runner("busybox", &[], &[], 0),
    runner("chroot", &[], &[], 1),
    runner("chrt", &["-b", "-f", "-i", "-o", "-r"], &[], 1),
    runner("command", &["-p", "-v", "-V"], &[], 0),
    runner("coproc", &[], &[], 0),
    runner("dbus-run-session", &[], &[], 0),
    runner("doas", &["-n", "-s", "-L"], &["-u", "-C"], 0),
    runner(
        "env",
        &["-i", "-", "-0", "-v", "--ignore-environment", "--null", "--debug"],
        &["-u", "-C", "-S"],
        0,
    ),
    runner("eval", &[], &[], 0),
    runner("exec", &["-c", "-l"], &["-a"], 0),
    runner("flock", &["-s", "-x", "-n", "-e", "-u", "-o", "-F"], &["-w", "-E", "-c"], 1),
    runner("ionice", &["-t"], &["-c", "-n", "-p", "-P", "-u"], 0),
    runner("ltrace", &["-f", "-c", "-S"], &["-o", "-e", "-p", "-u"], 0),
    runner("nice", &[], &["-n"], 0),
    runner("noglob", &[], &[], 0),
    runner("nohup", &[], &[], 0),
    runner("npx", &["-y", "--yes", "--no"], &["-p", "-c"], 0),
    runner("nsenter", &["-m", "-u", "-i", "-n", "-p", "-U", "-a"], &["-t"], 0),
    runner("parallel", &[], &["-j"], 0),
    runner("runuser", &[], &["-u", "-c"], 0),
    runner("script", &["-q", "-a", "-e", "-f"], &["-c"], 0),
    runner("setsid", &["-c", "-f", "-w"], &[], 0),
    runner(
        "ssh",
        &["-n", "-t", "-T", "-q", "-v", "-A", "-N", "-f"],
        &["-i", "-p", "-l", "-o", "-F", "-J"],
        1,
    ),
    runner("stdbuf", &[], &["-i", "-o", "-e"], 0),
    runner("strace", &["-f", "-c", "-q", "-v"], &["-o", "-e", "-p", "-s", "-u"], 0),
    runner("su", &["-", "-l", "-m"], &["-c", "-s", "-g"], 1),
    runner(
        "sudo",
        &["-A", "-b", "-E", "-H", "-k", "-n", "-P", "-S", "-s", "-i"],
        &["-u", "-g", "-p", "-C", "-D", "-h", "-r", "-t", "-T", "-U", "-R"],
        0,
    ),
    runner("systemd-run", &[], &["-p", "-u"], 0),
    runner("taskset", &["-a"], &["-c", "-p"], 1),
    runner("time", &["-p", "-v", "-a"], &["-o", "-f"], 0),
    runner("timeout", &["-v", "--foreground", "--preserve-status"], &["-k", "-s"], 1),
    runner("toybox", &[], &[], 0),
    runner("trap", &[], &[], 0),
    runner("unshare", &["-m", "-u", "-i", "-n", "-p", "-U", "-f", "-r"], &["-S", "-G"], 0),
    runner("uvx", &[], &["--from"], 0),
    runner("watch", &["-b", "-c", "-d", "-e", "-g", "-p", "-t", "-x", "-w"], &["-n", "-q"], 0),
    runner(
        "xargs",
        &["-0", "-r", "-t", "-p", "-x", "-o", "--null", "--no-run-if-empty"],
        &["-a", "-d", "-E", "-I", "-L", "-n", "-P", "-s"],
        0,
    ),
];

/// Programs that take a script as an argument.
const SHELLS: &[&str] = &[
    "ash",
    "bash",
    "capsh",
    "csh",
    "dash",
    "eval",
    "expect",
    "fish",
    "flock",
    "hyperfine",
    "ksh",
    "parallel",
    "runuser",
    "script",
    "sg",
    "sh",
    "ssh",
    "su",
    "tcsh",
    "tmux",
    "trap",
    "watch",
    "zsh",
];

/// Whether a program may run its standard input or a file as a script.
pub(crate) fn reads_script(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name);
    matches!(name, "." | "source" | "xargs" | "parallel" | "at" | "batch") || SHELLS.contains(&name)
}

/// Searches for nested commands, up to the limits above.
#[derive(Default)]
struct NestedSearch {
    found: Vec<Vec<String>>,
    /// Bytes of script text read so far.
    read: usize,
    exhausted: bool,
}

/// Result of the search.
pub(crate) struct NestedCommands {
    /// All commands found, the command itself first.
    pub(crate) commands: Vec<Vec<String>>,
    /// Whether a limit was reached before the search was complete.
    pub(crate) exhausted: bool,
}

/// All forms of a command and of the commands it runs.
pub(crate) fn readings(words: &[String]) -> NestedCommands {
    let mut search = NestedSearch::default();
    search.collect(words, 0);
    NestedCommands { commands: search.found, exhausted: search.exhausted }
}

/// All forms of a command that is known not to run others.
pub(crate) fn plain_readings(words: &[String]) -> Vec<Vec<String>> {
    let mut search = NestedSearch::default();
    search.collect(words, MAX_DEPTH);
    search.found
}

impl NestedSearch {
    fn collect(&mut self, words: &[String], depth: usize) {
        let Some(first) = words.first() else { return };
        if MAX_FOUND <= self.found.len() {
            self.exhausted = true;
            return;
        }
        self.found.push(words.iter().take(MAX_WORDS).cloned().collect());
        let visible: String = first.chars().filter(|c| !is_misleading(*c)).collect();
        let name = visible.rsplit('/').next().unwrap_or_default();
        if name != first && !name.is_empty() {
            let mut bare: Vec<String> = words.iter().take(MAX_WORDS).cloned().collect();
            name.clone_into(&mut bare[0]);
            self.found.extend(without_options(&bare));
            self.found.push(bare);
        } else {
            self.found.extend(without_options(&words[..words.len().min(MAX_WORDS)]));
        }
        if MAX_DEPTH <= depth {
            return;
        }
        if name == "--" {
            self.collect(&words[1..], depth + 1);
        }
        if name == "find" || name == "fd" {
            for (idx, word) in words.iter().enumerate() {
                if FINDERS_OPTIONS.contains(&word.as_str()) {
                    self.collect(&words[idx + 1..], depth + 1);
                }
            }
        }
        if let Some(runner) = RUNNERS.iter().find(|runner| runner.name == name) {
            for start in starts(runner, &words[1..]) {
                self.collect(&words[1 + start..], depth + 1);
            }
        }
        for text in scripts(name, &words[1..]) {
            self.script(&text, depth + 1);
        }
    }

    fn script(&mut self, text: &str, depth: usize) {
        self.read += text.len();
        if MAX_READ < self.read {
            self.exhausted = true;
            return;
        }
        let commands = match syntax::parse(text) {
            Ok(script) => {
                let mut commands = Vec::new();
                list(&script.list, &mut commands);
                commands
            }
            Err(_) => fallback_scan::guesses(text),
        };
        for words in commands {
            self.collect(&words, depth);
        }
    }
}

/// Indices of the words at which the inner command may start.
fn starts(runner: &WrapperProgram, words: &[String]) -> Vec<usize> {
    let mut at = 0;
    let mut unknown = 0;
    while let Some(word) = words.get(at) {
        if word == "--" {
            at += 1;
            break;
        }
        if runner.valued.contains(&word.as_str()) {
            at += 2;
        } else if word.starts_with('-') && word.len() > 1 || runner.flags.contains(&word.as_str()) {
            let attached = runner.valued.iter().any(|option| option.len() == 2 && word.starts_with(option));
            if !attached && !runner.flags.contains(&word.as_str()) && !word.contains('=') {
                unknown += 1;
            }
            at += 1;
        } else if fallback_scan::is_assignment(word) && runner.name != "alias" {
            at += 1;
        } else {
            break;
        }
    }
    let first = at + runner.operands;
    (first.saturating_sub(usize::from(runner.operands > 0))..=first + unknown)
        .filter(|at| *at < words.len())
        .collect()
}

/// Arguments, or ranges of them, that `name` would run as a script.
fn scripts(name: &str, words: &[String]) -> Vec<String> {
    let spaced = |word: &&String| word.contains([' ', '\t', '\n', ';', '|', '&', '(', '`']);
    match name {
        _ if SHELLS.contains(&name) => {
            words.iter().filter(spaced).cloned().chain(with_arguments(words)).collect()
        }
        // These builtins evaluate subscripts in names and numbers.
        "[" | "declare" | "export" | "let" | "local" | "printf" | "read" | "readonly" | "test"
        | "typeset" | "unset" => {
            words.iter().filter(|word| word.contains("$(") || word.contains('`')).cloned().collect()
        }
        "alias" => {
            words.iter().filter_map(|word| word.split_once('=')).map(|(_, text)| text.to_owned()).collect()
        }
        "env" => split_strings(words),
        "nix-shell" | "nix" => after(words, &["--run", "--command", "-c"]),
        "split" => after(words, &["--filter"]),
        "sort" => after(words, &["--compress-program"]),
        "rg" => after(words, &["--pre"]),
        "man" => after(words, &["-P", "--pager"]),
        "start-stop-daemon" => after(words, &["--exec", "-x", "--startas", "-a"]),
        "mapfile" | "readarray" | "compgen" | "complete" => after(words, &["-C"]),
        "npx" | "npm" | "pnpm" | "yarn" => after(words, &["-c", "--call"]),
        "awk" | "gawk" | "mawk" => {
            words.iter().flat_map(|word| word.split('"').skip(1).step_by(2)).map(str::to_owned).collect()
        }
        "sed" => words.iter().flat_map(|word| sed_commands(word)).collect(),
        "tar" | "rsync" => {
            let mut out = after(words, &["-I", "-e", "--use-compress-program", "--to-command", "--rsh"]);
            out.extend(
                words.iter().filter_map(|word| word.split_once("exec=")).map(|(_, text)| text.to_owned()),
            );
            out
        }
        "git" => {
            let mut out = after(words, &["-x", "--exec", "foreach", "run"]);
            out.extend(programs::git_programs(words));
            out.extend(
                words.iter().filter_map(|word| word.split_once("=!")).map(|(_, text)| text.to_owned()),
            );
            out.extend(
                words.iter().filter_map(|word| word.split_once("pager=")).map(|(_, text)| text.to_owned()),
            );
            out
        }
        "ed" | "ex" | "less" | "more" | "vi" | "vim" | "nvim" => {
            words.iter().filter_map(|word| word.split_once('!')).map(|(_, text)| text.to_owned()).collect()
        }
        _ => Vec::new(),
    }
}

/// The script after `-c` with the positional parameters substituted.
fn with_arguments(words: &[String]) -> Option<String> {
    let at = words
        .iter()
        .position(|word| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c'))?;
    let script = words.get(at + 1)?;
    let given = words.get(at + 3..).filter(|given| !given.is_empty())?;
    let mut text = script.replace("$@", &given.join(" ")).replace("$*", &given.join(" "));
    for (number, word) in given.iter().enumerate().rev() {
        let number = number + 1;
        text = text.replace(&format!("${{{number}}}"), word).replace(&format!("${number}"), word);
    }
    Some(text)
}

/// The words that follow one of these options, or the text after its `=`.
fn after(words: &[String], options: &[&str]) -> Vec<String> {
    let mut out = Vec::new();
    for (idx, word) in words.iter().enumerate() {
        if options.contains(&word.as_str()) {
            out.extend(words.get(idx + 1).cloned());
            out.push(words[idx + 1..].join(" "));
        } else if let Some((name, value)) = word.split_once('=')
            && options.contains(&name)
        {
            out.push(value.to_owned());
        }
    }
    out
}

/// Strings that `env` splits into words: after `-S`, also at the end of an option cluster and for any
/// abbreviation of `--split-string`.
fn split_strings(words: &[String]) -> Vec<String> {
    let mut out = after(words, &["-S"]);
    for (idx, word) in words.iter().enumerate() {
        let short = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        match (short.and_then(|rest| rest.split_once('S')), word.strip_prefix("--s")) {
            (Some((_, "")), _) => out.push(words[idx + 1..].join(" ")),
            (Some((_, value)), _) => out.push(value.to_owned()),
            (None, Some(long)) => out.extend(match long.split_once('=') {
                Some((_, value)) => Some(value.to_owned()),
                None => words.get(idx + 1).cloned(),
            }),
            (None, None) => (),
        }
    }
    out
}

/// The shell commands in `e` commands of a `sed` script: `1e rm x`, `/a/e rm x`.
fn sed_commands(script: &str) -> Vec<String> {
    script
        .match_indices("e ")
        .filter(|(at, _)| !script[..*at].ends_with(|c: char| c.is_ascii_alphabetic()))
        .take(MAX_DEPTH)
        .map(|(at, _)| script[at + 2..].to_owned())
        .collect()
}

/// The words of every simple command; a computed word becomes empty.
fn list(commands: &CommandList, out: &mut Vec<Vec<String>>) {
    for item in &commands.items {
        item.first.commands.iter().for_each(|c| command(c, out));
        item.rest.iter().flat_map(|(_, pipeline)| &pipeline.commands).for_each(|c| command(c, out));
    }
}

fn command(it: &ParsedCommand, out: &mut Vec<Vec<String>>) {
    match &it.kind {
        CommandKind::Simple { assignments, words } => {
            out.push(words.iter().map(|w| w.literal().unwrap_or_default()).collect());
            words.iter().for_each(|w| word(w, out));
            for assignment in assignments {
                match &assignment.value {
                    AssignedValue::Scalar(value) => word(value, out),
                    AssignedValue::Array(values) => values.iter().for_each(|w| word(w, out)),
                }
            }
        }
        CommandKind::Subshell(body) | CommandKind::Group(body) => list(body, out),
        CommandKind::If { arms, otherwise } => {
            for (condition, body) in arms {
                list(condition, out);
                list(body, out);
            }
            otherwise.iter().for_each(|body| list(body, out));
        }
        CommandKind::Loop { condition, body } => {
            list(condition, out);
            list(body, out);
        }
        CommandKind::For { words, body, .. } => {
            words.iter().flatten().for_each(|w| word(w, out));
            list(body, out);
        }
        CommandKind::ForArithmetic { header, body } => {
            word(header, out);
            list(body, out);
        }
        CommandKind::Case { subject, arms } => {
            word(subject, out);
            arms.iter().for_each(|arm| list(&arm.body, out));
        }
        CommandKind::Function { body, .. } | CommandKind::Coprocess(body) => command(body, out),
        CommandKind::Arithmetic(body) => word(body, out),
        CommandKind::Test(words) => words.iter().for_each(|w| word(w, out)),
    }
    it.redirects.iter().for_each(|redirect| word(&redirect.target, out));
}

fn word(it: &Word, out: &mut Vec<Vec<String>>) {
    for piece in &it.pieces {
        match piece {
            WordPiece::Text { .. } | WordPiece::Parameter { .. } => (),
            WordPiece::Expansion(expansion) => expansion.operands.iter().for_each(|w| word(w, out)),
            WordPiece::Command { list: inner, .. } | WordPiece::Process { list: inner } => list(inner, out),
            WordPiece::Arithmetic { body, .. } | WordPiece::Translated { body } => word(body, out),
        }
    }
}
