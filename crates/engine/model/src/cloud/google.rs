//! Google's application default credentials.

use google_cloud_auth::credentials::{AccessTokenCredentials, Builder};
use tokio::sync::OnceCell;

use crate::{ModelError, SecretString};

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// Access tokens from Google's application default credentials. Loaded on first use; the library
/// refreshes them.
#[derive(Debug, Default)]
pub(crate) struct GoogleTokens(OnceCell<AccessTokenCredentials>);

impl GoogleTokens {
    pub(crate) async fn get(&self) -> Result<SecretString, ModelError> {
        let fail = |err: &dyn std::fmt::Display| ModelError::Auth {
            message: format!("no Google credentials: {err}. Run `gcloud auth application-default login`."),
        };
        let credentials = self
            .0
            .get_or_try_init(async || {
                Builder::default().with_scopes([SCOPE]).build_access_token_credentials()
            })
            .await
            .map_err(|err| fail(&err))?;
        let token = credentials.access_token().await.map_err(|err| fail(&err))?;
        Ok(SecretString::new(token.token))
    }
}
