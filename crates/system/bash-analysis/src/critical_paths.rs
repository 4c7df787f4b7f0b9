//! Critical paths, whose deletion must always ask.

use std::path::{Component, Path, PathBuf};

use haft_paths::{is_inside, lexical};

use super::{
    FileNamePattern, LineAnalysis,
    analysis::{AnalysisContext, CommandEffect, EffectAccess, EffectOrigin, EffectScope, EffectTarget},
};

/// Whether deleting `path` (absolute, may contain `..`) would delete `/`, a directory directly below
/// `/`, the home directory, a workspace root, or an ancestor of one of these.
pub fn is_critical(path: &Path, place: AnalysisContext<'_>) -> bool {
    let path = lexical(path);
    let shallow = path.components().filter(|part| matches!(part, Component::Normal(_))).count() < 2;
    // A directory inside a workspace is not critical, also if it is the working directory.
    let inside = place.roots.iter().any(|root| is_inside(&lexical(place.cwd), &lexical(root)));
    let here = (!inside).then_some(place.cwd);
    let precious = place.roots.iter().map(|root| &**root).chain(place.home).chain(here);
    shallow || precious.into_iter().any(|dir| is_inside(&lexical(dir), &path))
}

/// Like `is_critical`, but the workspace root itself is not critical.
pub(crate) fn is_more_than_workspace(path: &Path, place: AnalysisContext<'_>) -> bool {
    let path = lexical(path);
    let shallow = path.components().filter(|part| matches!(part, Component::Normal(_))).count() < 2;
    let above =
        place.roots.iter().map(|root| lexical(root)).any(|root| root != path && is_inside(&root, &path));
    shallow || above || place.home.is_some_and(|home| is_inside(&lexical(home), &path))
}

/// Whether deleting everything `pattern` matches would empty a critical directory.
pub(crate) fn is_critical_pattern(pattern: &Path, place: AnalysisContext<'_>) -> bool {
    let last = pattern.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let everything = !last.is_empty() && last.chars().all(|c| matches!(c, '*' | '?' | '.'));
    everything && pattern.parent().is_some_and(|dir| is_critical(dir, place))
}

/// Returns the critical path that the command line would delete, if any; see `is_critical`. `real` must
/// resolve symlinks.
pub fn refused_removal(
    analysis: &LineAnalysis,
    place: AnalysisContext<'_>,
    real: &dyn Fn(&Path) -> PathBuf,
) -> Option<PathBuf> {
    let effects = analysis.parts.iter().flat_map(|part| &part.effects);
    let removals =
        effects.filter(|it| it.access == EffectAccess::Delete && it.origin != EffectOrigin::Redirection);
    removals.into_iter().find_map(|effect| refused(effect, place, real))
}

/// Whether the line may delete paths that are not known from its text: `rm` with computed arguments, an
/// unknown command, or any risk.
pub fn removes_unknown(analysis: &LineAnalysis) -> bool {
    let removes = |part: &super::AnalyzedCommand| {
        let named = part.faces.refuse.iter().any(|words| {
            words.first().is_some_and(|name| matches!(name.rsplit('/').next(), Some("rm" | "rmdir")))
        });
        let unknown = part.words.iter().any(|word| !matches!(word, super::Word::Literal(_)));
        let opaque = part.class == super::CommandClass::Other || !part.doubts.is_empty();
        named && unknown || opaque
    };
    !analysis.doubts.is_empty() || analysis.parts.iter().any(removes)
}

fn refused(
    effect: &CommandEffect,
    place: AnalysisContext<'_>,
    real: &dyn Fn(&Path) -> PathBuf,
) -> Option<PathBuf> {
    let precious: Vec<PathBuf> =
        place.roots.iter().map(|root| &**root).chain(place.home).map(|it| real(&lexical(it))).collect();
    let holds = |path: &Path| {
        let shallow = path.components().filter(|part| matches!(part, Component::Normal(_))).count() < 2;
        shallow || precious.iter().any(|it| is_inside(it, path))
    };
    match &effect.target {
        EffectTarget::Path(path) => {
            // Deleting a symlink affects only the link, unless the path ends in a slash.
            let whole = path.as_os_str().as_encoded_bytes().ends_with(b"/");
            let found = match (path.parent(), path.file_name()) {
                (Some(parent), Some(name)) if !whole => real(parent).join(name),
                _ => real(path),
            };
            let inside =
                effect.reach == EffectScope::Itself && place.roots.iter().any(|root| real(root) == found);
            let spared = inside && place.home != Some(&found);
            (holds(&found) && !spared).then_some(found)
        }
        EffectTarget::Pattern(pattern) => {
            let parent = pattern.parent().map(real)?;
            let last = pattern.file_name()?.to_str()?;
            // A glob that matches everything in a directory above a workspace.
            let sweeps = last.chars().all(|it| matches!(it, '*' | '?' | '.'));
            let workspace =
                place.roots.iter().any(|root| real(root) == parent) && place.home != Some(&parent);
            if sweeps && !workspace && holds(&parent) {
                return Some(parent);
            }
            let names = precious.iter().flat_map(|it| it.ancestors());
            names
                .filter(|it| it.parent() == Some(&parent))
                .find(|it| it.file_name().and_then(|name| name.to_str()).is_some_and(|name| fits(last, name)))
                .map(Path::to_owned)
        }
        EffectTarget::Unknown(_) => None,
    }
}

/// Whether the shell glob `pattern` could match `name`.
pub fn fits(pattern: &str, name: &str) -> bool {
    FileNamePattern::new(pattern).matches(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse;

    #[test]
    fn refused_removal_returns_the_critical_path() {
        let roots = [PathBuf::from("/home/u/ws")];
        let place = AnalysisContext { cwd: &roots[0], home: Some(Path::new("/home/u")), roots: &roots };
        let real = |path: &Path| match lexical(path) {
            path if path == Path::new("/home/u/ws/link") => PathBuf::from("/home/u"),
            path => path,
        };
        for (command, want) in [
            ("rm -rf a", None),
            ("rm -rf *", None),
            ("rm -rf ./*", None),
            ("rm -rf ../other", None),
            ("rm link", None),
            ("rm -rf link/", Some("/home/u")),
            ("rm -rf /", Some("/")),
            ("rm -rf /*", Some("/")),
            ("rm -rf /usr", Some("/usr")),
            ("rm -rf ~", Some("/home/u")),
            ("rm -rf \"$HOME\"", Some("/home/u")),
            ("rm -rf ~/*", Some("/home/u")),
            ("rm -rf .", Some("/home/u/ws")),
            ("rm -rf ../ws", Some("/home/u/ws")),
            ("rm -rf ../w*", Some("/home/u/ws")),
            ("rm -rf ../[v-x]s", Some("/home/u/ws")),
            ("cd .. && rm -rf ws", Some("/home/u/ws")),
            ("d=$HOME; rm -rf \"$d\"", Some("/home/u")),
            ("x=/; sudo rm -rf $x", Some("/")),
            ("find / -delete", Some("/")),
            ("find ~ -name x -delete", Some("/home/u")),
            ("find . -name '*.x' -delete", None),
            ("find . -name '*' -delete", Some("/home/u/ws")),
            ("find . -name a -o -name b -delete", Some("/home/u/ws")),
            ("find . -delete", Some("/home/u/ws")),
            ("rmdir ..", Some("/home/u")),
            ("bash -c 'rm -rf ~'", Some("/home/u")),
            ("mv ~ /elsewhere", Some("/home/u")),
            ("mv -f \"$HOME\" /tmp/x/y", Some("/home/u")),
            ("mv a b", None),
            ("mv ~/x/y /tmp/a/b", None),
            ("printf %s \"$HOME\" | xargs rm -rf", Some("/home/u")),
            ("echo ~ | xargs rm -r", Some("/home/u")),
            ("echo /usr | xargs -I{} rm -rf {} x", Some("/usr")),
            ("echo a | xargs rm -rf", None),
            ("bash -c 'rm -rf \"$1\"' _ \"$HOME\"", Some("/home/u")),
            ("sh -c 'rm -rf $@' x ~", Some("/home/u")),
            ("bash -c 'rm -rf \"$1\"' _ a", None),
        ] {
            let found = refused_removal(&analyse(command, place), place, &real);
            assert_eq!(found.as_deref(), want.map(Path::new), "{command}");
        }
        assert!(removes_unknown(&analyse("rm -rf \"$DIR\"", place)));
        assert!(!removes_unknown(&analyse("rm -rf dir", place)));
    }
}
