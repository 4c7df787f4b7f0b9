//! Signing keys and JWS tokens (RFC 7515).
//!
//! Own implementation: each key with the algorithms of its type, and no verification. The primitives
//! come from the TLS library.

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
        KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384,
        RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
    },
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde_json::{Value, json};

/// A signing key.
pub(super) enum SigningKey {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

const RSA: &[(&str, &dyn RsaEncoding)] = &[
    ("RS256", &RSA_PKCS1_SHA256),
    ("PS256", &RSA_PSS_SHA256),
    ("RS384", &RSA_PKCS1_SHA384),
    ("PS384", &RSA_PSS_SHA384),
    ("RS512", &RSA_PKCS1_SHA512),
    ("PS512", &RSA_PSS_SHA512),
];

impl SigningKey {
    /// Generates a key for ES256. Also returns the form in which it is stored.
    pub(super) fn generate() -> Result<(Self, String), String> {
        let broken = |_| String::from("no key could be made");
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(broken)?;
        let kept = key.to_pkcs8v1().map_err(broken)?;
        Ok((Self::P256(key), STANDARD.encode(kept.as_ref())))
    }

    /// Parses a key from its stored form.
    pub(super) fn kept(text: &str) -> Option<Self> {
        let der = STANDARD.decode(text).ok()?;
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der).ok().map(Self::P256)
    }

    /// Parses a PEM key in any of the usual encodings. Line breaks may be written as `\n`, as in
    /// environment variables.
    pub(super) fn from_pem(text: &str) -> Result<Self, String> {
        let text = text.replace("\\n", "\n");
        if text.contains("ENCRYPTED") {
            return Err(String::from("the private key is encrypted; give it without a passphrase"));
        }
        let body = text.split("-----BEGIN ").find_map(|part| {
            let (label, rest) = part.split_once("-----")?;
            let (body, _) = rest.split_once("-----END ")?;
            label.ends_with("PRIVATE KEY").then_some(body)
        });
        let body = body.ok_or("the private key is not in PEM (`-----BEGIN PRIVATE KEY-----`)")?;
        let body: String = body.split_whitespace().collect();
        let der = STANDARD.decode(body).map_err(|_| "the private key is damaged: it is not base64")?;
        Self::from_der(&der).ok_or_else(|| {
            String::from("the private key is of no kind that is known here (P-256, P-384, Ed25519, RSA)")
        })
    }

    fn from_der(der: &[u8]) -> Option<Self> {
        let ec = |algorithm| EcdsaKeyPair::from_private_key_der(algorithm, der).ok();
        ec(&ECDSA_P256_SHA256_FIXED_SIGNING)
            .map(Self::P256)
            .or_else(|| ec(&ECDSA_P384_SHA384_FIXED_SIGNING).map(Self::P384))
            .or_else(|| Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok().map(Self::Ed25519))
            .or_else(|| {
                RsaKeyPair::from_pkcs8(der).or_else(|_| RsaKeyPair::from_der(der)).ok().map(Self::Rsa)
            })
    }

    /// Returns the algorithms for this key, preferred first.
    pub(super) fn algorithms(&self) -> Vec<&'static str> {
        match self {
            Self::P256(_) => vec!["ES256"],
            Self::P384(_) => vec!["ES384"],
            Self::Ed25519(_) => vec!["EdDSA", "Ed25519"],
            Self::Rsa(_) => RSA.iter().map(|(name, _)| *name).collect(),
        }
    }

    fn sign(&self, algorithm: &str, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match self {
            Self::P256(key) | Self::P384(key) => {
                key.sign(&random, message).ok().map(|it| it.as_ref().to_vec())
            }
            Self::Ed25519(key) => Some(key.sign(message).as_ref().to_vec()),
            Self::Rsa(key) => {
                let (_, encoding) = RSA.iter().find(|(name, _)| *name == algorithm)?;
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(*encoding, &random, message, &mut signature).ok()?;
                Some(signature)
            }
        }
    }

    /// Returns the public key as a JWK; only for generated keys.
    pub(super) fn public(&self) -> Option<Value> {
        let Self::P256(key) = self else { return None };
        // A format byte, then both coordinates.
        let point = key.public_key().as_ref();
        let (x, y) = (point.get(1..33)?, point.get(33..65)?);
        Some(json!({"kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y)}))
    }

    /// Creates a signed token. `header` lacks the algorithm, which is added.
    pub(super) fn token(&self, algorithm: &str, header: &Value, claims: &Value) -> Result<String, String> {
        let mut header = header.clone();
        header["alg"] = json!(algorithm);
        let text = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let signature = self
            .sign(algorithm, text.as_bytes())
            .ok_or_else(|| format!("{algorithm} could not be signed"))?;
        Ok(format!("{text}.{}", encode(signature)))
    }
}

pub(super) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::{
        encoding::AsDer,
        rsa::KeySize,
        signature::{
            ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
            RSA_PSS_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
        },
    };

    use super::*;

    fn pem(der: &[u8], label: &str) -> String {
        let text = STANDARD.encode(der);
        let lines: Vec<&str> =
            text.as_bytes().chunks(64).map(|it| std::str::from_utf8(it).unwrap()).collect();
        format!("some words\n-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
    }

    fn check(text: &str, algorithm: &str, public: &[u8], verify: &'static dyn VerificationAlgorithm) {
        for text in [text.to_owned(), text.replace('\n', "\\n"), text.replace('\n', "\r\n")] {
            let key = SigningKey::from_pem(&text).unwrap();
            assert!(key.algorithms().contains(&algorithm));
            let token = key.token(algorithm, &json!({"typ": "JWT"}), &json!({"sub": "é"})).unwrap();
            let (signed, signature) = token.rsplit_once('.').unwrap();
            let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
            UnparsedPublicKey::new(verify, public).verify(signed.as_bytes(), &signature).unwrap();
            let header = URL_SAFE_NO_PAD.decode(signed.split('.').next().unwrap()).unwrap();
            assert_eq!(serde_json::from_slice::<Value>(&header).unwrap()["alg"], algorithm);
        }
    }

    #[test]
    fn every_key_type_signs() {
        let p256 = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let der = p256.to_pkcs8v1().unwrap();
        check(
            &pem(der.as_ref(), "PRIVATE KEY"),
            "ES256",
            p256.public_key().as_ref(),
            &ECDSA_P256_SHA256_FIXED,
        );
        let p384 = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap();
        let der = p384.to_pkcs8v1().unwrap();
        check(
            &pem(der.as_ref(), "PRIVATE KEY"),
            "ES384",
            p384.public_key().as_ref(),
            &ECDSA_P384_SHA384_FIXED,
        );
        let ed = Ed25519KeyPair::generate().unwrap();
        let der = ed.to_pkcs8v1().unwrap();
        check(&pem(der.as_ref(), "PRIVATE KEY"), "EdDSA", ed.public_key().as_ref(), &ED25519);
        let rsa = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let der: aws_lc_rs::encoding::Pkcs8V1Der<'_> = rsa.as_der().unwrap();
        let text = pem(der.as_ref(), "PRIVATE KEY");
        check(&text, "RS256", rsa.public_key().as_ref(), &RSA_PKCS1_2048_8192_SHA256);
        check(&text, "PS256", rsa.public_key().as_ref(), &RSA_PSS_2048_8192_SHA256);
    }

    #[test]
    fn invalid_key_gives_error() {
        for (text, part) in [
            ("", "not in PEM"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "not in PEM"),
            ("-----BEGIN PRIVATE KEY-----\n!!\n-----END PRIVATE KEY-----", "not base64"),
            ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", "no kind"),
            (
                "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----",
                "passphrase",
            ),
        ] {
            assert!(SigningKey::from_pem(text).err().unwrap().contains(part), "{text}");
        }
    }

    #[test]
    fn stored_key_round_trips() {
        let (key, kept) = SigningKey::generate().unwrap();
        assert_eq!(SigningKey::kept(&kept).unwrap().public(), key.public());
        assert!(SigningKey::kept("nonsense").is_none());
    }
}
