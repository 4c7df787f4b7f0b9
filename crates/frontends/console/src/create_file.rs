//! New files that are there whole or not at all.

use std::{fs, io, io::Write as _, path::Path};

/// Creates a file and the directories above it; one that is there stays as it
/// is. What could not be written to its end is taken away again: nobody
/// overwrites files of these commands, so half of one would stay for good.
pub fn create(path: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes()).inspect_err(|_| drop(fs::remove_file(path)))
}
