//! Detects commands that show files unchanged.

use std::path::PathBuf;

use super::{
    LineAnalysis, analyse,
    analysis::{AnalysisContext, AnalyzedCommand, EffectAccess, EffectOrigin, EffectTarget, Word},
    expansion::Field,
    programs,
    syntax::{self, CommandKind, Item},
};

/// Files whose content a viewing command prints unchanged: `cat`, `nl`, `bat`, `head`, `tail`, `sed -n
/// X,Yp`, or a search in exactly one file. Empty for a pipeline, a redirection, or anything else that
/// could change the output.
pub fn views(command: &str, place: AnalysisContext<'_>) -> Vec<PathBuf> {
    views_of(command, &analyse(command, place))
}

/// Like [`views`], for a line that was analysed before.
pub fn views_of(command: &str, analysis: &LineAnalysis) -> Vec<PathBuf> {
    if !is_one_simple_command(command) {
        return Vec::new();
    }
    match &analysis.parts[..] {
        [part] if analysis.is_certain() => viewed(part),
        _ => Vec::new(),
    }
}

/// Whether it is a single simple command without pipe, redirection or list.
fn is_one_simple_command(command: &str) -> bool {
    let Ok(script) = syntax::parse(command) else { return false };
    let [Item { first, rest, background: false }] = &script.list.items[..] else { return false };
    let [command] = &first.commands[..] else { return false };
    rest.is_empty() && command.redirects.is_empty() && matches!(command.kind, CommandKind::Simple { .. })
}

fn viewed(part: &AnalyzedCommand) -> Vec<PathBuf> {
    let words: Vec<Field> = part
        .words
        .iter()
        .map(|word| match word {
            Word::Literal(text) => Field::Literal(text.clone()),
            Word::Pattern(pattern) => Field::Glob(pattern.clone()),
            Word::Unknown(_) => Field::Many(super::expansion::UnknownText::Any),
        })
        .collect();
    let Some((name, args)) = words.split_first() else { return Vec::new() };
    let shows = match name.literal() {
        Some("cat" | "nl" | "bat" | "batcat" | "head" | "tail") => true,
        Some("sed") => programs::is_print_range(args).is_some(),
        Some(name @ ("grep" | "egrep" | "fgrep" | "rg")) => programs::sole_file(name, args).is_some(),
        _ => false,
    };
    let unchanged = part
        .effects
        .iter()
        .all(|effect| effect.origin == EffectOrigin::Operand && effect.access == EffectAccess::Read);
    if !shows || !unchanged || !part.assigns.is_empty() || !part.is_read_only() {
        return Vec::new();
    }
    part.effects
        .iter()
        .filter_map(|effect| match &effect.target {
            EffectTarget::Path(path) => Some(haft_paths::lexical(path)),
            EffectTarget::Pattern(_) | EffectTarget::Unknown(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn views_returns_files_that_viewing_commands_show() {
        let place = AnalysisContext { cwd: Path::new("/ws"), home: Some(Path::new("/home/u")), roots: &[] };
        for (command, want) in [
            ("cat a", "/ws/a"),
            ("cat a 'b c'", "/ws/a /ws/b c"),
            ("  cat -n ./src/../a  ", "/ws/a"),
            ("nl a", "/ws/a"),
            ("bat a", "/ws/a"),
            ("head -20 a", "/ws/a"),
            ("tail -n 5 a", "/ws/a"),
            ("sed -n '1,5p' a", "/ws/a"),
            ("sed -n 2p a", "/ws/a"),
            ("grep -n foo a", "/ws/a"),
            ("grep 'a|b' a", "/ws/a"),
            ("rg foo src/a.rs", "/ws/src/a.rs"),
            ("cat ~/x", "/home/u/x"),
            ("grep foo a b", ""),
            ("grep foo", ""),
            ("cat a | head", ""),
            ("cat a > b", ""),
            ("cat < a", ""),
            ("cat a 2>/dev/null", ""),
            ("cat a; ls", ""),
            ("cat *", ""),
            ("cat $x", ""),
            ("cat a && true", ""),
            ("sed s/a/b/ a", ""),
            ("sed -n '1,5p;w x' a", ""),
            ("ls a", ""),
            ("cat a &", ""),
            ("cat 'a", ""),
            ("X=1 cat a", ""),
            ("cat <(ls)", ""),
            ("", ""),
        ] {
            let got: Vec<String> =
                views(command, place).iter().map(|path| path.display().to_string()).collect();
            assert_eq!(got.join(" "), want, "{command}");
        }
    }
}
