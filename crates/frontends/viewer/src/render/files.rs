//! What was changed, file by file.

use super::{numbers::counted, rows::diff};
use crate::{html::Html, journal_changes::JournalChange, timestamps::moment};

/// A change of so many lines is shown at once.
const UNFOLDED: usize = 40;

/// Whether a page offers to take changes back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum UndoOffer {
    /// It does.
    Offered,
    /// It says how a person does it.
    Told,
}

/// Writes the changes, the newest first.
pub(crate) fn files(out: &mut Html, changes: &[JournalChange], offer: UndoOffer) {
    if changes.is_empty() {
        out.raw("<p class=\"empty\">No change of a file is recorded for this session.</p>");
        return;
    }
    let mut paths: Vec<&str> =
        changes.iter().flat_map(|it| it.files.iter().map(|file| file.path.as_str())).collect();
    paths.sort_unstable();
    paths.dedup();
    let (changed, of_files) = (counted(changes.len(), "change"), counted(paths.len(), "file"));
    out.raw("<p class=\"facts\">").text(&format!("{changed} of {of_files}.")).raw("</p>");
    for change in changes {
        out.raw("<section class=\"change\"><h3><span class=\"tool\">")
            .text(&change.tool)
            .raw("</span> <span class=\"facts\">");
        out.text(&moment(change.time))
            .raw("</span> <span class=\"tag\">")
            .text(change.standing)
            .raw("</span></h3>");
        for file in &change.files {
            let is_small = !file.lines.is_empty() && file.lines.len() <= UNFOLDED;
            out.raw(if is_small { "<details open>" } else { "<details>" });
            out.raw("<summary><code class=\"what\">").text(&file.path).raw("</code> <span class=\"good\">+");
            out.count(file.added).raw("</span> <span class=\"bad\">−").count(file.removed).raw("</span> ");
            out.text(file.what).raw("</summary>");
            if file.lines.is_empty() {
                out.raw("<p class=\"facts\">The contents are not shown.</p>");
            } else {
                diff(out, file.lines.iter().map(String::as_str))
            }
            out.raw("</details>");
        }
        match (offer, change.can_undo) {
            (UndoOffer::Offered, true) => {
                out.raw("<button type=\"button\" data-undo=\"")
                    .text(&change.id)
                    .raw("\">Take this back</button>");
            }
            (UndoOffer::Told, true) => {
                out.raw("<p class=\"facts\"><code>haft undo ").text(&change.id).raw("</code></p>");
            }
            _ => (),
        }
        out.raw("</section>");
    }
}
