//! Binary data in results of MCP servers: images are downscaled, other data is stored in files.

use std::path::PathBuf;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use haft_mcp_client::{MediaDirectory, MediaSink, ModelImage};
use haft_media::MediaWork;
use haft_tool::{Block, BoxFuture};

/// Maximum length of an image's longer side in pixels, which every request accepts.
const MAX_SIDE: usize = 2000;

/// Maximum bytes of an image: 5 MB after base64 encoding.
const MAX_BYTES: usize = 3_750_000;

/// Stores files in a directory of the session, and downscales images.
pub(super) struct SessionMedia {
    files: MediaDirectory,
    work: MediaWork,
}

impl SessionMedia {
    pub(super) fn new(directory: PathBuf, work: MediaWork) -> Self {
        Self { files: MediaDirectory::new(directory), work }
    }
}

impl MediaSink for SessionMedia {
    fn picture<'a>(
        &'a self,
        media_type: &'a str,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<ModelImage, String>> {
        Box::pin(async move {
            if bytes.len() <= MAX_BYTES {
                return self.files.picture(media_type, bytes).await;
            }
            let (work, large) = (self.work.clone(), bytes.to_vec());
            let shrunk = tokio::task::spawn_blocking(move || work.shrink(&large, MAX_SIDE, MAX_BYTES));
            match shrunk.await.ok().flatten() {
                Some((kind, small)) => {
                    Ok(ModelImage::Smaller(Block::image(kind, BASE64_STANDARD.encode(small))))
                }
                None => Err(format!("it is larger than {MAX_BYTES} bytes and cannot be made smaller")),
            }
        })
    }

    fn save<'a>(&'a self, media_type: &'a str, bytes: &'a [u8]) -> BoxFuture<'a, Result<PathBuf, String>> {
        self.files.save(media_type, bytes)
    }
}
