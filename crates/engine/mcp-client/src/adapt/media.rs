use std::path::{Path, PathBuf};

use base64::{Engine, prelude::BASE64_STANDARD};
use haft_paths::{Durability, ModeOnReplace, replace_file};
use haft_tool::{Block, BoxFuture};
use sha2::{Digest, Sha256};

use haft_types::text::hex;

/// Handles binary data in results. Implemented by the embedder, which knows the model's limits and the
/// storage location.
pub trait MediaSink: Send + Sync {
    /// Converts an image for the model. On an error, which says why it cannot be shown, the image is
    /// saved instead.
    fn picture<'a>(
        &'a self,
        media_type: &'a str,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<ModelImage, String>>;

    /// Saves bytes to a file and returns its path.
    fn save<'a>(&'a self, media_type: &'a str, bytes: &'a [u8]) -> BoxFuture<'a, Result<PathBuf, String>>;
}

/// An image for the model.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelImage {
    /// Unchanged.
    Whole(Block),
    /// Scaled down; the original is saved as well.
    Smaller(Block),
}

/// Saves files to one directory, named by content hash, so that equal content is stored once. Images are
/// passed to the model unchanged up to the size every provider accepts.
#[derive(Clone, Debug)]
pub struct MediaDirectory(PathBuf);

/// Corresponds to 5 MB of base64.
const MAX_PICTURE_BYTES: usize = 3_750_000;

impl MediaDirectory {
    /// Uses this directory; it is created when the first file is saved.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }
}

impl MediaSink for MediaDirectory {
    fn picture<'a>(
        &'a self,
        _media_type: &'a str,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<ModelImage, String>> {
        Box::pin(async move {
            // The content's magic number is more reliable than the server's MIME type.
            match picture_type(bytes) {
                Some(kind) if bytes.len() <= MAX_PICTURE_BYTES => {
                    Ok(ModelImage::Whole(Block::image(kind, BASE64_STANDARD.encode(bytes))))
                }
                Some(_) => Err(format!("it is larger than {MAX_PICTURE_BYTES} bytes")),
                None => Err(String::from("its format cannot be shown")),
            }
        })
    }

    fn save<'a>(&'a self, media_type: &'a str, bytes: &'a [u8]) -> BoxFuture<'a, Result<PathBuf, String>> {
        let (directory, bytes) = (self.0.clone(), bytes.to_vec());
        let extension = extension(media_type);
        Box::pin(async move {
            let saving = tokio::task::spawn_blocking(move || save(&directory, extension, &bytes));
            saving.await.map_err(|err| err.to_string())?.map_err(|err| err.to_string())
        })
    }
}

fn save(directory: &Path, extension: &str, bytes: &[u8]) -> std::io::Result<PathBuf> {
    let name = &hex(&Sha256::digest(bytes))[..16];
    let path = directory.join(format!("{name}.{extension}"));
    if path.exists() {
        return Ok(path);
    }
    std::fs::create_dir_all(directory)?;
    replace_file(&path, bytes, ModeOnReplace::Private, Durability::Whenever)?;
    Ok(path)
}

/// Returns the MIME type of an image that every provider supports, by its first bytes.
pub(super) fn picture_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

fn extension(media_type: &str) -> &'static str {
    match media_type.split(';').next().unwrap_or_default().trim() {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "audio/wav" | "audio/x-wav" => "wav",
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/ogg" => "ogg",
        "application/pdf" => "pdf",
        "application/json" => "json",
        "application/zip" => "zip",
        "text/csv" => "csv",
        "text/html" => "html",
        kind if kind.starts_with("text/") => "txt",
        _ => "bin",
    }
}
