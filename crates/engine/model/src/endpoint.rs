//! Request URLs and authentication.

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::{
    KeySource, ModelError,
    wire::{
        MessageCache,
        gemini::model_name,
        messages::{BodyPurpose, wire_model},
    },
};

/// Percent-encodes a name as one URL path segment.
fn path_segment(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// URL scheme of each supported API.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum RequestTarget {
    /// `{base}/v1/messages`.
    Messages { base: String },
    /// `{base}/v1/projects/…/models/MODEL:streamRawPredict`.
    Vertex { base: String, project: String, region: String },
    /// `{base}/model/MODEL/invoke-with-response-stream`.
    #[cfg(feature = "bedrock")]
    Bedrock { base: String },
    /// `{base}/chat/completions`.
    Chat { base: String },
    /// `{base}/responses`.
    Responses { base: String },
    /// `{base}/v1beta/models/MODEL:streamGenerateContent?alt=sse`.
    Gemini { base: String },
}

impl RequestTarget {
    /// Returns the request URL.
    pub(crate) fn url(&self, model: &str, purpose: BodyPurpose) -> String {
        match self {
            Self::Messages { base } => {
                let base = base.trim_end_matches('/');
                let base = base.strip_suffix("/v1").unwrap_or(base);
                match purpose {
                    BodyPurpose::Answer => format!("{base}/v1/messages"),
                    BodyPurpose::Count => format!("{base}/v1/messages/count_tokens"),
                }
            }
            Self::Vertex { base, project, region } => {
                let base = base.trim_end_matches('/');
                let models =
                    format!("{base}/v1/projects/{project}/locations/{region}/publishers/anthropic/models");
                match purpose {
                    BodyPurpose::Answer => format!("{models}/{}:streamRawPredict", wire_model(model)),
                    BodyPurpose::Count => format!("{models}/count-tokens:rawPredict"),
                }
            }
            #[cfg(feature = "bedrock")]
            Self::Bedrock { base } => {
                let base = base.trim_end_matches('/');
                let model = crate::cloud::aws::path_segment(wire_model(model));
                match purpose {
                    BodyPurpose::Answer => format!("{base}/model/{model}/invoke-with-response-stream"),
                    BodyPurpose::Count => format!("{base}/model/{model}/count-tokens"),
                }
            }
            Self::Chat { base } => format!("{}/chat/completions", base.trim_end_matches('/')),
            Self::Responses { base } => format!("{}/responses", base.trim_end_matches('/')),
            Self::Gemini { base } => {
                let base = base.trim_end_matches('/');
                let base = if base.ends_with("/v1beta") { base.to_owned() } else { format!("{base}/v1beta") };
                let verb = match purpose {
                    BodyPurpose::Answer => "streamGenerateContent?alt=sse",
                    BodyPurpose::Count => "countTokens",
                };
                format!("{base}/models/{}:{verb}", path_segment(model_name(model)))
            }
        }
    }

    pub(crate) fn base(&self) -> &str {
        match self {
            Self::Messages { base }
            | Self::Vertex { base, .. }
            | Self::Chat { base }
            | Self::Responses { base }
            | Self::Gemini { base } => base,
            #[cfg(feature = "bedrock")]
            Self::Bedrock { base } => base,
        }
    }
}

/// Endpoint of a server's Responses API, for models whose tools it rejects on Chat Completions.
pub(crate) struct ResponsesRoute {
    pub(crate) target: RequestTarget,
    /// Messages are encoded differently in each form, so each has its cache.
    pub(crate) cache: MessageCache,
}

/// Whether the host of a URL is `localhost` or a loopback address. False for an invalid URL.
pub(crate) fn is_this_machine(base_url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(base_url) else { return false };
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => {
            let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
            address.is_ok_and(|it| it.is_loopback())
        }
        None => false,
    }
}

/// How a request is authenticated.
#[derive(Debug)]
pub(crate) enum Auth {
    /// Not at all.
    None,
    /// A key in a header of its own, such as `x-api-key`.
    Header { name: &'static str, key: KeySource },
    /// An `Authorization: Bearer` token.
    Bearer(KeySource),
    /// Google's application default credentials.
    #[cfg(feature = "vertex")]
    Google(crate::cloud::google::GoogleTokens),
    /// AWS Signature Version 4.
    #[cfg(feature = "bedrock")]
    Aws(crate::cloud::aws::AwsSigner),
}

impl Auth {
    /// Drops cached credentials after the provider rejected them. Returns whether a retry may get other
    /// ones.
    pub(crate) async fn forget(&self) -> bool {
        match self {
            Self::None => false,
            Self::Header { key, .. } | Self::Bearer(key) => key.forget().await,
            #[cfg(feature = "vertex")]
            Self::Google(_) => false,
            #[cfg(feature = "bedrock")]
            Self::Aws(signer) => signer.forget().await,
        }
    }

    /// Adds the authentication headers; may run a helper command or fetch a token first.
    #[cfg_attr(not(feature = "bedrock"), expect(unused_variables, reason = "only signatures look at them"))]
    pub(crate) async fn sign(
        &self,
        url: &str,
        body: &Bytes,
        headers: &mut HeaderMap,
    ) -> Result<(), ModelError> {
        match self {
            Self::None => Ok(()),
            Self::Header { name, key } => {
                let key = key.get().await?;
                headers.insert(HeaderName::from_static(name), sensitive(key.expose())?);
                Ok(())
            }
            Self::Bearer(key) => {
                let key = key.get().await?;
                let value = sensitive(&format!("Bearer {}", key.expose()))?;
                headers.insert(reqwest::header::AUTHORIZATION, value);
                Ok(())
            }
            #[cfg(feature = "vertex")]
            Self::Google(tokens) => {
                let token = tokens.get().await?;
                let value = sensitive(&format!("Bearer {}", token.expose()))?;
                headers.insert(reqwest::header::AUTHORIZATION, value);
                Ok(())
            }
            #[cfg(feature = "bedrock")]
            Self::Aws(signer) => signer.sign(url, body, headers).await,
        }
    }
}

fn sensitive(text: &str) -> Result<HeaderValue, ModelError> {
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| ModelError::Auth { message: "the key has characters no header takes".to_owned() })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Converts the headers from the settings. An invalid name or value is an error.
pub(crate) fn fixed_headers(list: &[(String, String)]) -> Result<HeaderMap, ModelError> {
    let mut out = HeaderMap::new();
    for (name, value) in list {
        let bad = || ModelError::config(format!("the header {name:?} cannot be sent"));
        let name = HeaderName::try_from(name.as_str()).map_err(|_| bad())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        out.append(name, value);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    #[test]
    fn loopback_urls_are_recognised() {
        for (address, want) in [
            ("http://127.0.0.1:11434/v1", true),
            ("http://localhost:1234", true),
            ("http://[::1]:8080/v1", true),
            ("http://127.0.0.2", true),
            ("http://192.168.1.5:8000/v1", false),
            ("https://localhost.example", false),
            ("nonsense", false),
        ] {
            assert_eq!(super::is_this_machine(address), want, "{address}");
        }
    }
}
