//! Logging in to servers at an address: OAuth 2.1.
//!
//! Discovery, registration, PKCE and the exchange of codes are the SDK's: it
//! passes every case of the conformance suite. What is ours is what it leaves
//! open: where tokens live, that several processes share them without tearing
//! a rotated refresh token apart, that a server that cannot be reached for a
//! moment does not cost the user a new login, where a login may lead, tokens
//! that nobody has to be there for, and tokens that are bound to a key.
//!
//! **Does not know** the protocol between client and server, transports, or how
//! a page is opened in a browser.
//!
//! **Invariant:** a login leads to no address nearer to this machine than the
//! server that names it, and nothing secret is in an error.
//!
//! Reads from the top: `login` for people, `grant` for everybody else, `token`
//! uses and renews what they got, `store` keeps it; `discover` finds the
//! authorization server and `wire` is the way to it.

mod allowed_hosts;
mod authorize;
mod callback;
mod client_grants;
mod discovery;
mod dpop;
mod http_endpoint;
mod jws;
mod login;
mod oauth_http;
mod oauth_settings;
mod server_clock;
mod token;
mod token_file;
mod token_response;

pub use authorize::{AuthChallenge, AuthHeader, RenewalOutcome, TokenSource, explain};
pub use callback::CallbackListener;
pub use http_endpoint::HttpEndpoint;
pub use login::{LoginError, LoginFlow, begin};
pub use oauth_settings::{
    ClientKey, ClientSecret, IdentityProvider, OAuthGrant, OAuthSettings, ProviderAddress,
};
pub use token::OAuthTokens;
pub use token_file::TokenFile;

/// What all logins of a manager share.
#[derive(Clone, Debug, Default)]
pub struct AuthOptions {
    /// Where tokens are kept; without it they last as long as the process.
    pub directory: Option<std::path::PathBuf>,
    /// A document at an address that describes this client, for authorization
    /// servers that take one instead of a registration.
    pub client_metadata_url: Option<String>,
}
