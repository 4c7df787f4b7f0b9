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

/// What a port of this crate answers with.
pub type NetFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The network under a [`crate::WebClient`]: names and single requests. A test
/// puts its own in the place of the system's.
pub trait WebNetwork: Send + Sync + 'static {
    /// All addresses of a host.
    fn look_up<'a>(&'a self, host: &'a str) -> NetFuture<'a, io::Result<Vec<IpAddr>>>;

    /// Whether requests to this address go through a proxy.
    fn proxy_for(&self, url: &Url) -> Option<ProxyChoice>;

    /// Sends one request, follows nothing, and connects to nobody but the route
    /// says.
    fn send<'a>(&'a self, request: SingleRequest<'a>) -> NetFuture<'a, Result<Response, reqwest::Error>>;
}

/// One request to one server.
#[derive(Clone, Debug)]
pub struct SingleRequest<'a> {
    /// Which page.
    pub url: &'a Url,
    /// Who is connected to.
    pub route: &'a ConnectVia,
    /// What goes with it.
    pub headers: HeaderMap,
}

/// Who is connected to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ConnectVia {
    /// One of these addresses, all of them judged.
    Direct(Vec<IpAddr>),
    /// A proxy, which looks the name up for itself.
    Proxy(ProxyChoice),
}

/// A proxy that a person's variables name.
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
    /// Where it is, without name and password.
    pub fn address(&self) -> &str {
        &self.address
    }
}

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// The network as the system and a person's variables give it.
pub struct SystemNetwork {
    proxies: Matcher,
    pinned: Arc<PinnedAddresses>,
    direct: OnceLock<Client>,
    proxied: Mutex<HashMap<String, Client>>,
}

impl SystemNetwork {
    /// With the proxies these variables name (`HTTPS_PROXY`, `NO_PROXY`, …).
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

    /// The client for public hosts: it finds only addresses that were judged.
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

/// No redirects, no proxies, no cookies, no connections that outlive their
/// check. Bodies are unpacked by whoever reads them.
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
                        // What is near is pinned for this one request: another
                        // port of the same name may not find it.
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

/// How many names are remembered.
const MAX_NAMES: usize = 512;

/// Names and the public addresses that were judged for them; nothing else is
/// found here.
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
