//! OAuth 2.1 logins to remote MCP servers.
//!
//! Discovery, registration, PKCE and code exchange are done by the official SDK, which passes the
//! conformance suite. This crate adds: storing tokens; sharing them between processes without breaking
//! refresh token rotation; keeping a login while the authorization server is temporarily unreachable;
//! restricting the addresses a login may contact; grants without user interaction; and key-bound tokens.
//!
//! **Out of scope**: the MCP protocol, transports, opening a browser.
//!
//! **Invariant:** a login contacts no address closer to this machine than the server that names it, and
//! errors contain no secrets.
//!
//! Start reading at `login` (users) and `client_grants` (no user interaction); `token` uses and
//! refreshes tokens, `token_file` stores them, `discovery` finds the authorization server, `oauth_http`
//! sends the requests.

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

/// Options shared by all logins of a manager.
#[derive(Clone, Debug, Default)]
pub struct AuthOptions {
    /// Directory for tokens; `None` keeps them in memory.
    pub directory: Option<std::path::PathBuf>,
    /// URL of a client metadata document, for authorization servers that accept one in place of a
    /// registration.
    pub client_metadata_url: Option<String>,
}
