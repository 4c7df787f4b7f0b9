//! Replaces the web tools in a build without them.

use std::{path::Path, sync::Arc};

use haft_media::MediaWork;
use haft_tool::DynTool;

/// Empty: this build has no web tools.
pub struct WebToolServices;

impl WebToolServices {
    /// Creates services for tools that are only described, never called.
    pub fn plain(_: &Path) -> Self {
        Self
    }
}

pub(crate) fn tools(_: &WebToolServices, _: &MediaWork) -> Vec<Arc<dyn DynTool>> {
    Vec::new()
}
