//! Creates files completely or not at all.

use std::{fs, io, io::Write as _, path::Path};

/// Creates a file and its parent directories. Fails with `AlreadyExists` if the file exists. If writing
/// fails, the partial file is removed: commands never overwrite files, so it would stay forever. Blocks.
pub fn create(path: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes()).inspect_err(|_| drop(fs::remove_file(path)))
}
