use std::{fmt, io::Read, path::PathBuf};

use serde::{Deserialize, Deserializer};

/// Fixed parts of a login; empty fields are discovered.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OAuthSettings {
    /// Id of a registered client, or URL of a client metadata document.
    pub client_id: Option<String>,
    /// Client secret.
    pub client_secret: Option<ClientSecret>,
    /// Key for client assertions, in place of a secret.
    pub private_key: Option<ClientKey>,
    /// Port of the redirect URI.
    pub callback_port: Option<u16>,
    /// URL of the authorization server's metadata.
    pub auth_server_metadata_url: Option<String>,
    /// Scopes to request.
    pub scopes: Vec<String>,
    /// How tokens are obtained.
    pub grant: OAuthGrant,
}

/// How tokens are obtained.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum OAuthGrant {
    /// A user logs in with a browser.
    #[default]
    Browser,
    /// Client credentials; no user interaction.
    ClientCredentials,
    /// A workload identity token (of a cluster or CI service) is exchanged for a token of the server
    /// (RFC 7523).
    JwtBearer {
        /// The workload identity token.
        assertion: ClientSecret,
    },
    /// The user's login at the company's identity provider is exchanged for one at the server.
    Enterprise(IdentityProvider),
}

impl OAuthGrant {
    /// Whether no user interaction is needed.
    pub fn is_headless(&self) -> bool {
        *self != Self::Browser
    }

    /// Returns the name used in configuration files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Browser => "authorization_code",
            Self::ClientCredentials => "client_credentials",
            Self::JwtBearer { .. } => "jwt_bearer",
            Self::Enterprise(_) => "enterprise",
        }
    }
}

/// A company's identity provider.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IdentityProvider {
    /// Where tokens are exchanged.
    pub address: ProviderAddress,
    /// Client id at the identity provider.
    pub client_id: String,
    /// Client secret at the identity provider.
    pub client_secret: Option<ClientSecret>,
    /// The user's identity token.
    pub id_token: ClientSecret,
}

/// Token endpoint of an identity provider.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ProviderAddress {
    /// Discovered from this issuer URL.
    Issuer(String),
    /// This URL.
    TokenUrl(String),
}

/// Key of a client.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientKey {
    /// The private key in PEM.
    pub key: ClientSecret,
    /// Key id (`kid`) at the authorization server.
    pub id: Option<String>,
    /// Audience of assertions, if not the authorization server's issuer.
    pub audience: Option<String>,
}

/// A secret; never shown in `Debug` output.
#[derive(Clone, Eq, PartialEq)]
pub enum ClientSecret {
    /// The secret itself.
    Text(String),
    /// Path of a file, read on every use because it may be rotated.
    File(PathBuf),
}

const MAX_SECRET_BYTES: u64 = 64 << 10;

impl ClientSecret {
    /// Returns the secret; the error says why it is not available.
    pub(crate) fn read(&self) -> Result<String, String> {
        let path = match self {
            Self::Text(text) => return Ok(text.clone()),
            Self::File(path) => path,
        };
        let mut text = String::new();
        let read = std::fs::File::open(path)
            .and_then(|file| file.take(MAX_SECRET_BYTES + 1).read_to_string(&mut text));
        match read {
            Err(err) => Err(format!("{} cannot be read: {err}", path.display())),
            Ok(_) if text.trim().is_empty() => Err(format!("{} is empty", path.display())),
            Ok(count) if MAX_SECRET_BYTES < count as u64 => {
                Err(format!("{} is too large for a secret", path.display()))
            }
            Ok(_) => Ok(text.trim().to_owned()),
        }
    }
}

impl fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(…)"),
            Self::File(path) => write!(f, "File({})", path.display()),
        }
    }
}

/// The settings as written in configuration files.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenOAuth {
    grant: Option<String>,
    client_id: Option<String>,
    client_secret: Option<String>,
    client_secret_file: Option<PathBuf>,
    private_key: Option<String>,
    private_key_file: Option<PathBuf>,
    key_id: Option<String>,
    audience: Option<String>,
    assertion: Option<String>,
    assertion_file: Option<PathBuf>,
    identity_provider: Option<WrittenProvider>,
    callback_port: Option<u16>,
    auth_server_metadata_url: Option<String>,
    #[serde(deserialize_with = "scopes")]
    scopes: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenProvider {
    issuer: Option<String>,
    token_url: Option<String>,
    client_id: Option<String>,
    client_secret: Option<String>,
    client_secret_file: Option<PathBuf>,
    id_token: Option<String>,
    id_token_file: Option<PathBuf>,
}

/// Deserialises scopes from a list or a space-separated string.
fn scopes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum ScopesForm {
        List(Vec<String>),
        Text(String),
    }
    Ok(match ScopesForm::deserialize(from)? {
        ScopesForm::List(list) => list,
        ScopesForm::Text(text) => text.split_whitespace().map(str::to_owned).collect(),
    })
}

fn secret(name: &str, text: Option<String>, file: Option<PathBuf>) -> Result<Option<ClientSecret>, String> {
    match (text, file) {
        (Some(_), Some(_)) => Err(format!("`{name}` and `{name}File` are both there")),
        // An empty string from an unset variable counts as missing.
        (Some(text), None) => Ok((!text.is_empty()).then_some(ClientSecret::Text(text))),
        (None, Some(file)) => Ok(Some(ClientSecret::File(file))),
        (None, None) => Ok(None),
    }
}

impl<'de> Deserialize<'de> for OAuthSettings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        WrittenOAuth::deserialize(from)?.settings().map_err(serde::de::Error::custom)
    }
}

impl WrittenOAuth {
    fn settings(self) -> Result<OAuthSettings, String> {
        let client_secret = secret("clientSecret", self.client_secret, self.client_secret_file)?;
        let key = secret("privateKey", self.private_key, self.private_key_file)?;
        let private_key = key.map(|key| ClientKey { key, id: self.key_id, audience: self.audience });
        let assertion = secret("assertion", self.assertion, self.assertion_file)?;
        let needed = |it: Option<ClientSecret>, what: &str, name: &str| {
            it.ok_or_else(|| format!("`grant: {name}` needs `{what}` or `{what}File`"))
        };
        let grant = match self.grant.as_deref() {
            None | Some("authorization_code") => OAuthGrant::Browser,
            Some("client_credentials") => OAuthGrant::ClientCredentials,
            Some("jwt_bearer") => {
                OAuthGrant::JwtBearer { assertion: needed(assertion, "assertion", "jwt_bearer")? }
            }
            Some("enterprise") => {
                let provider =
                    self.identity_provider.ok_or("`grant: enterprise` needs `identityProvider`")?;
                OAuthGrant::Enterprise(provider.provider()?)
            }
            Some(other) => {
                return Err(format!(
                    "`grant` is authorization_code, client_credentials, jwt_bearer or enterprise, not `{other}`"
                ));
            }
        };
        let proves_itself = client_secret.is_some() || private_key.is_some();
        match &grant {
            OAuthGrant::Browser if private_key.is_some() => {
                return Err(String::from("`privateKey` is for grants without a browser; set `grant`"));
            }
            OAuthGrant::ClientCredentials if self.client_id.is_none() || !proves_itself => {
                return Err(String::from(
                    "`grant: client_credentials` needs `clientId`, and `clientSecret` or `privateKey`",
                ));
            }
            OAuthGrant::Enterprise(_) if self.client_id.is_none() => {
                return Err(String::from("`grant: enterprise` needs `clientId`"));
            }
            _ => (),
        }
        Ok(OAuthSettings {
            client_id: self.client_id,
            client_secret,
            private_key,
            callback_port: self.callback_port,
            auth_server_metadata_url: self.auth_server_metadata_url,
            scopes: self.scopes,
            grant,
        })
    }
}

impl WrittenProvider {
    fn provider(self) -> Result<IdentityProvider, String> {
        let address = match (self.token_url, self.issuer) {
            (Some(url), _) => ProviderAddress::TokenUrl(url),
            (None, Some(issuer)) => ProviderAddress::Issuer(issuer),
            (None, None) => return Err(String::from("`identityProvider` needs `issuer` or `tokenUrl`")),
        };
        let id_token = secret("idToken", self.id_token, self.id_token_file)?;
        Ok(IdentityProvider {
            address,
            client_id: self.client_id.ok_or("`identityProvider` needs `clientId`")?,
            client_secret: secret("clientSecret", self.client_secret, self.client_secret_file)?,
            id_token: id_token.ok_or("`identityProvider` needs `idToken` or `idTokenFile`")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn oauth_entry_selects_grant() {
        let read = |value: &Value| serde_json::from_value::<OAuthSettings>(value.clone());
        for (value, want) in [
            (json!({}), Ok("authorization_code")),
            (json!({"clientId": "c", "clientSecret": "s", "scopes": ["a"]}), Ok("authorization_code")),
            (
                json!({"grant": "client_credentials", "clientId": "c", "clientSecretFile": "/x"}),
                Ok("client_credentials"),
            ),
            (
                json!({"grant": "client_credentials", "clientId": "c", "privateKey": "pem"}),
                Ok("client_credentials"),
            ),
            (json!({"grant": "client_credentials", "clientId": "c"}), Err("clientSecret")),
            (
                json!({"grant": "client_credentials", "clientId": "c", "clientSecret": ""}),
                Err("clientSecret"),
            ),
            (json!({"grant": "jwt_bearer", "assertionFile": "/x"}), Ok("jwt_bearer")),
            (json!({"grant": "jwt_bearer"}), Err("assertion")),
            (json!({"grant": "enterprise", "clientId": "c"}), Err("identityProvider")),
            (
                json!({"grant": "enterprise", "clientId": "c", "identityProvider": {
                    "issuer": "https://idp.test", "clientId": "i", "idTokenFile": "/x",
                }}),
                Ok("enterprise"),
            ),
            (json!({"privateKey": "pem", "clientId": "c"}), Err("grant")),
            (json!({"clientSecret": "a", "clientSecretFile": "b"}), Err("both")),
            (json!({"grant": "password"}), Err("password")),
        ] {
            let got = read(&value);
            match want {
                Ok(name) => assert_eq!(got.unwrap().grant.name(), name, "{value}"),
                Err(part) => assert!(got.unwrap_err().to_string().contains(part), "{value}"),
            }
        }
        let shown = format!("{:?}", read(&json!({"clientSecret": "hush"})).unwrap());
        assert!(!shown.contains("hush"), "{shown}");
    }

    #[test]
    fn secret_file_is_read_whole_or_rejected() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = || ClientSecret::File(file.path().to_owned()).read();
        assert!(read().unwrap_err().contains("is empty"));
        std::fs::write(file.path(), "  hush\n").unwrap();
        assert_eq!(read().unwrap(), "hush");
        std::fs::write(file.path(), "x".repeat(70 << 10)).unwrap();
        assert!(read().unwrap_err().contains("too large"));
        assert!(ClientSecret::File("/nonexistent/x".into()).read().unwrap_err().contains("cannot be read"));
    }
}
