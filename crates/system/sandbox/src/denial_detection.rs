//! Distinguishes denials by the sandbox from errors of the program.

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

use regex::Regex;

use crate::{Network, SandboxPolicy};

/// A line that reports a denied operation.
static REFUSED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)(read-only file system|permission denied|operation not permitted|device or resource busy|EROFS|EACCES|EPERM)").ok()
});
/// Text that looks like a path: quoted, or up to a space or colon.
static PATH: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"['"`‘“]([^'"`’”\n]{1,4000})['"`’”]|(?:^|[\s:=(\[])((?:\.{0,2}/|~/)?[\w.@%+,-][^\s:;,'"()\[\]]*)"#,
    )
    .ok()
});
/// Messages of programs without a network.
static UNREACHABLE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)(network (is )?unreachable|(could not|unable to) resolve|temporary failure in name resolution|name or service not known|name does not resolve|no such host|unknown (\w+ )*host|UnknownHostException|bad address '|failed to lookup address|no servers could be reached|server misbehaving|ENETUNREACH|ENOTFOUND|EAI_AGAIN|getaddrinfo|no route to host)").ok()
});

/// Messages about failed connections. On this machine these occur without a sandbox too.
static NOT_CONNECTED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)(could(n't| not) connect|failed to connect|unable to connect|can(not|'t) connect|connection (to .* )?(refused|timed out|failed)|connect(\(\))?: (permission denied|operation not permitted)|ECONNREFUSED|EHOSTUNREACH)").ok()
});
/// A remote address or host name.
static ELSEWHERE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b\d{1,3}(\.\d{1,3}){3}\b|\[?[0-9a-f]{1,4}(:[0-9a-f]{0,4}){2,}|\b[\w-]+(\.[\w-]+)*\.[a-z]{2,}\b").ok()
});
/// A loopback address or name.
static HERE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)localhost|\b127\.\d|\b0\.0\.0\.0\b|::1\b").ok());

/// Maximum number of denials reported.
const MOST: usize = 5;

/// Finds lines of `output` that were probably caused by the sandbox. Returns one line each with the
/// rule, at most `MOST`. Ignores what the policy allows. Reads the disk.
pub fn blocked(policy: &SandboxPolicy, cwd: &Path, output: &str) -> Vec<String> {
    let (Some(refused), Some(paths)) = (&*REFUSED, &*PATH) else { return Vec::new() };
    let mut found: Vec<String> = Vec::new();
    for line in output.lines().filter(|line| refused.is_match(line)) {
        let named = paths.captures_iter(line).filter_map(|it| it.get(1).or_else(|| it.get(2)));
        for name in named.map(|it| it.as_str()) {
            if MOST <= found.len() {
                return found;
            }
            let Some(path) = absolute(cwd, name) else { continue };
            let said = match policy.forbids_read(&path) {
                Some(rule) => format!("read {} ({rule})", path.display()),
                None => match forbidden_write(policy, &path) {
                    Some(rule) => format!("write {} ({rule})", path.display()),
                    None => continue,
                },
            };
            if !found.contains(&said) {
                found.push(said);
            }
        }
    }
    let closed = policy.network != Network::Open;
    let says = |words: &Option<Regex>, text: &str| words.as_ref().is_some_and(|it| it.is_match(text));
    let refused_elsewhere =
        |line: &str| says(&NOT_CONNECTED, line) && says(&ELSEWHERE, line) && !says(&HERE, line);
    if closed && (says(&UNREACHABLE, output) || output.lines().any(refused_elsewhere)) {
        found.push(String::from(match policy.network {
            Network::Domains(_) => {
                "connect (only allowed domains may be reached, through the proxy in HTTPS_PROXY)"
            }
            _ => "connect (the network is off)",
        }));
    }
    found
}

/// Resolves a name only if it is plausibly a path: it exists, or its directory does and it contains `/`
/// or `.`.
fn absolute(cwd: &Path, name: &str) -> Option<PathBuf> {
    let plain = name.trim_end_matches(['.', ':']);
    if plain.is_empty() || plain.contains('\0') {
        return None;
    }
    let path = Path::new(plain);
    let path = haft_paths::lexical(&cwd.join(path));
    let parent = path.parent()?;
    (path.symlink_metadata().is_ok() || (parent.is_dir() && (plain.contains('/') || plain.contains('.'))))
        .then_some(path)
}

/// The rule that forbids writing `path`. `None` if the user could not write it without the sandbox
/// either.
fn forbidden_write(policy: &SandboxPolicy, path: &Path) -> Option<String> {
    let rule = policy.forbids_write(path)?;
    let is_there = path.symlink_metadata().is_ok();
    let place = if is_there { path } else { path.parent()? };
    let writable = rustix::fs::access(place, rustix::fs::Access::WRITE_OK).is_ok();
    writable.then_some(rule)
}
