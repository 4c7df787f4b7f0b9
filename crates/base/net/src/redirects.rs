use std::fmt;

use reqwest::redirect::{Action, Attempt, Policy};
use url::Url;

/// How redirects are followed: no more than so many, and none the judge of the
/// user refuses.
#[derive(Clone, Copy, Debug)]
pub struct RedirectPolicy {
    /// The most redirects of one request.
    pub limit: usize,
    /// The words for one more.
    pub too_many: &'static str,
}

/// One step of a request from a server to the next.
#[derive(Clone, Copy, Debug)]
pub struct RedirectHop<'a> {
    /// Where the request was meant to go.
    pub first: &'a Url,
    /// Which address sends it on.
    pub from: &'a Url,
    /// Where to.
    pub to: &'a Url,
}

impl RedirectHop<'_> {
    /// Whether the request stays with the server it was meant for.
    pub fn keeps_origin(&self) -> bool {
        self.first.origin() == self.to.origin()
    }

    /// The same origin as before, or its encrypted form.
    pub fn stays_in_place(&self) -> bool {
        let Self { from, to, .. } = self;
        let default_ports = from.port().is_none() && to.port().is_none();
        let encrypted = (from.scheme(), to.scheme()) == ("http", "https") && default_ports;
        from.origin() == to.origin() || (encrypted && from.host() == to.host())
    }
}

impl RedirectPolicy {
    /// A policy for a client. `judge` sees every hop; its words are the error of
    /// a request that was sent where it may not go.
    pub fn policy<F>(self, judge: F) -> Policy
    where
        F: Fn(RedirectHop<'_>) -> Result<(), String> + Send + Sync + 'static,
    {
        Policy::custom(move |attempt| self.step(attempt, &judge))
    }

    fn step(self, attempt: Attempt<'_>, judge: &dyn Fn(RedirectHop<'_>) -> Result<(), String>) -> Action {
        let judged = match (attempt.previous().first(), attempt.previous().last()) {
            (Some(first), Some(from)) => judge(RedirectHop { first, from, to: attempt.url() }),
            _ => Ok(()),
        };
        match judged {
            Err(why) => attempt.error(RefusedRedirect(why)),
            Ok(()) if self.limit < attempt.previous().len() => attempt.error(self.too_many),
            Ok(()) => attempt.follow(),
        }
    }
}

#[derive(Debug)]
struct RefusedRedirect(String);

impl fmt::Display for RefusedRedirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RefusedRedirect {}
