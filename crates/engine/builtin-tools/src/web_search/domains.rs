use haft_tool::ToolError;
use url::{Host, Url};

/// A list of domains, each including its subdomains.
#[derive(Clone, Debug, Default)]
pub(super) struct DomainList(Vec<String>);

impl DomainList {
    /// Parses domain names such as `example.com`. URLs and patterns are rejected.
    pub(super) fn parse(names: &[String]) -> Result<Self, ToolError> {
        let one = |name: &String| {
            let bare = name.trim().trim_start_matches("*.").trim_end_matches('.');
            match Host::parse(bare) {
                Ok(Host::Domain(host)) if host.contains('.') && !host.contains(['*', '/']) => {
                    Ok(host.to_lowercase())
                }
                _ => Err(ToolError::invalid(format!(
                    "{name:?} is no domain; write it like example.com, without https://"
                ))),
            }
        };
        Ok(Self(names.iter().map(one).collect::<Result<_, _>>()?))
    }

    pub(super) fn names(&self) -> &[String] {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the host of a URL is one of the domains or a subdomain of one.
    pub(super) fn has(&self, address: &str) -> bool {
        let Ok(url) = Url::parse(address) else { return false };
        let Some(host) = url.host_str().map(|it| it.trim_end_matches('.').to_lowercase()) else {
            return false;
        };
        self.0
            .iter()
            .any(|it| host == *it || host.strip_suffix(it.as_str()).is_some_and(|rest| rest.ends_with('.')))
    }
}
