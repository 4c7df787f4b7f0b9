//! Output styles.

use std::path::{Path, PathBuf};

use haft_agent::OutputStyle;

use super::{ExtensionProblem, LinkGuard, pages_at};

/// An output style from a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct StyleFile {
    pub(crate) style: OutputStyle,
    pub(crate) description: String,
    pub(crate) file: Option<PathBuf>,
    /// Whether a plugin forces this style while it is enabled.
    pub(crate) is_forced: bool,
}

/// The built-in styles.
const OWN: [(&str, &str, &str); 2] = [
    (
        "Explanatory",
        "Says why, in short notes beside the work",
        "Beside the work, explain what matters about it: why this way and not another, what is usual in this code base, what would go wrong otherwise. Keep each note to two or three sentences, before or after the step it belongs to.",
    ),
    (
        "Learning",
        "Leaves small, telling pieces of the work to the person",
        "The person wants to learn. Where a decision teaches something, stop before it: say what is to be decided, which ways there are, and ask them to write those five to ten lines themselves at a place you marked with TODO(human). Do the rest yourself, and comment on what they wrote.",
    ),
];

/// The styles in a directory or file.
pub(super) fn styles_at(
    place: &Path,
    fence: &LinkGuard,
    plugin: Option<&str>,
) -> (Vec<StyleFile>, Vec<ExtensionProblem>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for (_, file) in pages_at(place, fence) {
        let front = match fence.read(&file) {
            Ok(front) => front,
            Err(reason) => {
                let reason = format!("it cannot be read: {reason}");
                problems.push(ExtensionProblem {
                    what: "output style",
                    file,
                    line: 1,
                    reason,
                    is_lost: true,
                });
                continue;
            }
        };
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = front.text("name").unwrap_or(stem);
        let name = plugin.map_or_else(|| name.clone(), |plugin| format!("{plugin}:{name}"));
        found.push(StyleFile {
            style: OutputStyle {
                name,
                text: front.body.clone(),
                keeps_coding: front.switch("keep-coding-instructions").unwrap_or(false),
            },
            description: front.text("description").unwrap_or_default(),
            is_forced: plugin.is_some() && front.switch("force-for-plugin").unwrap_or(false),
            file: Some(file.clone()),
        });
        problems.extend(ExtensionProblem::of_lines("output style", &file, front.problems));
    }
    (found, problems)
}

/// The built-in styles.
pub(super) fn builtin_styles() -> impl Iterator<Item = StyleFile> {
    OWN.into_iter().map(|(name, description, text)| StyleFile {
        style: OutputStyle { name: name.to_owned(), text: text.to_owned(), keeps_coding: true },
        description: description.to_owned(),
        file: None,
        is_forced: false,
    })
}
