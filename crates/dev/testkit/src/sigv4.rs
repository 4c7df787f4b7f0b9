//! Validates AWS signatures, implemented from the specification, so that the signer is tested against
//! independent code.

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

use crate::{Recorded, rules::MockRefusal, script::AwsKey};

/// Checks the signature of a request.
pub(crate) fn check(key: &AwsKey, request: &Recorded) -> Result<(), MockRefusal> {
    let given = request.header("authorization").unwrap_or_default();
    match expected(key, request, given) {
        Some(wanted) if wanted == given => Ok(()),
        Some(_) => denied("The request signature we calculated does not match the signature you provided."),
        None => denied("Missing Authentication Token"),
    }
}

fn denied(message: &str) -> Result<(), MockRefusal> {
    Err(MockRefusal { status: 403, kind: "permission_error", message: message.to_owned() })
}

/// Returns the expected header, for the same set of signed headers.
fn expected(key: &AwsKey, request: &Recorded, given: &str) -> Option<String> {
    let (_, signed) = given.split_once("SignedHeaders=")?;
    let (signed, _) = signed.split_once(',')?;
    let names: Vec<&str> = signed.split(';').collect();
    if !names.contains(&"host") || !names.contains(&"x-amz-date") {
        return None;
    }
    let moment = request.header("x-amz-date")?;
    let day = moment.get(..8)?;
    let mut canonical = format!("POST\n{}\n\n", double_encoded(&request.path));
    for name in &names {
        let value = request.header(name)?.split_whitespace().collect::<Vec<_>>().join(" ");
        canonical.push_str(&format!("{name}:{value}\n"));
    }
    canonical.push_str(&format!("\n{signed}\n{}", hex(&Sha256::digest(&request.body))));
    let scope = format!("{day}/{}/bedrock/aws4_request", key.region);
    let to_sign = format!("AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
    let mut secret = format!("AWS4{}", key.secret_key).into_bytes();
    for part in [day, &key.region, "bedrock", "aws4_request"] {
        secret = hmac(&secret, part.as_bytes())?;
    }
    let signature = hex(&hmac(&secret, to_sign.as_bytes())?);
    Some(format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={signed}, Signature={signature}",
        key.access_key
    ))
}

fn hmac(key: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(data);
    Some(mac.finalize().into_bytes().to_vec())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Percent-encodes the received path once more, as required by all services but S3.
fn double_encoded(path: &str) -> String {
    let mut out = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
