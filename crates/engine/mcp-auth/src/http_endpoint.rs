use std::collections::BTreeMap;

use crate::OAuthSettings;

/// A remote MCP server.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HttpEndpoint {
    pub url: String,
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
    /// A command that prints additional headers as a JSON object.
    pub headers_helper: Option<String>,
    /// Login settings that discovery does not provide.
    pub oauth: OAuthSettings,
}
