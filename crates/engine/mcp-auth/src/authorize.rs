use haft_tool::BoxFuture;
use reqwest::{Method, Url, header::HeaderMap};

/// Provides tokens for requests.
pub trait TokenSource: Send + Sync {
    /// Returns the headers for a request; `None` without a login. Refreshes a token that is about to
    /// expire.
    fn pass<'a>(&'a self, method: &'a Method, url: &'a Url) -> BoxFuture<'a, Option<AuthHeader>>;

    /// Processes response headers. Returns whether they contain something (a DPoP nonce) that the
    /// rejected request lacked.
    fn heard(&self, url: &Url, headers: &HeaderMap) -> bool;

    /// Tries to get another token after a rejection.
    fn renew<'a>(&'a self, refused: AuthChallenge<'a>) -> BoxFuture<'a, RenewalOutcome>;

    /// Returns why a login by the user would not help.
    fn no_use(&self) -> Option<String>;
}

/// Authorization headers of a request.
pub struct AuthHeader {
    /// Access token.
    pub token: String,
    /// Proof of possession (DPoP), for tokens bound to a key.
    pub proof: Option<String>,
}

/// What a server rejected.
#[derive(Clone, Copy)]
pub enum AuthChallenge<'a> {
    /// The token, or a request without one.
    Token {
        /// The token that was sent.
        token: Option<&'a str>,
        /// Content of `WWW-Authenticate`.
        challenge: &'a str,
    },
    /// The operation: the token lacks scopes.
    Scope {
        /// The token that was sent.
        token: &'a str,
        /// Content of `WWW-Authenticate`.
        challenge: &'a str,
    },
}

/// Result of renewing a token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RenewalOutcome {
    /// There is a new token.
    Done,
    /// The user has to log in.
    Impossible,
    /// Not possible now, for this reason; the login is still valid.
    Later(String),
}

/// Formats an error with its sources but without its URL, which may contain secrets.
pub fn explain(err: &reqwest::Error) -> String {
    let parts = haft_net::causes(err);
    if parts.is_empty() {
        if err.is_timeout() { String::from("timed out") } else { String::from("the request failed") }
    } else {
        parts.join(": ")
    }
}
