//! The full rendering of a tool call, for the pager.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use haft_tool::{CollapsedLines, LineStyle, Rendered, RenderedLine, Rendering};

/// Maximum bytes shown of a result stored in a file. Beyond it a line names the file.
const MAX_BYTES: u64 = 16 << 20;

/// Returns a rendering that also contains the collapsed lines. A result file is read only when the
/// rendering is made.
pub(super) fn unfolded(rendering: Rendering) -> Rendering {
    Rendering::new(move || whole(rendering.make()))
}

fn whole(mut rendered: Rendered) -> Rendered {
    match std::mem::take(&mut rendered.rest) {
        CollapsedLines::Nothing => (),
        CollapsedLines::Lines(rest) => rendered.lines.extend(rest),
        CollapsedLines::File { path, .. } => match text_of(&path) {
            Ok((text, is_all)) => {
                rendered.lines = text.lines().map(|line| RenderedLine::new(LineStyle::Plain, line)).collect();
                if !is_all {
                    let words = format!("… the rest is in {}", path.display());
                    rendered.lines.push(RenderedLine::new(LineStyle::Dim, words));
                }
            }
            Err(err) => {
                let words = format!("the rest was in {}: {err}", path.display());
                rendered.lines.push(RenderedLine::new(LineStyle::Error, words));
            }
        },
    }
    rendered
}

/// Reads at most `MAX_BYTES` of a file as lossy UTF-8. The flag says whether that is the whole file.
fn text_of(path: &Path) -> io::Result<(String, bool)> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), length <= MAX_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(rest: CollapsedLines) -> Vec<String> {
        let lines = vec![RenderedLine::new(LineStyle::Plain, "one")];
        let rendered = Rendered { lines, rest, ..Rendered::default() };
        let whole = unfolded(Rendering::new(move || rendered.clone())).make();
        assert_eq!(whole.rest, CollapsedLines::Nothing);
        whole.lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn the_rest_comes_behind_from_wherever_it_is() -> io::Result<()> {
        assert_eq!(lines_of(CollapsedLines::Nothing), ["one"]);
        assert_eq!(
            lines_of(CollapsedLines::Lines(vec![RenderedLine::new(LineStyle::Dim, "two")])),
            ["one", "two"]
        );
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("out");
        std::fs::write(&path, b"one\ntwo\nthr\xffee\n")?;
        assert_eq!(
            lines_of(CollapsedLines::File { path: path.clone(), hidden: 2 }),
            ["one", "two", "thr\u{fffd}ee"]
        );
        std::fs::remove_file(&path)?;
        let lines = lines_of(CollapsedLines::File { path, hidden: 2 });
        assert!(lines[0] == "one" && lines[1].contains("the rest was in"), "{lines:?}");
        Ok(())
    }
}
