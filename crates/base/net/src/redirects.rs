use std::fmt;

use reqwest::redirect::{Action, Attempt, Policy};
use url::Url;

/// Redirect policy with a maximum number of hops and a caller-supplied check per hop.
#[derive(Clone, Copy, Debug)]
pub struct RedirectPolicy {
    /// Maximum number of redirects of one request.
    pub limit: usize,
    /// Error text when the limit is exceeded.
    pub too_many: &'static str,
}

/// One redirect.
#[derive(Clone, Copy, Debug)]
pub struct RedirectHop<'a> {
    /// URL of the original request.
    pub first: &'a Url,
    /// URL that answered with the redirect.
    pub from: &'a Url,
    /// Redirect target.
    pub to: &'a Url,
}

impl RedirectHop<'_> {
    /// Whether the target has the same origin (scheme, host, port) as the original request.
    pub fn keeps_origin(&self) -> bool {
        self.first.origin() == self.to.origin()
    }

    /// Whether the target has the same origin as `from`, or is the `https` form of it on the default
    /// port.
    pub fn stays_in_place(&self) -> bool {
        let Self { from, to, .. } = self;
        let default_ports = from.port().is_none() && to.port().is_none();
        let encrypted = (from.scheme(), to.scheme()) == ("http", "https") && default_ports;
        from.origin() == to.origin() || (encrypted && from.host() == to.host())
    }
}

impl RedirectPolicy {
    /// Builds the `reqwest` policy. `judge` is called for every hop before the limit is checked; its
    /// `Err` text becomes the request's error.
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
