//! Authenticates deliveries and checks their age.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, Mac};
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest as _, Sha256};

use crate::SignatureScheme;

/// Maximum difference between the signed time and the current time.
const SKEW: SignedDuration = SignedDuration::from_mins(5);
/// Maximum number of signatures checked per delivery.
const MAX_SIGNATURES: usize = 10;

/// An authenticated delivery.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VerifiedDelivery {
    /// Identifies the delivery for deduplication: the sender's id if the signature covers it, else a
    /// hash of what it covers.
    pub key: String,
    /// Event type, if known: GitHub sends it in a header, others in the body.
    pub event: Option<String>,
}

/// Why a delivery is rejected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DeliveryError {
    /// No signature of the expected kind.
    Unsigned,
    /// The signature does not match.
    Forged,
    /// The signed time is more than five minutes off.
    Stale,
}

impl DeliveryError {
    /// Error text for the sender.
    pub fn words(self) -> &'static str {
        match self {
            Self::Unsigned => "no signature",
            Self::Forged => "the signature is wrong",
            Self::Stale => "the time of the signature is more than five minutes away",
        }
    }
}

/// Verifies a delivery by its headers and raw body. `header` is called with lower-case names.
pub fn verify<'a>(
    scheme: SignatureScheme,
    secret: &[u8],
    header: impl Fn(&str) -> Option<&'a str>,
    body: &[u8],
    now: Timestamp,
) -> Result<VerifiedDelivery, DeliveryError> {
    let need = |name: &str| header(name).ok_or(DeliveryError::Unsigned);
    match scheme {
        SignatureScheme::Github => {
            let signature =
                need("x-hub-signature-256")?.strip_prefix("sha256=").ok_or(DeliveryError::Unsigned)?;
            check(secret, &[body], &[hex(signature)?])?;
            let event = header("x-github-event").map(str::to_owned);
            // The signature covers only the body, so the delivery id cannot be trusted for
            // deduplication.
            Ok(VerifiedDelivery { key: digest(&[body]), event })
        }
        SignatureScheme::Stripe => {
            let parts: Vec<(&str, &str)> =
                need("stripe-signature")?.split(',').filter_map(|it| it.trim().split_once('=')).collect();
            let time = parts.iter().find(|it| it.0 == "t").ok_or(DeliveryError::Unsigned)?.1;
            let signatures: Vec<Vec<u8>> = parts
                .iter()
                .filter(|it| it.0 == "v1")
                .take(MAX_SIGNATURES)
                .filter_map(|it| hex(it.1).ok())
                .collect();
            check(secret, &[time.as_bytes(), b".", body], &signatures)?;
            fresh(time, now)?;
            Ok(VerifiedDelivery { key: digest(&[time.as_bytes(), b".", body]), event: event_in(body) })
        }
        SignatureScheme::Slack => {
            let (time, signature) = (need("x-slack-request-timestamp")?, need("x-slack-signature")?);
            let signature = hex(signature.strip_prefix("v0=").ok_or(DeliveryError::Unsigned)?)?;
            check(secret, &[b"v0:", time.as_bytes(), b":", body], &[signature])?;
            fresh(time, now)?;
            Ok(VerifiedDelivery { key: digest(&[time.as_bytes(), b":", body]), event: event_in(body) })
        }
        SignatureScheme::Standard => {
            let (id, time) = (need("webhook-id")?, need("webhook-timestamp")?);
            let text = std::str::from_utf8(secret).unwrap_or_default();
            let key = text.strip_prefix("whsec_").and_then(|it| STANDARD.decode(it).ok());
            let signatures: Vec<Vec<u8>> = need("webhook-signature")?
                .split(' ')
                .filter_map(|it| it.strip_prefix("v1,"))
                .take(MAX_SIGNATURES)
                .filter_map(|it| STANDARD.decode(it).ok())
                .collect();
            let signed = [id.as_bytes(), b".", time.as_bytes(), b".", body];
            check(key.as_deref().unwrap_or(secret), &signed, &signatures)?;
            fresh(time, now)?;
            Ok(VerifiedDelivery { key: digest(&[b"id", id.as_bytes()]), event: event_in(body) })
        }
    }
}

/// The event type in a body; Slack nests it in `event`.
fn event_in(body: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let event = body.pointer("/event/type").or_else(|| body.get("type"))?;
    event.as_str().map(str::to_owned)
}

/// Whether one of the signatures matches. An empty secret never does.
fn check(secret: &[u8], parts: &[&[u8]], signatures: &[Vec<u8>]) -> Result<(), DeliveryError> {
    if signatures.is_empty() {
        return Err(DeliveryError::Unsigned);
    }
    let mac = Hmac::<Sha256>::new_from_slice(secret).ok().filter(|_| !secret.is_empty());
    let mut mac = mac.ok_or(DeliveryError::Forged)?;
    parts.iter().for_each(|part| mac.update(part));
    let right = signatures.iter().any(|it| mac.clone().verify_slice(it).is_ok());
    if right { Ok(()) } else { Err(DeliveryError::Forged) }
}

fn fresh(time: &str, now: Timestamp) -> Result<(), DeliveryError> {
    let at = time.parse::<i64>().ok().and_then(|it| Timestamp::from_second(it).ok());
    match at {
        Some(at) if at.duration_since(now).abs() <= SKEW => Ok(()),
        _ => Err(DeliveryError::Stale),
    }
}

fn hex(text: &str) -> Result<Vec<u8>, DeliveryError> {
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(2) || !bytes.iter().all(u8::is_ascii_hexdigit) {
        return Err(DeliveryError::Unsigned);
    }
    let digit = |it: u8| char::from(it).to_digit(16).unwrap_or_default() as u8;
    Ok(bytes.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect())
}

fn digest(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn mac(secret: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().to_vec()
    }

    fn hexed(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[track_caller]
    fn judge(
        scheme: SignatureScheme,
        headers: &[(&str, String)],
        body: &[u8],
    ) -> Result<VerifiedDelivery, DeliveryError> {
        let header = |name: &str| headers.iter().find(|it| it.0 == name).map(|it| it.1.as_str());
        verify(scheme, b"key", header, body, Timestamp::from_second(NOW).unwrap())
    }

    #[test]
    fn github_signature_is_verified() {
        // A signature computed independently.
        let known = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let secret = b"It's a Secret to Everybody";
        let header = |name: &str| (name == "x-hub-signature-256").then_some(concat_known());
        fn concat_known() -> &'static str {
            "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
        }
        let now = Timestamp::from_second(NOW).unwrap();
        assert!(verify(SignatureScheme::Github, secret, header, b"Hello, World!", now).is_ok(), "{known}");
        let signed = |body: &[u8]| format!("sha256={}", hexed(&mac(b"key", &[body])));
        let ok = judge(
            SignatureScheme::Github,
            &[("x-hub-signature-256", signed(b"{}")), ("x-github-event", "push".into())],
            b"{}",
        );
        assert_eq!(ok.unwrap().event.as_deref(), Some("push"));
        for (headers, want) in [
            (vec![], DeliveryError::Unsigned),
            (vec![("x-hub-signature-256", signed(b"{ }"))], DeliveryError::Forged),
            (vec![("x-hub-signature-256", "sha256=".into())], DeliveryError::Forged),
            (vec![("x-hub-signature-256", "sha256=zz".into())], DeliveryError::Unsigned),
            (vec![("x-hub-signature-256", "sha1=00".into())], DeliveryError::Unsigned),
        ] {
            assert_eq!(judge(SignatureScheme::Github, &headers, b"{}"), Err(want), "{headers:?}");
        }
        let empty = verify(SignatureScheme::Github, b"", header, b"", now);
        assert_eq!(empty, Err(DeliveryError::Forged));
        // The same body with another id is the same delivery.
        let one = judge(
            SignatureScheme::Github,
            &[("x-hub-signature-256", signed(b"a")), ("x-github-delivery", "1".into())],
            b"a",
        );
        let two = judge(
            SignatureScheme::Github,
            &[("x-hub-signature-256", signed(b"a")), ("x-github-delivery", "2".into())],
            b"a",
        );
        assert_eq!(one.unwrap().key, two.unwrap().key);
    }

    #[test]
    fn stale_and_modified_signed_times_are_rejected() {
        let stripe = |at: i64, body: &[u8]| {
            let time = at.to_string();
            format!("t={time},v1={},v0=xx", hexed(&mac(b"key", &[time.as_bytes(), b".", body])))
        };
        for (at, want) in [
            (NOW, Ok(())),
            (NOW - 299, Ok(())),
            (NOW - 301, Err(DeliveryError::Stale)),
            (NOW + 400, Err(DeliveryError::Stale)),
        ] {
            let got =
                judge(SignatureScheme::Stripe, &[("stripe-signature", stripe(at, b"x"))], b"x").map(drop);
            assert_eq!(got, want, "{at}");
        }
        // Another time with the old signature.
        let moved = stripe(NOW - 9_000, b"x").replace(&(NOW - 9_000).to_string(), &NOW.to_string());
        assert_eq!(
            judge(SignatureScheme::Stripe, &[("stripe-signature", moved)], b"x"),
            Err(DeliveryError::Forged)
        );
        let time = NOW.to_string();
        let slack = format!("v0={}", hexed(&mac(b"key", &[b"v0:", time.as_bytes(), b":", b"x"])));
        let headers = [("x-slack-request-timestamp", time.clone()), ("x-slack-signature", slack)];
        assert!(judge(SignatureScheme::Slack, &headers, b"x").is_ok());
        assert_eq!(judge(SignatureScheme::Slack, &headers, b"y"), Err(DeliveryError::Forged));
        let standard = STANDARD.encode(mac(b"key", &[b"id1", b".", time.as_bytes(), b".", b"x"]));
        let signature = format!("v1,AAAA v1,{standard}");
        let headers = [
            ("webhook-id", "id1".into()),
            ("webhook-timestamp", time.clone()),
            ("webhook-signature", signature.clone()),
        ];
        assert!(judge(SignatureScheme::Standard, &headers, b"x").is_ok());
        let other =
            [("webhook-id", "id2".into()), ("webhook-timestamp", time), ("webhook-signature", signature)];
        assert_eq!(judge(SignatureScheme::Standard, &other, b"x"), Err(DeliveryError::Forged));
    }
}
