//! A build without the libraries: every job is refused.

use crate::{MediaAnswer, MediaTask};

pub(crate) fn perform(task: MediaTask, _: Vec<u8>) -> Result<MediaAnswer, String> {
    Err(String::from(match task {
        MediaTask::Picture(..) => "this build cannot show pictures",
        MediaTask::Pages(_) => "this build cannot show PDFs",
    }))
}
