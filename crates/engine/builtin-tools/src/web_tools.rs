//! The web tools and the services they need.

use std::{path::Path, sync::Arc};

use haft_media::MediaWork;
use haft_tool::{DynTool, erase};

use crate::{web_fetch, web_search};

pub struct WebToolServices {
    pub fetch: web_fetch::WebServices,
    pub search: web_search::SearchServices,
}

impl WebToolServices {
    /// Creates services for tools that are only described, never called: no search provider; fetched
    /// files would go to `scratch`.
    pub fn plain(scratch: &Path) -> Self {
        Self { fetch: web_fetch::WebServices::plain(scratch), search: web_search::SearchServices::default() }
    }
}

/// Returns the web tools in the order of [`crate::base`].
pub(crate) fn tools(services: &WebToolServices, media: &MediaWork) -> Vec<Arc<dyn DynTool>> {
    vec![
        erase(web_fetch::WebFetch::new(services.fetch.clone()).with_media(media.clone())),
        erase(web_search::WebSearch::new(services.search.clone())),
    ]
}
