//! Images that are pasted, as a path or from the clipboard.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use haft_tui::{PastedImage, UiUpdate};
use haft_types::EnvVars;

use super::{InteractiveSession, UpdateSink};

/// Programs that write the clipboard's image to standard output, as PNG.
const READERS: [(&str, &[&str]); 3] = [
    ("wl-paste", &["--no-newline", "--type", "image/png"]),
    ("xclip", &["-selection", "clipboard", "-target", "image/png", "-out"]),
    ("pngpaste", &["-"]),
];
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

impl InteractiveSession {
    /// Checks in the background whether a pasted path names an image, and sends the result to the UI.
    pub(super) fn attach_pasted_image(&self, pasted: String, news: &UpdateSink) {
        let (news, place) = (news.clone(), self.spec.place.clone());
        tokio::task::spawn_blocking(move || {
            let found = find(&pasted, &place.cwd, place.home().as_deref(), &place.variables);
            news.tell(UiUpdate::Picture(found));
        });
    }

    /// Reads an image from the clipboard in the background and sends it, or the reason why there is
    /// none, to the UI.
    pub(super) fn take_clipboard_picture(&self, news: &UpdateSink) {
        let (news, variables) = (news.clone(), self.spec.place.variables.clone());
        tokio::task::spawn_blocking(move || {
            let found = match clipboard() {
                Some(path) => PastedImage::There {
                    label: String::from("picture of the clipboard"),
                    path: path.display().to_string(),
                },
                None => PastedImage::Missing { text: String::new(), why: no_clipboard(&variables) },
            };
            news.tell(UiUpdate::Picture(found));
        });
    }
}

fn find(pasted: &str, cwd: &Path, home: Option<&Path>, variables: &EnvVars) -> PastedImage {
    let path = match (pasted.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => cwd.join(pasted),
    };
    if path.is_file() {
        let name = path.file_name().map_or_else(|| pasted.to_owned(), |it| it.to_string_lossy().into_owned());
        return PastedImage::There { path: path.display().to_string(), label: format!("picture {name}") };
    }
    let why = if is_remote(variables) {
        format!("{pasted} is not on this machine: copy it here first (scp), then paste its path")
    } else {
        format!("there is no file {pasted}; it is text now")
    };
    PastedImage::Missing { text: pasted.to_owned(), why }
}

fn is_remote(variables: &EnvVars) -> bool {
    ["SSH_TTY", "SSH_CONNECTION"].iter().any(|name| variables.text(name).is_some_and(|it| !it.is_empty()))
}

fn no_clipboard(variables: &EnvVars) -> String {
    String::from(if is_remote(variables) {
        "the clipboard is on the other machine: copy the picture here (scp), then paste its path"
    } else {
        "there is no picture in the clipboard (wl-paste, xclip or pngpaste has to be installed)"
    })
}

/// Writes the clipboard's PNG image to a temporary file and returns its path. The file is never deleted,
/// because the model may read it later. Blocks. `None` if no program returns a PNG.
fn clipboard() -> Option<PathBuf> {
    for (program, arguments) in READERS {
        let output =
            Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output();
        let Ok(output) = output else { continue };
        if output.stdout.starts_with(PNG) {
            let file = tempfile::Builder::new().prefix("haft-picture-").suffix(".png").tempfile().ok()?;
            std::fs::write(file.path(), &output.stdout).ok()?;
            return file.into_temp_path().keep().ok();
        }
    }
    None
}
