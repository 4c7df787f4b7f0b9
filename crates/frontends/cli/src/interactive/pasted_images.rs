//! Pictures that are pasted: as a path, or from the clipboard.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use haft_tui::{PastedImage, UiUpdate};
use haft_types::EnvVars;

use super::{InteractiveSession, UpdateSink};

/// Programs that print a picture of the clipboard.
const READERS: [(&str, &[&str]); 3] = [
    ("wl-paste", &["--no-newline", "--type", "image/png"]),
    ("xclip", &["-selection", "clipboard", "-target", "image/png", "-out"]),
    ("pngpaste", &["-"]),
];
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

impl InteractiveSession {
    /// Looks whether a path that was pasted leads to a picture.
    pub(super) fn look_at_picture(&self, pasted: String, news: &UpdateSink) {
        let (news, place) = (news.clone(), self.spec.place.clone());
        tokio::task::spawn_blocking(move || {
            let found = find(&pasted, &place.cwd, place.home().as_deref(), &place.variables);
            news.tell(UiUpdate::Picture(found));
        });
    }

    /// Takes a picture out of the clipboard.
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

/// The picture in a file of its own, which stays: the model may look at it later.
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
