use haft_tool::BoxFuture;
use reqwest::{Method, Url, header::HeaderMap};

/// Where tokens come from.
pub trait TokenSource: Send + Sync {
    /// What to show, if there is a login; renewed when it is about to end.
    fn pass<'a>(&'a self, method: &'a Method, url: &'a Url) -> BoxFuture<'a, Option<AuthHeader>>;

    /// Reads the headers of an answer. Says whether they hold something without
    /// which the request was refused.
    fn heard(&self, url: &Url, headers: &HeaderMap) -> bool;

    /// The server refused what it was shown; tries to get something else.
    fn renew<'a>(&'a self, refused: AuthChallenge<'a>) -> BoxFuture<'a, RenewalOutcome>;

    /// Why a login by hand would not help a server that still refuses.
    fn no_use(&self) -> Option<String>;
}

/// What a request shows to be let in.
pub struct AuthHeader {
    /// The token.
    pub token: String,
    /// That the token is ours, for tokens that are no use to others.
    pub proof: Option<String>,
}

/// What a server refused.
#[derive(Clone, Copy)]
pub enum AuthChallenge<'a> {
    /// That token, or to let us in without.
    Token {
        /// What it was shown.
        token: Option<&'a str>,
        /// What it said about it.
        challenge: &'a str,
    },
    /// To do this with that token: it is for less.
    Scope {
        /// What it was shown.
        token: &'a str,
        /// What it said about it.
        challenge: &'a str,
    },
}

/// What became of a refused token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RenewalOutcome {
    /// There is another one now.
    Done,
    /// Somebody has to log in.
    Impossible,
    /// Not now, for this reason; the login itself is still good.
    Later(String),
}

/// Everything `reqwest` knows, without the address: it may hold secrets.
pub fn explain(err: &reqwest::Error) -> String {
    let parts = haft_net::causes(err);
    if parts.is_empty() {
        if err.is_timeout() { String::from("timed out") } else { String::from("the request failed") }
    } else {
        parts.join(": ")
    }
}
