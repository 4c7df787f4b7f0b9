//! Which addresses may be reached.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use haft_shell::sandbox::is_public;
use reqwest::dns::{Name, Resolve, Resolving};

/// Whether a feed may come from this machine or its neighbourhood.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Neighbourhood {
    /// Only public addresses.
    #[default]
    Refused,
    /// Any address.
    Allowed,
}

impl Neighbourhood {
    pub(crate) fn admits(self, ip: IpAddr) -> bool {
        self == Self::Allowed || is_public(ip)
    }
}

/// Looks names up and leaves out what may not be reached: the address that was
/// checked is the one that is connected to.
#[derive(Clone, Debug)]
pub(crate) struct Resolver(pub(crate) Neighbourhood);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let rule = self.0;
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let allowed: Vec<SocketAddr> = found.into_iter().filter(|it| rule.admits(it.ip())).collect();
            if allowed.is_empty() {
                return Err(format!("{} has no public address", name.as_str()).into());
            }
            Ok(Box::new(allowed.into_iter()) as Box<dyn Iterator<Item = SocketAddr> + Send>)
        })
    }
}

pub(crate) fn resolver(rule: Neighbourhood) -> Arc<Resolver> {
    Arc::new(Resolver(rule))
}
