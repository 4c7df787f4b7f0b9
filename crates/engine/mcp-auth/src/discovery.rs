use std::sync::Arc;

use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource, OAuthClientConfig,
};
use serde_json::Value;

use super::oauth_http::{NO_PAGE, OAuthHttp, SharedOAuthHttp};
use crate::HttpEndpoint;

/// The authorization server of an MCP server.
pub(super) struct AuthServer {
    pub(super) manager: AuthorizationManager,
    pub(super) metadata: AuthorizationMetadata,
    pub(super) source: AuthServerSource,
}

/// How an authorization server was found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum AuthServerSource {
    /// Named in the configuration.
    Configured,
    /// Named by the MCP server, or by its own metadata.
    Described,
    /// Neither: the default location of the first protocol revision.
    Guessed,
}

/// Finds the authorization server. `challenge` is the server's `WWW-Authenticate`.
pub(super) async fn find(
    endpoint: &HttpEndpoint,
    challenge: Option<&str>,
    wire: &Arc<OAuthHttp>,
) -> Result<AuthServer, String> {
    let failed = |err: AuthError| wire.reason(&err.to_string());
    let client = Arc::new(SharedOAuthHttp(Arc::clone(wire)));
    let mut manager = AuthorizationManager::new_with_oauth_http_client(endpoint.url.as_str(), client)
        .await
        .map_err(failed)?;
    let (metadata, source) = match &endpoint.oauth.auth_server_metadata_url {
        Some(url) => {
            let document = wire.get(url).await?;
            let metadata = serde_json::from_value(document)
                .map_err(|_| format!("{url} is not what an authorization server says about itself"))?;
            (metadata, AuthServerSource::Configured)
        }
        None => {
            let found = manager.resolve_metadata_from_challenge(challenge).await.map_err(failed)?;
            let source = match found.source {
                AuthorizationMetadataSource::LegacyEndpointFallback => AuthServerSource::Guessed,
                _ => AuthServerSource::Described,
            };
            (found.metadata, source)
        }
    };
    for address in [Some(&metadata.token_endpoint), metadata.registration_endpoint.as_ref()] {
        is_private(&endpoint.url, address)?;
    }
    manager.set_metadata(metadata.clone());
    Ok(AuthServer { manager, metadata, source })
}

/// Rejects an unencrypted authorization server, unless the MCP server itself is unencrypted.
fn is_private(server: &str, address: Option<&String>) -> Result<(), String> {
    let Some(address) = address else { return Ok(()) };
    let url = Url::parse(address)
        .map_err(|_| String::from("the authorization server names an address that is none"))?;
    let is_here = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_here || server.starts_with("http:") => Ok(()),
        _ => Err(format!(
            "the authorization server wants secrets at {}, where others can read them",
            url.origin().ascii_serialization()
        )),
    }
}

impl AuthServer {
    /// Returns the resource identifier for token requests.
    pub(super) async fn resource(&mut self) -> Result<String, String> {
        // The SDK returns it only as part of a login.
        let mut pretended = self.metadata.clone();
        pretended.response_types_supported = None;
        pretended.code_challenge_methods_supported = None;
        self.manager.set_metadata(pretended);
        let resource = self.resource_of_login().await;
        self.manager.set_metadata(self.metadata.clone());
        resource
    }

    async fn resource_of_login(&mut self) -> Result<String, String> {
        let said = |err: AuthError| err.to_string();
        self.manager.configure_client(OAuthClientConfig::new("none", "http://localhost")).map_err(said)?;
        let page = self.manager.get_authorization_url(&[]).await.map_err(said)?;
        let page = Url::parse(&page).map_err(|err| err.to_string())?;
        let resource = page.query_pairs().find(|(name, _)| name == "resource").map(|(_, it)| it.into_owned());
        resource.ok_or_else(|| String::from("the server does not say what it is called"))
    }

    /// Returns a list in the authorization server's metadata.
    pub(super) fn list(&self, field: &str) -> Option<Vec<String>> {
        let list = self.metadata.additional_fields.get(field)?.as_array()?;
        Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    }

    /// Returns a boolean in the authorization server's metadata; false if missing.
    pub(super) fn says(&self, field: &str) -> bool {
        self.metadata.additional_fields.get(field) == Some(&Value::Bool(true))
    }

    /// Whether it has an authorization endpoint, so that users can log in.
    pub(super) fn has_page(&self) -> bool {
        self.metadata.authorization_endpoint != NO_PAGE
    }

    /// Returns the scopes to request: those in the configuration, else those the server asks for now
    /// plus those granted before.
    pub(super) async fn scopes(
        &self,
        endpoint: &HttpEndpoint,
        challenge: Option<&str>,
        granted: Option<&[String]>,
    ) -> Vec<String> {
        let wants_more = challenge.is_some_and(|it| it.contains("insufficient_scope"));
        let mut scopes = endpoint.oauth.scopes.clone();
        if wants_more {
            scopes.extend(granted.unwrap_or_default().iter().cloned());
        }
        if scopes.is_empty() || wants_more {
            scopes.extend(self.manager.select_initial_scopes(&[]).await);
        }
        let mut seen = std::collections::HashSet::new();
        scopes.retain(|it| seen.insert(it.clone()));
        scopes
    }
}
