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

/// How long and how far a request may go.
#[derive(Clone, Copy, Debug)]
pub struct WebLimits {
    /// For finding the addresses of a name.
    pub lookup: Duration,
    /// From one request to the beginning of its answer.
    pub headers: Duration,
    /// Redirects of one request.
    pub hops: usize,
}

impl Default for WebLimits {
    fn default() -> Self {
        Self { lookup: Duration::from_secs(5), headers: Duration::from_secs(10), hops: 10 }
    }
}

/// Asks for pages. Each hop is read, looked up and judged anew, and the
/// connection goes to an address that was judged.
#[derive(Clone)]
pub struct WebClient {
    network: Arc<dyn WebNetwork>,
    near: PrivateHosts,
    limits: WebLimits,
}

/// What came of a request.
#[derive(Debug)]
pub enum FetchOutcome {
    /// A server answered; the status may be any but a redirect that was followed.
    Page(WebPage),
    /// The server sends the request to somebody else, who was not asked.
    Elsewhere(CrossHostRedirect),
}

/// An answer, with its body still to come.
#[derive(Debug)]
pub struct WebPage {
    /// Where it came from, after redirects.
    pub url: Url,
    /// The answer.
    pub response: Response,
    /// The proxy it came through, which decided about the address.
    pub proxy: Option<ProxyChoice>,
}

/// A redirect that was not followed.
#[derive(Clone, Debug)]
pub struct CrossHostRedirect {
    /// Who sent it.
    pub from: Url,
    /// Where to, as the server said.
    pub to: Url,
    /// How.
    pub status: StatusCode,
}

/// Why nothing came.
#[derive(Debug)]
pub enum FetchError {
    /// This address must not be asked.
    Refused {
        /// The address, as far as it was reached.
        url: String,
        /// Why not.
        problem: WebUrlError,
        /// Whether a server sent us there.
        redirected: bool,
    },
    /// The name leads to an address near this machine.
    NotPublic {
        /// The name.
        host: String,
        /// The address.
        address: IpAddr,
    },
    /// The name was not found.
    Unknown {
        /// The name.
        host: String,
        /// In the words of the system.
        why: String,
    },
    /// Another server was connected to than the judged one.
    OtherServer(IpAddr),
    /// More redirects than are followed.
    TooManyHops(usize),
    /// A redirect without a place to go.
    NoLocation(StatusCode),
    /// Something took too long.
    Slow {
        /// What.
        what: &'static str,
        /// How long was waited.
        waited: Duration,
    },
    /// The connection failed.
    Broken {
        /// The address.
        url: Url,
        /// In the words of the library.
        why: String,
    },
}

impl WebClient {
    /// Over this network; `near` may be asked although it is not public.
    pub fn new(network: Arc<dyn WebNetwork>, near: PrivateHosts, limits: WebLimits) -> Self {
        Self { network, near, limits }
    }

    /// The hosts nearby that may be asked.
    pub fn near(&self) -> &PrivateHosts {
        &self.near
    }

    /// Asks for a page and follows redirects on the same host.
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

    /// One request to one server.
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
                // A page of the same host that is asked for at the same time may have found
                // another address of it, which was judged as well and is public.
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

    /// Who is connected to: every address of the name is judged, and one that
    /// is near refuses all.
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
            // What the system here does not know, the proxy may.
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
            // Who hides the host of another server is told like any other.
            // That it may not be asked is said all the same.
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
