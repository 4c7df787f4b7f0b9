use std::sync::Arc;

use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationCallback, CredentialStore, InMemoryCredentialStore, OAuthClientConfig,
};

use super::{
    AuthOptions,
    client_grants::wants_proof,
    discovery::{AuthServer, AuthServerSource, find},
    dpop::Dpop,
    oauth_http::OAuthHttp,
    token_file::{LoginRecord, LoginTokens, TokenFile},
};
use crate::HttpEndpoint;

/// Why a login failed, worded for the user.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct LoginError(pub String);

impl From<String> for LoginError {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

/// A login that waits for the browser's redirect.
pub struct LoginFlow {
    authority: AuthServer,
    wire: Arc<OAuthHttp>,
    store: InMemoryCredentialStore,
    file: Arc<TokenFile>,
    record: UnfinishedLogin,
    url: String,
    /// OAuth `state` parameter of this login.
    state: String,
}

/// What will be stored besides the tokens.
struct UnfinishedLogin {
    server: String,
    url: String,
    client_secret: Option<String>,
    redirect_uri: String,
    challenge: Option<String>,
}

/// Starts a login: finds the authorization server and registers this client if necessary.
pub async fn begin(
    server: &str,
    endpoint: &HttpEndpoint,
    challenge: Option<&str>,
    redirect_uri: &str,
    options: &AuthOptions,
    file: Arc<TokenFile>,
) -> Result<LoginFlow, LoginError> {
    let name = endpoint.oauth.grant.name();
    if endpoint.oauth.grant.is_headless() {
        return Err(LoginError(format!(
            "nobody logs in with `grant: {name}`; its entry says how tokens are got"
        )));
    }
    let before = file.load();
    let challenge = before.as_ref().and_then(|it| it.wanted.as_deref()).or(challenge);
    let wire = OAuthHttp::new(endpoint).await?;
    let mut authority = find(endpoint, challenge, &wire).await?;
    is_safe(&authority)?;
    let failed = |err: AuthError| LoginError(wire.reason(&err.to_string()));
    let store = InMemoryCredentialStore::new();
    authority.manager.set_credential_store(store.clone());
    let granted = before.as_ref().map(|it| it.login.credentials.granted_scopes.as_slice());
    let scopes = authority.scopes(endpoint, challenge, granted).await;
    let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let client = client(&mut authority, endpoint, redirect_uri, &scopes, options, &wire).await?;
    let client_secret = client.client_secret.clone();
    authority.manager.configure_client(client).map_err(failed)?;
    let url = authority.manager.get_authorization_url(&scopes).await.map_err(failed)?;
    if !url.starts_with("https://") && !url.starts_with("http://") {
        return Err(LoginError(String::from(
            "the authorization server names an address that is no web page",
        )));
    }
    let binds = authority.list("dpop_signing_alg_values_supported");
    if wants_proof(challenge) && binds.is_some_and(|it| it.iter().any(|it| it == "ES256")) {
        wire.bound.set(Arc::new(Dpop::generate()?)).ok();
    }
    let state = field(&url, "state").unwrap_or_default();
    let record = UnfinishedLogin {
        server: server.to_owned(),
        url: endpoint.url.clone(),
        client_secret,
        redirect_uri: redirect_uri.to_owned(),
        challenge: challenge.map(str::to_owned),
    };
    Ok(LoginFlow { authority, wire, store, file, record, url, state })
}

/// Checks that the authorization server supports PKCE, so that an intercepted code is useless.
fn is_safe(authority: &AuthServer) -> Result<(), LoginError> {
    if !authority.has_page() {
        return Err(LoginError(String::from(
            "its authorization server has no page to log in at; set `oauth.grant` in its entry",
        )));
    }
    // Without PKCE, an intercepted redirect could be used by others.
    match &authority.metadata.code_challenge_methods_supported {
        Some(methods) if !methods.iter().any(|it| it == "S256") => Err(LoginError(String::from(
            "its authorization server does not protect logins well enough (PKCE with S256)",
        ))),
        // An authorization server named in the configuration is trusted to support it.
        None if authority.source == AuthServerSource::Described => Err(LoginError(String::from(
            "its authorization server does not say that it protects logins (PKCE with S256); \
             if you know that it does, name its description in `oauth.authServerMetadataUrl`",
        ))),
        _ => Ok(()),
    }
}

/// Returns the client identity: the configured one, else a metadata document, else a new registration.
async fn client(
    authority: &mut AuthServer,
    endpoint: &HttpEndpoint,
    redirect_uri: &str,
    scopes: &[&str],
    options: &AuthOptions,
    wire: &OAuthHttp,
) -> Result<OAuthClientConfig, LoginError> {
    let takes_documents = authority.says("client_id_metadata_document_supported");
    let document = options.client_metadata_url.as_ref().filter(|_| takes_documents);
    match (&endpoint.oauth.client_id, document) {
        (Some(id), _) => {
            let client = OAuthClientConfig::new(id, redirect_uri);
            Ok(match &endpoint.oauth.client_secret {
                Some(secret) => client.with_client_secret(secret.read()?),
                None => client,
            })
        }
        (None, Some(url)) => Ok(OAuthClientConfig::new(url, redirect_uri)),
        (None, None) if authority.metadata.registration_endpoint.is_none() => Err(LoginError(String::from(
            "its authorization server registers nobody by itself; \
             register a client there and set `oauth.clientId` in its entry",
        ))),
        (None, None) => {
            let registered = authority.manager.register_client("Haft", redirect_uri, scopes).await;
            registered.map_err(|err| {
                let why = haft_types::text::one_line(&wire.reason(&err.to_string()), 200);
                LoginError(format!(
                    "its authorization server does not register this client ({why}); \
                     if you have one there, set `oauth.clientId` in its entry"
                ))
            })
        }
    }
}

impl LoginFlow {
    /// Returns the URL to open in a browser. Always `http:` or `https:`; pass it to the browser as an
    /// argument, never through a shell.
    pub fn authorization_url(&self) -> &str {
        &self.url
    }

    /// Whether a URL is the redirect of this login, successful or not, and not of another login or
    /// forged.
    pub fn is_answer(&self, callback_url: &str) -> bool {
        let has = |name| field(callback_url, name).is_some();
        !self.state.is_empty()
            && field(callback_url, "state").as_deref() == Some(self.state.as_str())
            && (has("code") || has("error"))
    }

    /// Finishes the login with the redirect's URL and stores the tokens.
    pub async fn finish(self, callback_url: &str) -> Result<(), LoginError> {
        if let Some(reason) = refusal(callback_url) {
            return Err(LoginError(reason));
        }
        if !self.is_answer(callback_url) {
            return Err(LoginError(String::from("that is not the answer to this login; begin again")));
        }
        let failed = |err: AuthError| LoginError(self.wire.reason(&told(&err)));
        let callback = AuthorizationCallback::from_redirect_url(callback_url).map_err(failed)?;
        let exchanged = self.authority.manager.exchange_code_for_token_with_issuer(
            &callback.code,
            &callback.csrf_token,
            callback.issuer.as_deref(),
        );
        exchanged.await.map_err(failed)?;
        let stored = self.store.load().await.map_err(failed)?;
        let credentials = stored.ok_or_else(|| LoginError(String::from("the server gave no token")))?;
        let UnfinishedLogin { server, url, client_secret, redirect_uri, challenge } = self.record;
        let bound_key = self.wire.bound.get().map(|it| it.keep().to_owned());
        let login = LoginTokens { credentials, challenge, bound_key };
        let record =
            LoginRecord { server, url, client_secret, redirect_uri, settings: None, wanted: None, login };
        self.file.save(&record).map_err(|err| LoginError(format!("the login cannot be stored: {err}")))
    }
}

/// Formats an error of the SDK for the user.
fn told(err: &AuthError) -> String {
    match err {
        AuthError::AuthorizationServerMismatch { expected_issuer, received_issuer } => {
            format!("the answer came from {received_issuer}, and the login was at {expected_issuer}")
        }
        AuthError::AuthorizationServerMissingIssuer { expected_issuer } => {
            format!("the answer does not say that it came from {expected_issuer}")
        }
        AuthError::TokenExchangeFailed(_) => {
            String::from("its authorization server answered without a token that can be read")
        }
        other => other.to_string(),
    }
}

/// Returns a query parameter of a URL.
fn field(url: &str, name: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Returns the error in a redirect.
fn refusal(callback_url: &str) -> Option<String> {
    let error = field(callback_url, "error")?;
    let description =
        field(callback_url, "error_description").map(|it| format!(": {it}")).unwrap_or_default();
    Some(haft_types::text::one_line(&format!("the login was refused: {error}{description}"), 300))
}
