//! Redacts secrets in outputs that stay on disk after a session.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::Path,
};

/// Finds secrets.
pub trait Blank: std::fmt::Debug + Send + Sync {
    /// Replaces each secret by text of the same length; `None` if there is none.
    fn blank(&self, text: &str) -> Option<String>;
}

/// Maximum bytes of an output that is redacted; larger ones are skipped.
const LARGEST: u64 = 64 << 20;

/// Redacts every output in a directory, in place.
pub(super) fn redact_outputs(dir: &Path, blank: &dyn Blank) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let fits = entry.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= LARGEST);
        if fits && path.extension().is_some_and(|it| it == "out") {
            blank_output(&path, blank).ok();
        }
    }
}

fn blank_output(path: &Path, blank: &dyn Blank) -> std::io::Result<()> {
    let bytes = fs::read(path)?;
    let mut at = 0;
    let mut file: Option<File> = None;
    for chunk in bytes.utf8_chunks() {
        let text = chunk.valid();
        if let Some(blanked) = blank.blank(text).filter(|it| it.len() == text.len()) {
            let file = match &file {
                Some(file) => file,
                None => file.insert(File::options().write(true).open(path)?),
            };
            file.write_all_at(blanked.as_bytes(), at)?;
        }
        at += (text.len() + chunk.invalid().len()) as u64;
    }
    Ok(())
}
