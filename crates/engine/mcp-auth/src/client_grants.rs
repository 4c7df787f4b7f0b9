//! Tokens nobody has to be there for: of the client itself, of the place it runs
//! at, of the company's identity provider.

use std::sync::Arc;

use rmcp::transport::auth::StoredCredentials;
use serde_json::{Value, json};

use super::{
    discovery::{AuthServer, find},
    dpop::Dpop,
    jws::SigningKey,
    oauth_http::OAuthHttp,
    server_clock::now,
    token_file::{LoginRecord, LoginTokens},
};
use crate::{ClientKey, HttpEndpoint, IdentityProvider, OAuthGrant, OAuthSettings, ProviderAddress};

/// Why there is no token.
#[derive(Debug)]
pub(super) enum GrantError {
    /// It was refused, and will be again.
    Refused(String),
    /// Something was in the way.
    Trouble(String),
}

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
const CLIENT_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// How long a signature of ours may be used.
const ASSERTION_SECONDS: u64 = 300;

type Fields = Vec<(&'static str, String)>;

/// Gets a token. `challenge` is what the server said when it refused us, `before`
/// what there was until now.
pub(super) async fn obtain(
    endpoint: &HttpEndpoint,
    challenge: Option<&str>,
    before: Option<&LoginRecord>,
) -> Result<LoginTokens, GrantError> {
    let wire = OAuthHttp::new(endpoint).await.map_err(GrantError::Trouble)?;
    let authority = find(endpoint, challenge, &wire).await.map_err(GrantError::Trouble)?;
    let asking = GrantRequest { settings: &endpoint.oauth, wire: &wire, authority };
    let granted = before.map(|it| it.login.credentials.granted_scopes.as_slice());
    let mut scopes = asking.authority.scopes(endpoint, challenge, granted).await;
    // Such tokens are not renewed but asked for again.
    scopes.retain(|it| it != "offline_access" || endpoint.oauth.scopes.contains(it));
    if wants_proof(challenge) && asking.signs_proofs() {
        let bound = Dpop::generate().map_err(GrantError::Trouble)?;
        wire.bound.set(Arc::new(bound)).ok();
    }
    asking.token(scopes, challenge).await
}

/// Whether a server says that it takes bound tokens.
pub(super) fn wants_proof(challenge: Option<&str>) -> bool {
    let schemes = challenge.unwrap_or_default().split(',').filter_map(|part| part.trim().split(' ').next());
    schemes.into_iter().any(|it| it.eq_ignore_ascii_case("dpop"))
}

struct GrantRequest<'a> {
    settings: &'a OAuthSettings,
    wire: &'a Arc<OAuthHttp>,
    authority: AuthServer,
}

impl GrantRequest<'_> {
    fn signs_proofs(&self) -> bool {
        self.authority
            .list("dpop_signing_alg_values_supported")
            .is_some_and(|it| it.contains(&"ES256".into()))
    }

    async fn token(
        mut self,
        scopes: Vec<String>,
        challenge: Option<&str>,
    ) -> Result<LoginTokens, GrantError> {
        let resource = self.authority.resource().await.map_err(GrantError::Trouble)?;
        let mut fields = match &self.settings.grant {
            OAuthGrant::Browser | OAuthGrant::ClientCredentials => {
                vec![("grant_type", String::from("client_credentials"))]
            }
            OAuthGrant::JwtBearer { assertion } => {
                let assertion = assertion.read().map_err(GrantError::Refused)?;
                vec![("grant_type", JWT_BEARER.to_owned()), ("assertion", assertion)]
            }
            OAuthGrant::Enterprise(provider) => {
                let assertion = self.permission_of(provider, &resource, &scopes).await?;
                vec![("grant_type", JWT_BEARER.to_owned()), ("assertion", assertion)]
            }
        };
        fields.push(("resource", resource));
        if !scopes.is_empty() {
            fields.push(("scope", scopes.join(" ")));
        }
        let body = self.ask(fields).await?;
        let credentials = credentials(self.settings, &self.authority, body, &scopes);
        let credentials = credentials.ok_or_else(|| {
            GrantError::Trouble(String::from("the authorization server answered without a token"))
        })?;
        Ok(LoginTokens {
            credentials,
            challenge: challenge.map(str::to_owned),
            bound_key: self.wire.bound.get().map(|it| it.keep().to_owned()),
        })
    }

    /// Asks the authorization server, as the client the configuration says.
    async fn ask(&self, mut fields: Fields) -> Result<Value, GrantError> {
        let id = self.settings.client_id.as_deref();
        let mut basic = None;
        match (id, &self.settings.private_key, &self.settings.client_secret) {
            (Some(id), Some(key), _) => {
                fields.push(("client_assertion_type", CLIENT_ASSERTION.to_owned()));
                fields.push(("client_assertion", self.signed(id, key).map_err(GrantError::Refused)?));
            }
            (Some(id), None, Some(secret)) => {
                let secret = secret.read().map_err(GrantError::Refused)?;
                if self.in_header() {
                    basic = Some((id, secret))
                } else {
                    fields.extend([("client_id", id.to_owned()), ("client_secret", secret)])
                }
            }
            (Some(id), None, None) => fields.push(("client_id", id.to_owned())),
            (None, _, _) => (),
        }
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let basic = basic.as_ref().map(|(id, secret)| (*id, secret.as_str()));
        let answer = self.wire.post(&self.authority.metadata.token_endpoint, &fields, basic).await;
        answer.map_err(|reason| self.failed(reason))
    }

    /// Whether a refusal is one: whatever is told in OAuth's words, but for its
    /// words for a bad moment.
    fn failed(&self, reason: String) -> GrantError {
        match self.wire.refusal() {
            Some(it)
                if !["temporarily_unavailable", "server_error", "slow_down"].contains(&it.code.as_str()) =>
            {
                GrantError::Refused(reason)
            }
            _ => GrantError::Trouble(reason),
        }
    }

    /// Whether a secret goes into a header, which every server must know, or
    /// into the body, which some only know.
    fn in_header(&self) -> bool {
        let methods = self.authority.list("token_endpoint_auth_methods_supported").unwrap_or_default();
        let has = |name: &str| methods.iter().any(|it| it == name);
        has("client_secret_basic") || !has("client_secret_post")
    }

    /// Shows who we are without telling any secret.
    fn signed(&self, id: &str, key: &ClientKey) -> Result<String, String> {
        let signing = SigningKey::from_pem(&key.key.read()?)?;
        let known = self.authority.list("token_endpoint_auth_signing_alg_values_supported");
        let own = signing.algorithms();
        let fits = |it: &&str| known.as_ref().is_none_or(|known| known.iter().any(|name| name == *it));
        let Some(algorithm) = own.iter().copied().find(|it| fits(it)) else {
            let known = known.unwrap_or_default().join(", ");
            return Err(format!(
                "the authorization server takes {known}, and the private key can only {}",
                own.join(", ")
            ));
        };
        let metadata = &self.authority.metadata;
        let audience = key.audience.as_deref().or(metadata.issuer.as_deref());
        let at = self.wire.clock.now();
        let claims = json!({
            "iss": id,
            "sub": id,
            "aud": audience.unwrap_or(&metadata.token_endpoint),
            "jti": uuid::Uuid::new_v4().to_string(),
            "iat": at,
            "exp": at + ASSERTION_SECONDS,
        });
        let mut header = json!({"typ": "JWT"});
        if let Some(id) = &key.id {
            header["kid"] = json!(id);
        }
        signing.token(algorithm, &header, &claims)
    }

    /// Exchanges the person's login at the company for a permission to log in at
    /// the server.
    async fn permission_of(
        &self,
        provider: &IdentityProvider,
        resource: &str,
        scopes: &[String],
    ) -> Result<String, GrantError> {
        let url = match &provider.address {
            ProviderAddress::TokenUrl(url) => url.clone(),
            ProviderAddress::Issuer(issuer) => {
                token_url(issuer, self.wire).await.map_err(GrantError::Trouble)?
            }
        };
        let metadata = &self.authority.metadata;
        let mut fields = vec![
            ("grant_type", TOKEN_EXCHANGE.to_owned()),
            ("requested_token_type", ID_JAG.to_owned()),
            ("audience", metadata.issuer.clone().unwrap_or_else(|| metadata.token_endpoint.clone())),
            ("resource", resource.to_owned()),
            ("subject_token", provider.id_token.read().map_err(GrantError::Refused)?),
            ("subject_token_type", ID_TOKEN.to_owned()),
        ];
        if !scopes.is_empty() {
            fields.push(("scope", scopes.join(" ")));
        }
        let secret = provider.client_secret.as_ref().map(|it| it.read()).transpose();
        let secret = secret.map_err(GrantError::Refused)?;
        if secret.is_none() {
            fields.push(("client_id", provider.client_id.clone()));
        }
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let basic = secret.as_deref().map(|secret| (provider.client_id.as_str(), secret));
        let answer = self.wire.post(&url, &fields, basic).await;
        let answer = answer.map_err(|reason| self.failed(format!("at the identity provider: {reason}")))?;
        let kind = answer["issued_token_type"].as_str();
        match answer["access_token"].as_str() {
            Some(token) if kind.is_none_or(|it| it == ID_JAG) => Ok(token.to_owned()),
            _ => Err(GrantError::Refused(String::from("the identity provider gave another kind of token"))),
        }
    }
}

async fn token_url(issuer: &str, wire: &OAuthHttp) -> Result<String, String> {
    let document = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
    let described = wire.get(&document).await?;
    if described["issuer"].as_str().map(|it| it.trim_end_matches('/')) != Some(issuer.trim_end_matches('/')) {
        return Err(format!("{document} speaks of another issuer"));
    }
    let url = described["token_endpoint"].as_str();
    url.map(str::to_owned).ok_or_else(|| format!("{document} names no `token_endpoint`"))
}

/// What is kept of an answer.
fn credentials(
    settings: &OAuthSettings,
    authority: &AuthServer,
    mut body: Value,
    asked: &[String],
) -> Option<StoredCredentials> {
    body.as_object_mut()?.remove("refresh_token");
    let granted = match body["scope"].as_str() {
        Some(text) => text.split_whitespace().map(str::to_owned).collect(),
        None => asked.to_vec(),
    };
    let response = serde_json::from_value(body).ok()?;
    let id = settings.client_id.clone().unwrap_or_default();
    let credentials = StoredCredentials::new(id, Some(response), granted, Some(now()));
    Some(credentials.with_issuer(authority.metadata.issuer.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_says_whether_it_takes_bound_tokens() {
        for (challenge, want) in [
            ("Bearer resource_metadata=\"x\"", false),
            ("DPoP resource_metadata=\"x\"", true),
            ("Bearer realm=\"dpop\", dpop algs=\"ES256\"", true),
            ("Bearer realm=\"a, DPoPx\"", false),
            ("", false),
        ] {
            assert_eq!(wants_proof(Some(challenge)), want, "{challenge}");
        }
    }
}
