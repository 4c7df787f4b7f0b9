use std::{net::IpAddr, sync::Arc, time::Duration};

use reqwest::{
    Response, StatusCode,
    header::{HeaderMap, LOCATION},
};
use tokio::time::timeout;
use url::Url;

use crate::{
    AddressClass, ConnectVia, PrivateHosts, ProxyChoice, SingleRequest, WebNetwork, WebUrl, WebUrlError,
    innermost, literal_address,
};

/// Timeouts and redirect limit of a [`WebClient`] request.
#[derive(Clone, Copy, Debug)]
pub struct WebLimits {
    /// Timeout of one name resolution.
    pub lookup: Duration,
    /// Timeout from sending one request to its response headers.
    pub headers: Duration,
    /// Maximum number of redirects.
    pub hops: usize,
}

impl Default for WebLimits {
    fn default() -> Self {
        Self { lookup: Duration::from_secs(5), headers: Duration::from_secs(10), hops: 10 }
    }
}

/// Fetches web pages. Every hop is parsed, resolved and checked again, and the connection goes to a
/// checked address.
#[derive(Clone)]
pub struct WebClient {
    network: Arc<dyn WebNetwork>,
    near: PrivateHosts,
    limits: WebLimits,
}

/// Result of [`WebClient::get`].
#[derive(Debug)]
pub enum FetchOutcome {
    /// A server answered with any status except a followed redirect.
    Page(WebPage),
    /// A redirect to another host, which was not contacted.
    Elsewhere(CrossHostRedirect),
}

/// A response whose body has not been read yet.
#[derive(Debug)]
pub struct WebPage {
    /// Final URL, after redirects.
    pub url: Url,
    pub response: Response,
    /// The proxy used. It resolves the name itself, so the address it contacts is unknown here.
    pub proxy: Option<ProxyChoice>,
}

/// A redirect to another host that was not followed.
#[derive(Clone, Debug)]
pub struct CrossHostRedirect {
    /// URL that answered with the redirect.
    pub from: Url,
    /// Redirect target.
    pub to: Url,
    pub status: StatusCode,
}

/// Why a fetch failed.
#[derive(Debug)]
pub enum FetchError {
    /// The URL is not allowed.
    Refused {
        /// The refused URL.
        url: String,
        /// Why it was refused.
        problem: WebUrlError,
        /// Whether it is a redirect target.
        redirected: bool,
    },
    /// The host resolves to an address that is not public.
    NotPublic { host: String, address: IpAddr },
    /// The name did not resolve.
    Unknown {
        host: String,
        /// Error text of the resolver.
        why: String,
    },
    /// The connection went to an address that was not checked.
    OtherServer(IpAddr),
    /// The redirect limit was exceeded; the limit.
    TooManyHops(usize),
    /// A redirect without a `Location` header.
    NoLocation(StatusCode),
    /// A timeout.
    Slow {
        /// The step that timed out, for messages.
        what: &'static str,
        /// The timeout.
        waited: Duration,
    },
    /// The request failed.
    Broken {
        url: Url,
        /// Error text of the HTTP client.
        why: String,
    },
}

impl WebClient {
    /// Creates a client. Hosts in `near` may be fetched although they are not public.
    pub fn new(network: Arc<dyn WebNetwork>, near: PrivateHosts, limits: WebLimits) -> Self {
        Self { network, near, limits }
    }

    pub fn near(&self) -> &PrivateHosts {
        &self.near
    }

    /// Fetches a page and follows redirects within the same host, at most `limits.hops`.
    pub async fn get(&self, target: &WebUrl, headers: &HeaderMap) -> Result<FetchOutcome, FetchError> {
        let mut target = target.clone();
        for _ in 0..=self.limits.hops {
            let page = self.hop(&target, headers).await?;
            if !is_redirect(page.response.status()) {
                return Ok(FetchOutcome::Page(page));
            }
            match self.next(&target, &page)? {
                NextRequest::Follow(next) => target = next,
                NextRequest::Tell(elsewhere) => return Ok(FetchOutcome::Elsewhere(elsewhere)),
            }
        }
        Err(FetchError::TooManyHops(self.limits.hops))
    }

    /// Sends one request to one server.
    async fn hop(&self, target: &WebUrl, headers: &HeaderMap) -> Result<WebPage, FetchError> {
        let url = target.without_fragment();
        let route = self.route(target).await?;
        let request = SingleRequest { url: &url, route: &route, headers: headers.clone() };
        let response = timeout(self.limits.headers, self.network.send(request)).await;
        let slow = FetchError::Slow { what: "the server's answer", waited: self.limits.headers };
        let response = response.map_err(|_| slow)?;
        let response = response
            .map_err(|err| FetchError::Broken { url: url.clone(), why: innermost(&err.without_url()) })?;
        match route {
            ConnectVia::Direct(addresses) => match response.remote_addr().map(|it| it.ip().to_canonical()) {
                // A parallel request to the same host may have pinned other addresses of it, which were
                // checked too and are public.
                Some(other)
                    if !crate::is_public(other) && !addresses.iter().any(|it| it.to_canonical() == other) =>
                {
                    Err(FetchError::OtherServer(other))
                }
                _ => Ok(WebPage { url, response, proxy: None }),
            },
            ConnectVia::Proxy(proxy) => Ok(WebPage { url, response, proxy: Some(proxy) }),
        }
    }

    /// Resolves the host and chooses the route. Fails if any address of the host is not public, unless
    /// the host is allowed in `near`.
    async fn route(&self, target: &WebUrl) -> Result<ConnectVia, FetchError> {
        let near = self.near.has(target.url());
        let proxy = if near { None } else { self.network.proxy_for(target.url()) };
        let found = match literal_address(target.url()) {
            Some(address) => Ok(vec![address]),
            None => {
                let host = target.host();
                match timeout(self.limits.lookup, self.network.look_up(&host)).await {
                    Ok(Ok(found)) if found.is_empty() => {
                        Err(FetchError::Unknown { host, why: String::from("it has no address") })
                    }
                    Ok(Ok(found)) => Ok(found),
                    Ok(Err(err)) => Err(FetchError::Unknown { host, why: err.to_string() }),
                    Err(_) => {
                        Err(FetchError::Slow { what: "looking up the name", waited: self.limits.lookup })
                    }
                }
            }
        };
        if let Ok(addresses) = &found
            && !near
            && let Some(address) =
                addresses.iter().find(|it| AddressClass::classify(**it) != AddressClass::Public)
        {
            return Err(FetchError::NotPublic { host: target.host(), address: *address });
        }
        match proxy {
            // A name that does not resolve here may resolve at the proxy.
            Some(proxy) => Ok(ConnectVia::Proxy(proxy)),
            None => found.map(ConnectVia::Direct),
        }
    }

    fn next(&self, target: &WebUrl, page: &WebPage) -> Result<NextRequest, FetchError> {
        let status = page.response.status();
        let location = page.response.headers().get(LOCATION);
        let location = location.map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned());
        let Some(location) = location.filter(|it| !it.is_empty()) else {
            return Err(FetchError::NoLocation(status));
        };
        let refused =
            |problem, url: &str| Err(FetchError::Refused { url: url.to_owned(), problem, redirected: true });
        if location.chars().any(|it| it.is_control() || it.is_whitespace()) {
            return refused(WebUrlError::Blanks, &location);
        }
        let to = match page.url.join(&location) {
            Ok(to) => to,
            Err(err) => return refused(WebUrlError::Unreadable(err.to_string()), &location),
        };
        let elsewhere =
            || NextRequest::Tell(CrossHostRedirect { from: page.url.clone(), to: to.clone(), status });
        let next = match target.redirected(to.clone(), &self.near) {
            Ok(next) => next,
            // Credentials in a URL of another host are reported as a redirect to that host, not as an
            // error of this page.
            Err(WebUrlError::HiddenHost) if to.host() != page.url.host() => {
                let mut plain = to.clone();
                plain.set_username("").and(plain.set_password(None)).ok();
                return match target.redirected(plain, &self.near) {
                    Ok(_) => Ok(elsewhere()),
                    Err(problem) => refused(problem, to.as_str()),
                };
            }
            Err(problem) => return refused(problem, to.as_str()),
        };
        let downgraded = page.url.scheme() == "https" && to.scheme() == "http";
        if next.host() == target.host() && !downgraded {
            Ok(NextRequest::Follow(next))
        } else {
            Ok(elsewhere())
        }
    }
}

enum NextRequest {
    Follow(WebUrl),
    Tell(CrossHostRedirect),
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}
