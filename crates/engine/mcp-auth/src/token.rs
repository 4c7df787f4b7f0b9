use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use haft_tool::BoxFuture;
use reqwest::{Method, Url, header::HeaderMap};
use rmcp::transport::auth::{
    AuthError, CredentialStore, InMemoryCredentialStore, OAuthClientConfig, StoredCredentials,
};
use sha2::{Digest, Sha256};

use super::{
    client_grants::{self, GrantError},
    discovery::{AuthServerSource, find},
    dpop::Dpop,
    oauth_http::OAuthHttp,
    token_file::{LoginRecord, LoginTokens, TokenFile},
};
use haft_types::text::hex;

use crate::{AuthChallenge, AuthHeader, HttpEndpoint, RenewalOutcome, TokenSource};

/// A token is refreshed this many seconds before it expires, or in the last quarter of a short lifetime.
const REFRESH_EARLY_SECONDS: u64 = 300;

/// Delay after a failed optional refresh, and after a permanent rejection.
const PAUSE: Duration = Duration::from_secs(30);

/// The tokens of one MCP server.
pub struct OAuthTokens {
    server: String,
    endpoint: HttpEndpoint,
    file: Arc<TokenFile>,
    /// Serialises refreshes in this process; the file lock does so between processes.
    busy: tokio::sync::Mutex<()>,
    state: Mutex<TokenState>,
}

#[derive(Default)]
struct TokenState {
    /// Earliest time of the next refresh of a token that is still valid.
    not_before: Option<Instant>,
    /// Reason of a rejection, and until when it is cached.
    refused: Option<(Instant, String)>,
    bound: Option<Arc<Dpop>>,
}

impl OAuthTokens {
    /// Creates the tokens of a server, stored in `file`.
    pub fn new(server: &str, endpoint: &HttpEndpoint, file: Arc<TokenFile>) -> Self {
        let (server, endpoint) = (server.to_owned(), endpoint.clone());
        Self { server, endpoint, file, busy: tokio::sync::Mutex::default(), state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, TokenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_headless(&self) -> bool {
        self.endpoint.oauth.grant.is_headless()
    }

    /// Loads the stored login, unless it was made with other settings.
    fn load(&self) -> Option<LoginRecord> {
        self.file.load().filter(|it| it.settings == self.settings())
    }

    /// Returns a hash of the settings; `None` for browser logins.
    fn settings(&self) -> Option<String> {
        let oauth = &self.endpoint.oauth;
        let parts = (oauth.grant.name(), &oauth.client_id, &oauth.scopes, &oauth.auth_server_metadata_url);
        self.is_headless().then(|| hex(&Sha256::digest(format!("{parts:?}")))[..16].to_owned())
    }

    /// Gets a token other than the rejected one, unless another task or process just did.
    async fn renewed(&self, refused: Option<&str>, challenge: Option<&str>) -> RenewalOutcome {
        let _here = self.busy.lock().await;
        let _everywhere = match self.file.exclusive().await {
            Ok(guard) => guard,
            Err(err) => return RenewalOutcome::Later(format!("the login cannot be locked: {err}")),
        };
        let record = self.load();
        let login = record.as_ref().map(|it| &it.login);
        let is_new = match (login.and_then(LoginTokens::access_token), refused) {
            (Some(token), Some(refused)) => token != refused,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if is_new && !login.is_some_and(is_about_to_end) {
            return RenewalOutcome::Done;
        }
        match (self.is_headless(), record) {
            (true, record) => self.obtained(record, challenge).await,
            (false, Some(record)) if record.login.can_be_refreshed() => {
                self.refreshed(record, challenge).await
            }
            (false, _) => RenewalOutcome::Impossible,
        }
    }

    /// Requests a token with a grant that needs no user interaction.
    async fn obtained(&self, before: Option<LoginRecord>, challenge: Option<&str>) -> RenewalOutcome {
        let refused = self.state().refused.clone();
        if let Some((_, reason)) = refused.filter(|(until, _)| Instant::now() < *until) {
            return RenewalOutcome::Later(reason);
        }
        let kept = before.as_ref().and_then(|it| it.login.challenge.clone());
        let challenge = challenge.filter(|it| !it.is_empty()).or(kept.as_deref());
        match client_grants::obtain(&self.endpoint, challenge, before.as_ref()).await {
            Ok(login) => self.save(LoginRecord {
                server: self.server.clone(),
                url: self.endpoint.url.clone(),
                client_secret: None,
                redirect_uri: String::new(),
                settings: self.settings(),
                wanted: None,
                login,
            }),
            Err(GrantError::Refused(reason)) => {
                let reason = format!("there is no token for it, look at `oauth` in its entry: {reason}");
                self.state().refused = Some((Instant::now() + PAUSE, reason.clone()));
                RenewalOutcome::Later(reason)
            }
            Err(GrantError::Trouble(reason)) => {
                RenewalOutcome::Later(format!("there is no token for it now: {reason}"))
            }
        }
    }

    async fn refreshed(&self, record: LoginRecord, challenge: Option<&str>) -> RenewalOutcome {
        match exchange(&self.endpoint, &record, challenge).await {
            Ok(credentials) => self
                .save(LoginRecord { login: LoginTokens { credentials, ..record.login.clone() }, ..record }),
            Err(RenewalFailure::ForGood) => {
                // Remove the invalid tokens, but keep the granted scopes for the next login.
                let mut lost = record;
                lost.login.credentials.token_response = None;
                self.file.save(&lost).ok();
                RenewalOutcome::Impossible
            }
            // Transient failure: the login stays valid.
            Err(RenewalFailure::ForNow(reason)) => {
                RenewalOutcome::Later(format!("the login could not be renewed just now: {reason}"))
            }
        }
    }

    fn save(&self, record: LoginRecord) -> RenewalOutcome {
        match self.file.save(&record) {
            Ok(()) => RenewalOutcome::Done,
            Err(err) => RenewalOutcome::Later(format!("the renewed login cannot be stored: {err}")),
        }
    }

    /// Refreshes a token that is about to expire. On failure the old one is used; if it is invalid, the
    /// server will reject it.
    async fn renewed_early(&self, login: &LoginTokens) {
        let is_soon = self.state().not_before.is_some_and(|it| Instant::now() < it);
        if is_soon {
            return;
        }
        if let RenewalOutcome::Later(_) = self.renewed(login.access_token().as_deref(), None).await {
            self.state().not_before = Some(Instant::now() + PAUSE);
        }
    }

    /// Stores the scopes a call needs, for the next login, possibly by another process.
    async fn note_wanted(&self, challenge: &str) -> RenewalOutcome {
        let _here = self.busy.lock().await;
        if let (Ok(_everywhere), Some(record)) = (self.file.exclusive().await, self.load()) {
            // Otherwise the next login requests only the previous scopes.
            self.file.save(&LoginRecord { wanted: Some(challenge.to_owned()), ..record }).ok();
        }
        RenewalOutcome::Impossible
    }

    /// Returns the key a login is bound to.
    fn bound(&self, login: &LoginTokens) -> Option<Arc<Dpop>> {
        let kept = login.bound_key.as_deref().filter(|_| login.is_bound())?;
        let mut state = self.state();
        if state.bound.as_ref().is_none_or(|it| it.keep() != kept) {
            state.bound = Dpop::kept(kept).map(Arc::new);
        }
        state.bound.clone()
    }
}

fn is_about_to_end(login: &LoginTokens) -> bool {
    login.remaining().is_some_and(|(left, lifetime)| left < REFRESH_EARLY_SECONDS.min(lifetime / 4).max(1))
}

/// Why a login could not be renewed.
enum RenewalFailure {
    ForGood,
    ForNow(String),
}

/// OAuth error codes that mean that the login or client is not valid any more.
const FOR_GOOD: &[&str] = &["invalid_grant", "invalid_client", "unauthorized_client"];

/// Exchanges the refresh token.
async fn exchange(
    endpoint: &HttpEndpoint,
    record: &LoginRecord,
    challenge: Option<&str>,
) -> Result<StoredCredentials, RenewalFailure> {
    let credentials = &record.login.credentials;
    let wire = OAuthHttp::new(endpoint).await.map_err(RenewalFailure::ForNow)?;
    if let Some(bound) = record.login.bound_key.as_deref().and_then(Dpop::kept) {
        wire.bound.set(Arc::new(bound)).ok();
    }
    let challenge = challenge.filter(|it| !it.is_empty()).or(record.login.challenge.as_deref());
    let mut authority = find(endpoint, challenge, &wire).await.map_err(RenewalFailure::ForNow)?;
    if authority.source == AuthServerSource::Guessed && credentials.issuer.is_some() {
        // Never send a refresh token to a guessed address.
        return Err(RenewalFailure::ForNow(String::from("its authorization server cannot be found")));
    }
    let failed = |err: AuthError| match (&err, wire.refusal()) {
        (AuthError::TokenRefreshRejected(_) | AuthError::AuthorizationRequired, _) => RenewalFailure::ForGood,
        (_, Some(refusal)) if FOR_GOOD.contains(&refusal.code.as_str()) => RenewalFailure::ForGood,
        _ => RenewalFailure::ForNow(wire.reason(&err.to_string())),
    };
    let store = InMemoryCredentialStore::new();
    store.save(credentials.clone()).await.map_err(failed)?;
    authority.manager.set_credential_store(store.clone());
    if !authority.manager.initialize_from_store().await.map_err(failed)? {
        // The MCP server now uses another authorization server.
        return Err(RenewalFailure::ForGood);
    }
    if let Some(secret) = &record.client_secret {
        let client = OAuthClientConfig::new(&credentials.client_id, &record.redirect_uri);
        authority.manager.configure_client(client.with_client_secret(secret)).map_err(failed)?;
    }
    authority.manager.refresh_token().await.map_err(failed)?;
    store.load().await.map_err(failed)?.ok_or(RenewalFailure::ForGood)
}

impl TokenSource for OAuthTokens {
    fn pass<'a>(&'a self, method: &'a Method, url: &'a Url) -> BoxFuture<'a, Option<AuthHeader>> {
        Box::pin(async move {
            let mut login = self.load()?.login;
            if is_about_to_end(&login) && (self.is_headless() || login.can_be_refreshed()) {
                self.renewed_early(&login).await;
                login = self.load()?.login;
            }
            let bound = self.bound(&login);
            let token = login.access_token()?;
            let proof = bound.and_then(|it| it.proof(method.as_str(), url, Some(&token)).ok());
            Some(AuthHeader { token, proof })
        })
    }

    fn heard(&self, url: &Url, headers: &HeaderMap) -> bool {
        let bound = self.state().bound.clone();
        bound.is_some_and(|it| it.heard(url, headers))
    }

    fn renew<'a>(&'a self, refused: AuthChallenge<'a>) -> BoxFuture<'a, RenewalOutcome> {
        Box::pin(async move {
            match refused {
                AuthChallenge::Token { token, challenge } => self.renewed(token, Some(challenge)).await,
                // Additional scopes are requested by a user, if the grant involves one.
                AuthChallenge::Scope { token, challenge } if self.is_headless() => {
                    self.renewed(Some(token), Some(challenge)).await
                }
                AuthChallenge::Scope { challenge, .. } => self.note_wanted(challenge).await,
            }
        })
    }

    fn no_use(&self) -> Option<String> {
        let name = self.endpoint.oauth.grant.name();
        self.is_headless().then(|| {
            format!("it does not take the token that its authorization server gives for `grant: {name}`")
        })
    }
}
