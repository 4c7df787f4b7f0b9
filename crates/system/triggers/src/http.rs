//! One signed delivery over HTTP, judged: whose it is, whether it is genuine, and whether
//! anybody wants it.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    extract::Request,
    http::{StatusCode, request::Parts},
};
use jiff::Timestamp;

use crate::{SecretSource, Trigger, VerifiedDelivery, verify};

/// Bytes of a delivery.
pub const LARGEST: usize = 1 << 20;
/// How long a client may take for everything it says.
pub const SAYS: Duration = Duration::from_secs(15);

/// What a client is answered.
pub type HttpAnswer = (StatusCode, String);

/// A delivery that counts.
pub struct JudgedDelivery<'a> {
    /// The trigger it is for.
    pub trigger: &'a Trigger,
    /// Who sent it, and what for.
    pub delivery: VerifiedDelivery,
    /// Its raw bytes.
    pub body: Vec<u8>,
}

/// Reads a request, within bounds.
pub async fn body_of(request: Request) -> Result<(Parts, Vec<u8>), HttpAnswer> {
    let (parts, body) = request.into_parts();
    match tokio::time::timeout(SAYS, axum::body::to_bytes(body, LARGEST)).await {
        Ok(Ok(body)) => Ok((parts, body.to_vec())),
        Ok(Err(_)) => Err((StatusCode::PAYLOAD_TOO_LARGE, format!("more than {LARGEST} bytes, or cut off"))),
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, String::new())),
    }
}

/// Judges a delivery for the trigger of a name. The error is the answer; whoever is not
/// known learns nothing but a number.
pub async fn judged<'a>(
    triggers: &'a BTreeMap<String, Trigger>,
    name: &str,
    request: Request,
) -> Result<JudgedDelivery<'a>, HttpAnswer> {
    let known = triggers.get(name).and_then(|it| Some((it, it.scheme?)));
    let Some((trigger, scheme)) = known else { return Err((StatusCode::NOT_FOUND, String::new())) };
    let Ok(secret) = secret(trigger) else {
        return Err((
            StatusCode::SERVICE_UNAVAILABLE,
            String::from("the key of this trigger cannot be read"),
        ));
    };
    let (parts, body) = body_of(request).await?;
    let header = |name: &str| {
        let mut all = parts.headers.get_all(name).iter();
        // What is there twice can be read in two ways.
        all.next().filter(|_| all.next().is_none()).and_then(|it| it.to_str().ok())
    };
    let delivery = verify(scheme, &secret, header, &body, Timestamp::now())
        .map_err(|refusal| (StatusCode::UNAUTHORIZED, refusal.words().to_owned()))?;
    if trigger.wants(delivery.event.as_deref()) {
        Ok(JudgedDelivery { trigger, delivery, body })
    } else {
        Err((StatusCode::OK, String::from("no event this trigger is for")))
    }
}

/// The key of a trigger. A file that others can read is none.
pub fn secret(trigger: &Trigger) -> Result<Vec<u8>, String> {
    use std::os::unix::fs::PermissionsExt as _;
    let read = match trigger.secret.as_ref() {
        Some(SecretSource::Env(name)) => {
            std::env::var(name).map_err(|_| format!("the variable {name} is not set"))?.into_bytes()
        }
        Some(SecretSource::File(path)) => {
            let shown = path.display();
            let about = std::fs::metadata(path).map_err(|err| format!("{shown}: {err}"))?;
            if about.permissions().mode() & 0o077 != 0 {
                return Err(format!("{shown} can be read by others; chmod 600 it"));
            }
            std::fs::read(path).map_err(|err| format!("{shown}: {err}"))?
        }
        None => return Err(String::from("there is no key")),
    };
    let key = read.trim_ascii().to_vec();
    if key.is_empty() { Err(String::from("the key is empty")) } else { Ok(key) }
}
