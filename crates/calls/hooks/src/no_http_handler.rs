//! A build without HTTP hooks: none can run, and what a hook that cannot run closes is
//! closed.

use crate::{HookCall, HookEnvironment, HookFailure, HttpHandler, HttpPolicy};

pub(crate) async fn ask(
    handler: &HttpHandler,
    _: &HttpPolicy,
    _: &HookEnvironment,
    _: &HookCall,
) -> Result<String, HookFailure> {
    let url = &handler.url;
    Err(HookFailure::NoHandler(format!("{url} was not asked: this build has no HTTP hooks")))
}
