//! Reads the text of a file as language servers receive it.

use std::path::Path;

use haft_workspace::{FileSnapshot, OpenFile, text::Text};

/// Maximum bytes of a file sent to a server.
const LARGEST: u64 = 8 << 20;

/// Reads a file. Fails if it is too large or not text. Blocks.
pub(super) fn read_text(path: &Path) -> Result<String, String> {
    let file = OpenFile::open(path).map_err(|err| err.to_string())?;
    if LARGEST < file.stamp().len {
        return Err(format!("{} is larger than {} MiB", path.display(), LARGEST >> 20));
    }
    let (_, bytes) = FileSnapshot::load(file).map_err(|err| err.to_string())?;
    match Text::decode(bytes) {
        Ok(text) => Ok(text.view().to_owned()),
        Err(_) => Err(format!("{} is no text", path.display())),
    }
}
