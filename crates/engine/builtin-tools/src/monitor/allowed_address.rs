//! Which addresses may be reached.

use std::{net::IpAddr, sync::Arc};

use haft_net::{AddressRule, CheckedResolver, is_public};

/// Whether a feed may come from this machine or its neighbourhood.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LocalAddressPolicy {
    /// Only public addresses.
    #[default]
    Refused,
    /// Any address.
    Allowed,
}

impl AddressRule for LocalAddressPolicy {
    fn allows(&self, _host: &str, address: IpAddr) -> bool {
        *self == Self::Allowed || is_public(address)
    }

    fn refusal(&self, host: &str) -> String {
        format!("{host} has no public address")
    }
}

pub(crate) fn resolver(rule: LocalAddressPolicy) -> Arc<CheckedResolver> {
    CheckedResolver::new(Arc::new(rule))
}
