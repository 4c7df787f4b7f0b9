use std::sync::Arc;

use haft_tool::BoxFuture;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, CredentialStore, InMemoryCredentialStore, OAuthClientConfig,
};

use super::store::{Record, TokenFile};
use crate::transport::{Authorize, Renewal};

/// A token is exchanged this long before it ends, or in the last quarter of a
/// short life.
const REFRESH_EARLY_SECONDS: u64 = 300;

/// The tokens of one server.
pub(crate) struct OAuthTokens {
    pub(crate) url: String,
    pub(crate) file: Arc<TokenFile>,
    /// One exchange at a time within this process; the file's lock does the
    /// same between processes.
    busy: tokio::sync::Mutex<()>,
}

impl OAuthTokens {
    pub(crate) fn new(url: &str, file: Arc<TokenFile>) -> Self {
        Self { url: url.to_owned(), file, busy: tokio::sync::Mutex::default() }
    }

    /// Exchanges the refresh token, unless somebody else just did.
    async fn refresh(&self, refused: Option<&str>) -> Renewal {
        let _here = self.busy.lock().await;
        let _everywhere = match self.file.exclusive().await {
            Ok(guard) => guard,
            Err(err) => return Renewal::Later(format!("the login cannot be locked: {err}")),
        };
        let Some(record) = self.file.load() else { return Renewal::Impossible };
        let is_new = match (record.access_token(), refused) {
            (Some(token), Some(refused)) => token != refused,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if is_new && !is_about_to_end(&record) {
            return Renewal::Done;
        }
        if !record.can_be_refreshed() {
            return Renewal::Impossible;
        }
        match exchange(&self.url, &record).await {
            Ok(credentials) => match self.file.save(&Record { credentials, ..record }) {
                Ok(()) => Renewal::Done,
                Err(err) => Renewal::Later(format!("the renewed login cannot be stored: {err}")),
            },
            Err(AuthError::TokenRefreshRejected(_) | AuthError::AuthorizationRequired) => Renewal::Impossible,
            // The authorization server is having a bad moment: the login is still good.
            Err(err) => Renewal::Later(format!("the login could not be renewed just now: {err}")),
        }
    }
}

fn is_about_to_end(record: &Record) -> bool {
    record.remaining().is_some_and(|(left, lifetime)| left < REFRESH_EARLY_SECONDS.min(lifetime / 4).max(1))
}

async fn exchange(url: &str, record: &Record) -> Result<rmcp::transport::auth::StoredCredentials, AuthError> {
    let store = InMemoryCredentialStore::new();
    store.save(record.credentials.clone()).await?;
    let mut manager = AuthorizationManager::new(url).await?;
    manager.set_credential_store(store.clone());
    if !manager.initialize_from_store().await? {
        // The server has moved to another authorization server.
        return Err(AuthError::AuthorizationRequired);
    }
    if let Some(secret) = &record.client_secret {
        let client = OAuthClientConfig::new(&record.credentials.client_id, &record.redirect_uri);
        manager.configure_client(client.with_client_secret(secret))?;
    }
    manager.refresh_token().await?;
    store.load().await?.ok_or(AuthError::AuthorizationRequired)
}

impl Authorize for OAuthTokens {
    fn token(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async move {
            let record = self.file.load()?;
            if is_about_to_end(&record) && record.can_be_refreshed() {
                // If it fails, the old token may still do; if not, the server will say so.
                self.refresh(record.access_token().as_deref()).await;
                return self.file.load()?.access_token();
            }
            record.access_token()
        })
    }

    fn renew<'a>(&'a self, token: Option<&'a str>) -> BoxFuture<'a, Renewal> {
        Box::pin(async move { self.refresh(token).await })
    }
}
