//! Proxy on the host side of a closed network: the only way out. Checks every destination. Supports
//! HTTP, `CONNECT` and SOCKS 5.

pub(crate) mod allowed_domains;
mod http;
mod socks;

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::AsyncReadExt as _,
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};

use crate::Domains;
use allowed_domains::{ProxyDestination, ProxyHost};

/// Maximum number of concurrent connections.
const MOST: usize = 256;
/// Timeout for connecting.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of refusals kept.
const TOLD: usize = 100;

/// Name resolution.
pub trait Lookup: Send + Sync {
    fn lookup<'a>(
        &'a self,
        host: &'a str,
    ) -> std::pin::Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;
}

/// [`Lookup`] through the system resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup<'a>(
        &'a self,
        host: &'a str,
    ) -> std::pin::Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        Box::pin(async move { haft_net::look_up(host).await })
    }
}

/// The proxy and its allowed domains.
pub(crate) struct Proxy {
    domains: Mutex<Domains>,
    lookup: Arc<dyn Lookup>,
    refused: Mutex<RefusalLog>,
}

/// The latest refusals and their total number.
#[derive(Default)]
struct RefusalLog {
    count: u64,
    last: VecDeque<String>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Proxy")
    }
}

impl Proxy {
    pub(crate) fn new(lookup: Arc<dyn Lookup>) -> Arc<Self> {
        Arc::new(Self { domains: Mutex::default(), lookup, refused: Mutex::default() })
    }

    /// Replaces the allowed domains; affects new connections.
    pub(crate) fn set_domains(&self, domains: Domains) {
        *self.domains.lock().unwrap_or_else(PoisonError::into_inner) = domains;
    }

    /// Total number of refused connections.
    pub(crate) fn refusals(&self) -> u64 {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    /// Refusals since the total was `count`, without duplicates. Not consumed, because commands run
    /// concurrently.
    pub(crate) fn refused_since(&self, count: u64) -> Vec<String> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let news = usize::try_from(refused.count.saturating_sub(count)).unwrap_or(usize::MAX);
        let mut told: Vec<String> = Vec::new();
        for why in refused.last.iter().skip(refused.last.len().saturating_sub(news)) {
            if !told.contains(why) {
                told.push(why.clone());
            }
        }
        told
    }

    /// Serves connections until the listener fails.
    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener) {
        let slots = Arc::new(Semaphore::new(MOST));
        loop {
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => {
                    let proxy = Arc::clone(&self);
                    tokio::spawn(async move {
                        proxy.talk(stream).await.ok();
                        drop(slot);
                    });
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    async fn talk(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut first = [0];
        tokio::time::timeout(TIMEOUT, stream.read_exact(&mut first)).await??;
        match first[0] {
            socks::VERSION => socks::serve(self, stream).await,
            byte => http::serve(self, stream, byte).await,
        }
    }

    /// Connects to a destination if it is allowed. Connects to the address that was checked.
    async fn dial(&self, to: &ProxyDestination) -> Result<TcpStream, ProxyRefusal> {
        let domains = self.domains.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Err(why) = domains.admit(to) {
            return Err(self.refuse(why));
        }
        let addresses = match &to.host {
            ProxyHost::Address(ip) => vec![*ip],
            ProxyHost::Name(name) => {
                let found = tokio::time::timeout(TIMEOUT, self.lookup.lookup(name)).await;
                found
                    .map_err(|_| ProxyRefusal::Failed(format!("{name} could not be looked up in time")))?
                    .map_err(|err| ProxyRefusal::Failed(format!("{name} could not be looked up: {err}")))?
            }
        };
        let literal = matches!(to.host, ProxyHost::Address(_)) && domains.names(to);
        let allowed: Vec<IpAddr> =
            addresses.into_iter().filter(|ip| literal || haft_net::is_public(*ip)).collect();
        if allowed.is_empty() {
            return Err(self.refuse(format!("{to} leads to no public address")));
        }
        let mut last = String::new();
        for ip in allowed {
            match tokio::time::timeout(TIMEOUT, TcpStream::connect(SocketAddr::new(ip, to.port))).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(err)) => last = err.to_string(),
                Err(_) => last = String::from("it did not answer in time"),
            }
        }
        Err(ProxyRefusal::Failed(format!("{to}: {last}")))
    }

    fn refuse(&self, why: String) -> ProxyRefusal {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.count += 1;
        if TOLD <= refused.last.len() {
            refused.last.pop_front();
        }
        refused.last.push_back(why.clone());
        ProxyRefusal::Forbidden(why)
    }
}

/// Why there is no connection.
enum ProxyRefusal {
    /// The destination is not allowed.
    Forbidden(String),
    /// The connection failed.
    Failed(String),
}
