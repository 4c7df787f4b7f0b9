//! A build without the tools for the web.

use std::{path::Path, sync::Arc};

use haft_media::MediaWork;
use haft_tool::DynTool;

/// What the tools for the web need: nothing, for there are none in this build.
pub struct WebToolServices;

impl WebToolServices {
    /// For tools that are only described.
    pub fn plain(_: &Path) -> Self {
        Self
    }
}

pub(crate) fn tools(_: &WebToolServices, _: &MediaWork) -> Vec<Arc<dyn DynTool>> {
    Vec::new()
}
