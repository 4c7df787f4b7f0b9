//! Reads a server's monitoring port.

use std::time::Duration;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::StoreError;

/// Maximum bytes of a response.
const ANSWER: u64 = 1_048_576;

/// Whether all reachable servers sync every write. `addresses` is separated by `+`. A server that is
/// down cannot lose acknowledged writes now.
pub(super) async fn sync_of(addresses: &str) -> Result<bool, String> {
    let mut answer = Err(String::from("no monitoring address is named"));
    // In a URL `+` means a space.
    for address in addresses.split(['+', ' ']).filter(|it| !it.is_empty()) {
        match sync_of_one(address).await {
            Ok(false) => return Ok(false),
            Ok(true) => answer = Ok(true),
            Err(said) => answer = answer.or(Err(said)),
        }
    }
    answer
}

async fn sync_of_one(address: &str) -> Result<bool, String> {
    let address = address.trim_start_matches("http://").trim_end_matches('/');
    let asked = timeout(Duration::from_secs(5), ask(address)).await;
    let body = asked
        .map_err(|_| format!("{address} does not answer"))?
        .map_err(|err| format!("{address}: {err}"))?;
    let told: Value = serde_json::from_str(&body).map_err(|err| format!("{address}: {err}"))?;
    match told.pointer("/jetstream/config") {
        Some(config) => Ok(config["sync_always"] == Value::Bool(true)),
        None => Err(format!("{address} says nothing of JetStream")),
    }
}

async fn ask(address: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /varz HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.take(ANSWER).read_to_string(&mut answer).await?;
    let body = answer.split_once("\r\n\r\n").map(|it| it.1.to_owned());
    body.ok_or_else(|| std::io::Error::other("not an answer"))
}

/// Rejects a server that may lose acknowledged writes.
pub(super) async fn require_sync(address: &str, server: &str) -> Result<(), StoreError> {
    match sync_of(address).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(StoreError::Refused(format!(
            "NATS at {server} syncs its writes every two minutes and may lose what it acknowledged: set \
             `sync_interval: always` under jetstream, or add ?sync=lazy to the address if that is meant"
        ))),
        Err(said) => Err(StoreError::Gone {
            engine: format!("the monitoring port of NATS at {server}"),
            said,
            advice: String::from("set `http: host:8222` in its configuration, or leave ?monitor= out"),
        }),
    }
}
