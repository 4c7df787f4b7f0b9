use std::collections::BTreeMap;

use crate::OAuthSettings;

/// A server at an address.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HttpEndpoint {
    /// The address.
    pub url: String,
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
    /// A command that prints a JSON object of more headers.
    pub headers_helper: Option<String>,
    /// How to log in, where discovery alone does not tell.
    pub oauth: OAuthSettings,
}
