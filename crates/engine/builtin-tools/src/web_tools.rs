//! The tools for the web, and what they need from above.

use std::{path::Path, sync::Arc};

use haft_media::MediaWork;
use haft_tool::{DynTool, erase};

use crate::{web_fetch, web_search};

/// What the tools for the web need.
pub struct WebToolServices {
    /// Fetches pages.
    pub fetch: web_fetch::WebServices,
    /// Searches the web.
    pub search: web_search::SearchServices,
}

impl WebToolServices {
    /// For tools that are only described: nothing is searched, what is fetched is kept
    /// in `scratch`.
    pub fn plain(scratch: &Path) -> Self {
        Self { fetch: web_fetch::WebServices::plain(scratch), search: web_search::SearchServices::default() }
    }
}

/// The tools, in the order of the list.
pub(crate) fn tools(services: &WebToolServices, media: &MediaWork) -> Vec<Arc<dyn DynTool>> {
    vec![
        erase(web_fetch::WebFetch::new(services.fetch.clone()).with_media(media.clone())),
        erase(web_search::WebSearch::new(services.search.clone())),
    ]
}
