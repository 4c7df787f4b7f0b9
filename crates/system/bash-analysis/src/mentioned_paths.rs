//! Finds possible file names in the words of an unknown command.

use super::expansion::Field;

/// Longer texts (in bytes) are not taken for file names.
const LONGEST: usize = 4096;

/// Maximum number of names taken from one text.
const MAX_NAMES: usize = 200;

/// Programs that execute code given as an argument.
const RUN_TEXT: &[&str] = &[
    "Rscript",
    "ash",
    "awk",
    "bash",
    "bun",
    "busybox",
    "csh",
    "dash",
    "deno",
    "ed",
    "elixir",
    "emacs",
    "env",
    "erl",
    "eval",
    "ex",
    "expect",
    "fish",
    "flock",
    "gawk",
    "groovy",
    "gsed",
    "julia",
    "ksh",
    "lua",
    "luajit",
    "mawk",
    "nawk",
    "node",
    "nodejs",
    "nvim",
    "osascript",
    "parallel",
    "perl",
    "php",
    "pwsh",
    "ruby",
    "runuser",
    "screen",
    "script",
    "sed",
    "sh",
    "ssh",
    "su",
    "tclsh",
    "tcsh",
    "tmux",
    "vi",
    "vim",
    "watch",
    "xargs",
    "zsh",
];

/// Whether a program executes code given as an argument, in any language.
pub(crate) fn runs_text(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name);
    RUN_TEXT.contains(&name) || name.starts_with("python") || name.starts_with("perl5")
}

/// Parts of a word that may name a file: the word, the text after `=`, `@` and `:`, and the attached
/// value of an option (`-o.envrc`).
pub(crate) fn mentioned(field: &Field) -> Vec<Field> {
    match field {
        Field::Literal(text) => {
            let mut out = Vec::new();
            if !text.starts_with('-') {
                out.push(text.as_str());
            }
            out.extend(attached(text));
            for separator in ['=', '@', ':'] {
                out.extend(text.split_once(separator).map(|(_, rest)| rest));
            }
            literals(out)
        }
        Field::Glob(_) | Field::Match(_) => vec![field.clone()],
        Field::Number | Field::Stream | Field::One(_) | Field::Many(_) => Vec::new(),
    }
}

/// The attached value of a short option, or of the last one in a cluster.
fn attached(text: &str) -> impl Iterator<Item = &str> {
    let cluster = text.strip_prefix('-').filter(|rest| !rest.starts_with('-')).unwrap_or_default();
    let letters = cluster.bytes().take_while(u8::is_ascii_alphanumeric).count();
    let first = cluster.get(1..).filter(|rest| rest.contains(['.', '/']));
    let last =
        cluster.get(letters..).filter(|rest| (1..5).contains(&letters) && rest.starts_with(['.', '/', '~']));
    first.into_iter().chain(last)
}

/// Possible file names in code that a program runs: the text between quotes, brackets and spaces, and
/// after the `sed` commands that read and write files.
pub(crate) fn mentioned_in_text(text: &str) -> Vec<Field> {
    let names = text.split(|c: char| c.is_whitespace() || "'\"`()[]{},;|&<>=:!".contains(c));
    let sed = text.match_indices(['w', 'W', 'r', 'R']).map(|(at, _)| {
        let rest = text[at + 1..].trim_start_matches([' ', '\t']);
        rest.split(['\n', ';', '}']).next().unwrap_or_default()
    });
    literals(names.chain(sed).filter(|it| it.contains(['.', '/'])).take(MAX_NAMES).collect())
}

fn literals(mut texts: Vec<&str>) -> Vec<Field> {
    texts.retain(|text| !text.is_empty() && text.len() < LONGEST && !text.contains('\n'));
    texts.into_iter().map(|text| Field::Literal(text.to_owned())).collect()
}
