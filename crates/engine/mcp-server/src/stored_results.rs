//! Large results as resources, so that a client can read them without access to the server's disk.
//!
//! Anyone who knows the URI of a result may read it, and URIs cannot be guessed: those of results
//! contain the client's random prefix, those of outputs a MAC.

use std::path::{Path, PathBuf};

use haft_tool::{Block, Content};
use haft_tool_runtime::{ResultStore, wire_name};
use rmcp::{
    ErrorData,
    model::{ContentBlock, ListResourcesResult, ReadResourceResult},
};
use serde_json::{Value, json};

use super::SharedServer;

const SCHEME: &str = "haft-result://";

/// URI scheme of output kept by a tool: index of the directory, and file name.
const OUTPUT_SCHEME: &str = "haft-output://";
const MAX_LISTED: usize = 100;

/// Maximum bytes of a result sent in one message.
const MAX_READ_BYTES: u64 = 8 << 20;

/// A stored result.
pub(super) struct StoredResult {
    uri: String,
    name: String,
    bytes: u64,
}

impl StoredResult {
    /// Returns what was stored for a call, if its result refers to it.
    pub(super) fn find(store: &ResultStore, call: &str, content: &Content) -> Option<Self> {
        let name = format!("{}.txt", wire_name(call));
        content.0.iter().filter_map(Block::as_text).find(|text| text.contains(&name))?;
        let bytes = std::fs::metadata(store.dir().join(&name)).ok()?.len();
        Some(Self { uri: format!("{SCHEME}{name}"), name, bytes })
    }

    /// Returns the file in these directories that a structured result refers to.
    pub(super) fn named_in(data: &Value, shared: &SharedServer) -> Option<Self> {
        let spools = &shared.options.spools;
        data.as_object()?.values().filter_map(Value::as_str).find_map(|text| {
            let path = Path::new(text);
            let within = |(number, spool): (usize, &PathBuf)| Some((number, path.strip_prefix(spool).ok()?));
            let (number, name) = spools.iter().enumerate().find_map(within)?;
            let name = name.to_str().filter(|it| is_plain(it))?;
            let bytes = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file)?.len();
            let seal = shared.seal.mark(&format!("{number}/{name}"));
            Some(Self { uri: format!("{OUTPUT_SCHEME}{number}/{seal}/{name}"), name: name.to_owned(), bytes })
        })
    }

    pub(super) fn link(&self) -> ContentBlock {
        let link = json!({
            "type": "resource_link",
            "uri": self.uri,
            "name": self.name,
            "mimeType": "text/plain",
            "size": self.bytes,
            "description": "The whole result",
        });
        serde_json::from_value(link).unwrap_or_else(|_| ContentBlock::text("(stored)"))
    }
}

/// Returns the name prefix of a client's results.
pub(super) fn own_prefix(client: &str) -> String {
    format!("mcp-{client}-")
}

/// Lists the newest results of a client.
pub(super) fn list(store: &ResultStore, client: &str) -> ListResourcesResult {
    let own = own_prefix(client);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(store.dir()).into_iter().flatten().flatten() {
        let (Ok(name), Ok(facts)) = (entry.file_name().into_string(), entry.metadata()) else { continue };
        if facts.is_file() && name.starts_with(&own) {
            found.push((facts.modified().ok(), name, facts.len()));
        }
    }
    found.sort_by(|a, b| b.cmp(a));
    let resource = |(_, name, bytes): (_, String, u64)| json!({"uri": format!("{SCHEME}{name}"), "name": name, "mimeType": "text/plain", "size": bytes});
    let resources: Vec<_> = found.into_iter().take(MAX_LISTED).map(resource).collect();
    let resources = serde_json::from_value(json!(resources)).unwrap_or_default();
    ListResourcesResult::with_all_items(resources)
}

/// Whether a name is a plain file name.
fn is_plain(name: &str) -> bool {
    Path::new(name).file_name().is_some_and(|it| it == name) && !name.starts_with('.')
}

/// Returns the file a URI refers to, which need not exist. Only plain names in the known directories are
/// accepted.
fn place(shared: &SharedServer, uri: &str) -> Option<PathBuf> {
    let (directory, name) = match (uri.strip_prefix(SCHEME), uri.strip_prefix(OUTPUT_SCHEME)) {
        (Some(name), _) => (shared.pipeline.results.dir(), name),
        (None, Some(rest)) => {
            let (number, rest) = rest.split_once('/')?;
            let (seal, name) = rest.split_once('/')?;
            if shared.seal.mark(&format!("{number}/{name}")) != seal {
                return None;
            }
            (shared.options.spools.get(number.parse::<usize>().ok()?)?.as_path(), name)
        }
        (None, None) => return None,
    };
    is_plain(name).then(|| directory.join(name))
}

/// Reads a result.
pub(super) fn read(shared: &SharedServer, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let missing = || ErrorData::resource_not_found(format!("no resource {uri}"), Some(json!({"uri": uri})));
    let path = place(shared, uri).ok_or_else(missing)?;
    let facts =
        std::fs::symlink_metadata(&path).ok().filter(std::fs::Metadata::is_file).ok_or_else(missing)?;
    let text = std::fs::read(&path).map_err(|_| missing())?;
    let shown = &text[..text.len().min(usize::try_from(MAX_READ_BYTES).unwrap_or(usize::MAX))];
    let mut text = String::from_utf8_lossy(shown).into_owned();
    if MAX_READ_BYTES < facts.len() {
        text.push_str(&format!("\n[the first {MAX_READ_BYTES} of {} bytes]", facts.len()));
    }
    let contents = json!([{"uri": uri, "mimeType": "text/plain", "text": text}]);
    let contents = serde_json::from_value(contents);
    Ok(ReadResourceResult::new(contents.map_err(|err| ErrorData::internal_error(err.to_string(), None))?))
}
