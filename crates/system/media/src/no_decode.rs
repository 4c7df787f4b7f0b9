//! Used without the feature `decode`: every job is rejected.

use crate::{MediaAnswer, MediaTask};

pub(crate) fn perform(task: MediaTask, _: Vec<u8>) -> Result<MediaAnswer, String> {
    Err(String::from(match task {
        MediaTask::Picture(..) => "this build cannot show pictures",
        MediaTask::Pages(_) => "this build cannot show PDFs",
    }))
}
