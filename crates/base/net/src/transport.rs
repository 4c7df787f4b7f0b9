use std::{
    collections::HashMap,
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::{
    Client, Proxy, Response,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{ACCEPT_ENCODING, HeaderMap},
    redirect::Policy,
};
use url::Url;

use crate::{literal_address, look_up};

pub type NetFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The network access of a [`crate::WebClient`]: name resolution and single requests. Replaced in tests.
pub trait WebNetwork: Send + Sync + 'static {
    fn look_up<'a>(&'a self, host: &'a str) -> NetFuture<'a, io::Result<Vec<IpAddr>>>;

    /// The proxy for requests to `url`, if any.
    fn proxy_for(&self, url: &Url) -> Option<ProxyChoice>;

    /// Sends one request over `request.route` only and follows no redirect.
    fn send<'a>(&'a self, request: SingleRequest<'a>) -> NetFuture<'a, Result<Response, reqwest::Error>>;
}

/// One request to one server, without redirects.
#[derive(Clone, Debug)]
pub struct SingleRequest<'a> {
    /// URL to request.
    pub url: &'a Url,
    pub route: &'a ConnectVia,
    /// Headers to send.
    pub headers: HeaderMap,
}

/// Where the connection of a request goes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ConnectVia {
    /// Directly to one of these checked addresses.
    Direct(Vec<IpAddr>),
    /// Through a proxy, which resolves the name itself.
    Proxy(ProxyChoice),
}

/// A proxy from the proxy environment variables. `Debug` omits the credentials.
#[derive(Clone, Eq, PartialEq)]
pub struct ProxyChoice {
    address: String,
    login: Option<(String, String)>,
}

impl std::fmt::Debug for ProxyChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ProxyChoice").field(&self.address).finish()
    }
}

impl ProxyChoice {
    /// The proxy's URL without user name and password.
    pub fn address(&self) -> &str {
        &self.address
    }
}

/// Connection timeout.
const CONNECT: Duration = Duration::from_secs(10);

/// [`WebNetwork`] that uses the system resolver and the user's proxy variables.
pub struct SystemNetwork {
    proxies: Matcher,
    pinned: Arc<PinnedAddresses>,
    direct: OnceLock<Client>,
    proxied: Mutex<HashMap<String, Client>>,
}

impl SystemNetwork {
    /// Reads `ALL_PROXY`, `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` through `variable`; the lower-case
    /// name takes precedence.
    pub fn new(variable: impl Fn(&str) -> Option<String>) -> Arc<Self> {
        let get = |name: &str| variable(&name.to_lowercase()).or_else(|| variable(name)).unwrap_or_default();
        let proxies = Matcher::builder()
            .all(get("ALL_PROXY"))
            .http(get("HTTP_PROXY"))
            .https(get("HTTPS_PROXY"))
            .no(get("NO_PROXY"))
            .build();
        Arc::new(Self { proxies, pinned: Arc::default(), direct: OnceLock::new(), proxied: Mutex::default() })
    }

    /// The shared client for public hosts. Its resolver knows only pinned addresses.
    fn direct(&self) -> Result<Client, reqwest::Error> {
        if let Some(client) = self.direct.get() {
            return Ok(client.clone());
        }
        let client = plain().dns_resolver(Arc::clone(&self.pinned)).build()?;
        Ok(self.direct.get_or_init(|| client).clone())
    }

    fn through(&self, proxy: &ProxyChoice) -> Result<Client, reqwest::Error> {
        let mut known = self.proxied.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = known.get(&proxy.address) {
            return Ok(client.clone());
        }
        let mut way = Proxy::all(&proxy.address)?;
        if let Some((name, password)) = &proxy.login {
            way = way.basic_auth(name, password);
        }
        let client = plain().proxy(way).build()?;
        known.insert(proxy.address.clone(), client.clone());
        Ok(client)
    }
}

/// A client builder without redirects, proxies, cookies, idle connections or automatic decompression
/// (the reader of the body decodes it).
fn plain() -> reqwest::ClientBuilder {
    Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .no_gzip()
        .pool_max_idle_per_host(0)
        .connect_timeout(CONNECT)
}

impl WebNetwork for SystemNetwork {
    fn look_up<'a>(&'a self, host: &'a str) -> NetFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(look_up(host))
    }

    fn proxy_for(&self, url: &Url) -> Option<ProxyChoice> {
        let found = self.proxies.intercept(&url.as_str().parse().ok()?)?;
        let login = found.raw_auth().map(|(name, password)| (name.to_owned(), password.to_owned()));
        Some(ProxyChoice { address: found.uri().to_string(), login })
    }

    fn send<'a>(&'a self, request: SingleRequest<'a>) -> NetFuture<'a, Result<Response, reqwest::Error>> {
        Box::pin(async move {
            let client = match request.route {
                ConnectVia::Proxy(proxy) => self.through(proxy)?,
                ConnectVia::Direct(addresses) => {
                    let host = request.url.host_str().unwrap_or_default();
                    match literal_address(request.url) {
                        Some(_) => self.direct()?,
                        None if addresses.iter().all(|it| crate::is_public(*it)) => {
                            self.pinned.set(host, addresses);
                            self.direct()?
                        }
                        // Addresses that are not public are pinned for this request only: another port
                        // of the same host may not reuse them.
                        None => {
                            let places: Vec<SocketAddr> =
                                addresses.iter().map(|it| SocketAddr::new(*it, 0)).collect();
                            plain().resolve_to_addrs(host, &places).build()?
                        }
                    }
                }
            };
            let asked = client.get(request.url.clone()).header(ACCEPT_ENCODING, "gzip");
            asked.headers(request.headers).send().await
        })
    }
}

/// Maximum number of pinned host names.
const MAX_NAMES: usize = 512;

/// Resolver that returns only the checked public addresses that were pinned for a host name.
#[derive(Default)]
struct PinnedAddresses(Mutex<HashMap<String, Vec<SocketAddr>>>);

impl PinnedAddresses {
    fn set(&self, host: &str, addresses: &[IpAddr]) {
        let places = addresses.iter().map(|it| SocketAddr::new(*it, 0)).collect();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if MAX_NAMES <= known.len() {
            known.clear();
        }
        known.insert(host.to_ascii_lowercase(), places);
    }
}

impl Resolve for PinnedAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(&name.as_str().to_ascii_lowercase()).cloned();
        Box::pin(async move {
            match found {
                Some(places) => Ok(Box::new(places.into_iter()) as Addrs),
                None => Err("the host was not judged".into()),
            }
        })
    }
}
