//! Lets the `Read` tool open blobs: a model that sees `blob:HASH` in a file, in command output or in a
//! message reads it under that name.

use std::{path::Path, sync::Arc};

use haft_fleet_store::{BlobHash, FleetStore};
use haft_hooks::{Callback, HookCall, HookDefinition, HookEvent, HookHandler, HookMatcher, HookSource};
use serde_json::{Value, json};

use crate::large_results::{BlobDownload, LargeResults};

/// Returns a hook that runs before each `Read` is judged and replaces a blob name by a downloaded file.
pub(super) fn hook(store: &FleetStore, results: &LargeResults) -> HookDefinition {
    let (store, results) = (store.clone(), results.clone());
    let look = move |call: HookCall| {
        let (store, results) = (store.clone(), results.clone());
        async move { Ok(answer(&store, &results, &call.json["tool_input"]).await.into()) }
    };
    let code = Callback { name: String::from("fleet-blobs"), code: Arc::new(look) };
    let source = Arc::new(HookSource::Named(String::from("the fleet")));
    HookDefinition::matching(
        HookEvent::PreToolUse,
        HookMatcher::parse("Read"),
        HookHandler::Callback(code),
        source,
    )
}

async fn answer(store: &FleetStore, results: &LargeResults, input: &Value) -> Value {
    let Some(hash) = input["file_path"].as_str().and_then(blob_named) else { return json!({}) };
    // `Read` itself reports the missing file; the hook denies nothing.
    let told = |why: String| json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "additionalContext": why}});
    match results.file_of(store, hash).await {
        Ok(BlobDownload::There(path)) => {
            let mut input = input.clone();
            input["file_path"] = json!(path);
            json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": input}})
        }
        Ok(BlobDownload::Unknown) => told(format!("The store of this fleet has no blob:{hash}.")),
        Ok(BlobDownload::NotWritten(why)) => told(format!("blob:{hash} could not become a file: {why}.")),
        Err(err) => told(format!("The store of the fleet could not be asked for blob:{hash}: {err}.")),
    }
}

/// Returns the blob a path names, unless a file of that name exists.
fn blob_named(path: &str) -> Option<BlobHash> {
    let name = Path::new(path).file_name()?.to_str()?;
    let hash = BlobHash::parse(name.strip_prefix("blob:")?).ok()?;
    (!Path::new(path).exists()).then_some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_blob_names_are_recognised() {
        let hash = BlobHash::hash(b"x");
        for (path, want) in [
            (format!("blob:{hash}"), Some(hash)),
            (format!("/srv/tree/blob:{hash}"), Some(hash)),
            (format!("blob:{hash}.txt"), None),
            (format!("x-blob:{hash}"), None),
            (format!("blob:{hash}/x"), None),
            (String::from("blob:12"), None),
            (String::from("blob:"), None),
            (hash.to_string(), None),
            (String::new(), None),
        ] {
            assert_eq!(blob_named(&path), want, "{path}");
        }
    }
}
