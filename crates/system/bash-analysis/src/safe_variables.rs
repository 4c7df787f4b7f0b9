//! Variables that can be set without changing what a program does.

/// Variables that change only a program's output format.
const HARMLESS_ENVIRONMENT: &[&str] = &[
    "CARGO_TERM_COLOR",
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLORTERM",
    "COLUMNS",
    "DEBIAN_FRONTEND",
    "FORCE_COLOR",
    "GIT_OPTIONAL_LOCKS",
    "GIT_TERMINAL_PROMPT",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "LINES",
    "LOG_LEVEL",
    "NODE_ENV",
    "NO_COLOR",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONIOENCODING",
    "PYTHONUNBUFFERED",
    "PYTHONUTF8",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "TERM",
    "TZ",
    "VERBOSE",
];

/// Names that scripts use for their own variables and no program reads.
const SCRIPT_NAMES: &[&str] = &[
    "A", "ARG", "ARGS", "B", "BAR", "BASE", "BAZ", "BRANCH", "C", "COMMIT", "COUNT", "DATA", "DATE", "DIR",
    "DIRS", "END", "EXPECTED", "F", "FILE", "FILENAME", "FILES", "FOO", "FROM", "I", "ID", "INPUT", "J", "K",
    "LINE", "MSG", "N", "NAME", "NOW", "NUM", "OUT", "OUTPUT", "PATTERN", "QUERY", "REF", "RESULT", "ROOT",
    "SHA", "SRC", "START", "STATUS", "STR", "TARGET", "TEST", "TEXT", "TO", "TODAY", "TOTAL", "URL", "V",
    "VAL", "VALUE", "VAR", "VERSION", "X", "Y", "Z",
];

/// Lower-case names that are special after all.
const LOWER_CASE: &[&str] =
    &["auto_resume", "histchars", "prompt", "psvar", "path", "fpath", "manpath", "cdpath"];

/// Programs that read lower-case variables with their name as prefix.
const PROGRAM_PREFIXES: &[&str] =
    &["npm_", "pnpm_", "yarn_", "bun_", "node_", "pip_", "cargo_", "git_", "java_", "ld_", "dyld_"];

/// Variables that select the character encoding, also of the shell.
const ENCODINGS: &[&str] = &["LANG", "LC_ALL", "LC_CTYPE"];

/// Whether the locale's encoding cannot hide a backslash or quote in the second byte of a character.
fn keeps_signs(locale: &str) -> bool {
    let lower = locale.to_ascii_lowercase();
    match lower.split_once('.') {
        Some((_, encoding)) => encoding.starts_with("utf8") || encoding.starts_with("utf-8"),
        None => lower.len() <= "en_us".len() && !lower.starts_with("zh") || lower == "posix",
    }
}

/// Whether a program may be started with this variable without asking.
pub(crate) fn is_harmless_in_environment(name: &str, value: Option<&str>) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.,:@=+-".contains(c);
    let plain_value = value
        .is_some_and(|value| value.chars().all(plain) && (!ENCODINGS.contains(&name) || keeps_signs(value)));
    is_script_name(name) || (HARMLESS_ENVIRONMENT.contains(&name) && plain_value)
}

/// Whether a script may use this variable for its own purposes.
pub(crate) fn is_harmless_in_script(name: &str) -> bool {
    HARMLESS_ENVIRONMENT.contains(&name) && !ENCODINGS.contains(&name) || is_script_name(name)
}

fn is_script_name(name: &str) -> bool {
    let lower = name.bytes().all(|b| b == b'_' || b.is_ascii_lowercase() || b.is_ascii_digit())
        && name.bytes().any(|b| b.is_ascii_lowercase());
    // `http_proxy` and `npm_config_…` are read by programs.
    let meaningful = name.ends_with("_proxy")
        || name.contains("config")
        || PROGRAM_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || LOWER_CASE.contains(&name);
    (lower && !meaningful) || SCRIPT_NAMES.contains(&name)
}
