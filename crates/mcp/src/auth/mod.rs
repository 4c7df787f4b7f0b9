//! Logging in to servers at an address: OAuth 2.1.
//!
//! Discovery, registration, PKCE and the exchange of codes are the SDK's: it
//! passes every case of the conformance suite. What is ours is what it leaves
//! open: where tokens live, that several processes share them without tearing
//! a rotated refresh token apart, and that a server that cannot be reached for a
//! moment does not cost the user a new login.

mod callback;
mod login;
mod store;
mod token;

pub use callback::CallbackListener;
pub(crate) use login::begin;
pub use login::{LoginError, LoginFlow};
pub(crate) use store::TokenFile;
pub(crate) use token::OAuthTokens;

/// What all logins of a manager share.
#[derive(Clone, Debug, Default)]
pub struct AuthOptions {
    /// Where tokens are kept; without it they last as long as the process.
    pub directory: Option<std::path::PathBuf>,
    /// A document at an address that describes this client, for authorization
    /// servers that take one instead of a registration.
    pub client_metadata_url: Option<String>,
}
