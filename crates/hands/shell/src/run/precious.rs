//! An `rm` that looks at what its words have become.

use std::{collections::BTreeSet, path::PathBuf};

/// A shell function in front of `rm` that refuses directories nobody wants to
/// lose, with everything above them. The words are what the shell made of
/// variables, patterns and substitutions; links on the way are followed.
pub(crate) fn rm_guard(precious: &[PathBuf]) -> String {
    if precious.is_empty() {
        return String::new();
    }
    let forms = precious.iter().flat_map(|path| [Some(path.clone()), path.canonicalize().ok()]).flatten();
    let refused: BTreeSet<PathBuf> =
        forms.flat_map(|path| path.ancestors().map(PathBuf::from).collect::<Vec<_>>()).collect();
    let quoted: Vec<String> = refused.iter().map(|path| crate::env::quote(&path.to_string_lossy())).collect();
    format!(
        "rm() {{\n\
         \\builtin local __haft_word __haft_place\n\
         for __haft_word in \"$@\"; do\n\
         case $__haft_word in -*) continue ;; esac\n\
         if [ -L \"$__haft_word\" ]; then continue; fi\n\
         __haft_place=$(\\builtin cd -P -- \"$__haft_word\" 2>/dev/null && \\builtin pwd -P) || continue\n\
         case $__haft_place in\n{}) \\builtin printf 'haft: refused to remove %s\\n' \"$__haft_place\" >&2; return 125 ;;\nesac\n\
         done\n\
         \\builtin command rm \"$@\"\n}}\n",
        quoted.join("|")
    )
}
