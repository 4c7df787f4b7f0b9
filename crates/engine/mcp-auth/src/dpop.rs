//! DPoP (RFC 9449): tokens bound to a key, so that a stolen token alone is useless.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use reqwest::{Url, header::HeaderMap};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{
    jws::{SigningKey, encode},
    server_clock::Clock,
};

/// Name of the header with the proof.
pub(super) const PROOF: &str = "dpop";
const NONCE: &str = "dpop-nonce";

/// Maximum origins whose nonce is stored; normally two, the MCP server and the authorization server.
const MAX_PLACES: usize = 16;

/// A key and the nonces for its proofs.
pub(super) struct Dpop {
    key: SigningKey,
    kept: String,
    places: Mutex<HashMap<String, DpopTarget>>,
}

#[derive(Clone, Default)]
struct DpopTarget {
    nonce: Option<String>,
    clock: Arc<Clock>,
}

impl Dpop {
    pub(super) fn generate() -> Result<Self, String> {
        let (key, kept) = SigningKey::generate()?;
        Ok(Self { key, kept, places: Mutex::default() })
    }

    pub(super) fn kept(text: &str) -> Option<Self> {
        let key = SigningKey::kept(text)?;
        Some(Self { key, kept: text.to_owned(), places: Mutex::default() })
    }

    /// Returns the key in the form in which it is stored.
    pub(super) fn keep(&self) -> &str {
        &self.kept
    }

    fn places(&self) -> MutexGuard<'_, HashMap<String, DpopTarget>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the nonce in response headers. Returns whether it is a new one.
    pub(super) fn heard(&self, url: &Url, headers: &HeaderMap) -> bool {
        let nonce = headers.get(NONCE).and_then(|it| it.to_str().ok()).map(str::to_owned);
        let mut places = self.places();
        if MAX_PLACES <= places.len() {
            places.clear();
        }
        let place = places.entry(origin(url)).or_default();
        place.clock.heard(headers);
        let is_new = nonce.is_some() && nonce != place.nonce;
        if nonce.is_some() {
            place.nonce = nonce;
        }
        is_new
    }

    /// Creates a proof for a single request. With a token, the proof is valid for that token only.
    pub(super) fn proof(&self, method: &str, url: &Url, token: Option<&str>) -> Result<String, String> {
        let place = self.places().get(&origin(url)).cloned().unwrap_or_default();
        let mut bare = url.clone();
        bare.set_query(None);
        bare.set_fragment(None);
        let mut claims = json!({
            "jti": uuid::Uuid::new_v4().to_string(),
            "htm": method,
            "htu": bare.as_str(),
            "iat": place.clock.now(),
        });
        if let Some(nonce) = &place.nonce {
            claims["nonce"] = json!(nonce);
        }
        if let Some(token) = token {
            claims["ath"] = json!(encode(Sha256::digest(token)));
        }
        let header = json!({"typ": "dpop+jwt", "jwk": self.key.public()});
        self.key.token("ES256", &header, &claims)
    }
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}
