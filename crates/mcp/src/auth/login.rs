use std::sync::Arc;

use rmcp::transport::auth::{
    AuthError, AuthorizationCallback, AuthorizationManager, CredentialStore, InMemoryCredentialStore,
    OAuthClientConfig,
};

use super::{
    AuthOptions,
    store::{Record, TokenFile},
};
use crate::config::HttpEndpoint;

/// Why a login did not succeed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct LoginError(pub(crate) String);

impl From<AuthError> for LoginError {
    fn from(err: AuthError) -> Self {
        Self(err.to_string())
    }
}

/// A login that waits for the user to come back from the browser.
pub struct LoginFlow {
    manager: AuthorizationManager,
    store: InMemoryCredentialStore,
    file: Arc<TokenFile>,
    record: Unfinished,
    url: String,
}

/// What the record of the login will hold beside its tokens.
struct Unfinished {
    server: String,
    url: String,
    client_secret: Option<String>,
    redirect_uri: String,
}

/// Begins a login: finds the authorization server, registers this client if
/// necessary.
pub(crate) async fn begin(
    server: &str,
    endpoint: &HttpEndpoint,
    challenge: Option<&str>,
    redirect_uri: &str,
    options: &AuthOptions,
    file: Arc<TokenFile>,
) -> Result<LoginFlow, LoginError> {
    let mut manager = AuthorizationManager::new(endpoint.url.as_str()).await?;
    let store = InMemoryCredentialStore::new();
    manager.set_credential_store(store.clone());
    let metadata = match &endpoint.oauth.auth_server_metadata_url {
        Some(url) => fetch_metadata(url).await?,
        None => manager.resolve_metadata_from_challenge(challenge).await?.metadata,
    };
    let takes_documents = metadata.additional_fields.get("client_id_metadata_document_supported")
        == Some(&serde_json::Value::Bool(true));
    manager.set_metadata(metadata);
    let scopes = scopes(&manager, endpoint, challenge, file.load().as_ref()).await;
    let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let document = options.client_metadata_url.as_ref().filter(|_| takes_documents);
    let client = match (&endpoint.oauth.client_id, document) {
        (Some(id), _) => {
            let client = OAuthClientConfig::new(id, redirect_uri);
            match &endpoint.oauth.client_secret {
                Some(secret) => client.with_client_secret(secret),
                None => client,
            }
        }
        (None, Some(url)) => OAuthClientConfig::new(url, redirect_uri),
        (None, None) => manager.register_client("Haft", redirect_uri, &scopes).await?,
    };
    let client_secret = client.client_secret.clone();
    manager.configure_client(client)?;
    let url = manager.get_authorization_url(&scopes).await?;
    if !url.starts_with("https://") && !url.starts_with("http://") {
        return Err(LoginError(String::from(
            "the authorization server names an address that is no web page",
        )));
    }
    let record = Unfinished {
        server: server.to_owned(),
        url: endpoint.url.clone(),
        client_secret,
        redirect_uri: redirect_uri.to_owned(),
    };
    Ok(LoginFlow { manager, store, file, record, url })
}

/// What to ask for: what the configuration says, else what the server asks for
/// now, on top of what was granted before.
async fn scopes(
    manager: &AuthorizationManager,
    endpoint: &HttpEndpoint,
    challenge: Option<&str>,
    before: Option<&Record>,
) -> Vec<String> {
    if !endpoint.oauth.scopes.is_empty() {
        return endpoint.oauth.scopes.clone();
    }
    let wants_more = challenge.is_some_and(|it| it.contains("insufficient_scope"));
    let mut scopes = match before {
        Some(record) if wants_more => record.credentials.granted_scopes.clone(),
        _ => Vec::new(),
    };
    for scope in manager.select_initial_scopes(&[]).await {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    scopes
}

async fn fetch_metadata(url: &str) -> Result<rmcp::transport::auth::AuthorizationMetadata, LoginError> {
    let problem = |err: reqwest::Error| LoginError(format!("{url} cannot be read: {err}"));
    let response = reqwest::get(url).await.and_then(reqwest::Response::error_for_status).map_err(problem)?;
    response.json().await.map_err(problem)
}

impl LoginFlow {
    /// The page the user has to open. Always `http:` or `https:`; hand it to a
    /// browser as an argument, never through a shell.
    pub fn authorization_url(&self) -> &str {
        &self.url
    }

    /// Takes the address the browser came back to and keeps the tokens.
    pub async fn finish(self, callback_url: &str) -> Result<(), LoginError> {
        if let Some(reason) = refusal(callback_url) {
            return Err(LoginError(reason));
        }
        let callback = AuthorizationCallback::from_redirect_url(callback_url)?;
        let exchanged = self.manager.exchange_code_for_token_with_issuer(
            &callback.code,
            &callback.csrf_token,
            callback.issuer.as_deref(),
        );
        exchanged.await?;
        let stored = self.store.load().await?;
        let credentials = stored.ok_or_else(|| LoginError(String::from("the server gave no token")))?;
        let Unfinished { server, url, client_secret, redirect_uri } = self.record;
        let record = Record { server, url, client_secret, redirect_uri, credentials };
        self.file.save(&record).map_err(|err| LoginError(format!("the login cannot be stored: {err}")))
    }
}

/// What the authorization server says instead of a code.
fn refusal(callback_url: &str) -> Option<String> {
    let url = reqwest::Url::parse(callback_url).ok()?;
    let field =
        |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    let error = field("error")?;
    let description = field("error_description").map(|it| format!(": {it}")).unwrap_or_default();
    Some(haft_types::text::one_line(&format!("the login was refused: {error}{description}"), 300))
}
