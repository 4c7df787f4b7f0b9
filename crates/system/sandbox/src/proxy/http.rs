use std::io;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::TcpStream,
};

use super::{Proxy, ProxyRefusal, TIMEOUT, allowed_domains::ProxyDestination};

/// Maximum bytes of a request head; a longer one is an error.
const LONGEST_HEAD: usize = 64 << 10;

/// Serves one connection whose first byte was already read.
pub(super) async fn serve(proxy: &Proxy, mut client: TcpStream, first: u8) -> io::Result<()> {
    let (head, rest) = tokio::time::timeout(TIMEOUT, read_head(&mut client, first)).await??;
    let Some(request) = ProxyRequest::parse(&head) else {
        return answer(&mut client, "400 Bad Request", "this proxy understands CONNECT and http:// only")
            .await;
    };
    let mut server = match proxy.dial(&request.to).await {
        Ok(server) => server,
        Err(ProxyRefusal::Forbidden(why)) => {
            let words = format!("blocked by sandbox: {why}");
            return answer(&mut client, "403 Forbidden", &words).await;
        }
        Err(ProxyRefusal::Failed(why)) => return answer(&mut client, "502 Bad Gateway", &why).await,
    };
    match &request.forwarded {
        None => client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?,
        Some(head) => server.write_all(head.as_bytes()).await?,
    }
    server.write_all(&rest).await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

/// Reads up to the empty line. Also returns bytes after it, which belong to the server.
async fn read_head(client: &mut TcpStream, first: u8) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = vec![first];
    let mut buf = [0; 4096];
    loop {
        if let Some(end) = memchr::memmem::find(&bytes, b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            let head = String::from_utf8(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            return Ok((head, rest));
        }
        let len = client.read(&mut buf).await?;
        if len == 0 || LONGEST_HEAD < bytes.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        bytes.extend_from_slice(&buf[..len]);
    }
}

struct ProxyRequest {
    to: ProxyDestination,
    /// The rewritten head for the server; `None` for a tunnel (`CONNECT`).
    forwarded: Option<String>,
}

impl ProxyRequest {
    fn parse(head: &str) -> Option<Self> {
        let (line, headers) = head.split_once("\r\n")?;
        let mut words = line.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if words.next().is_some() || !version.starts_with("HTTP/1.") {
            return None;
        }
        if method == "CONNECT" {
            return Some(Self { to: ProxyDestination::parse(target, None)?, forwarded: None });
        }
        let rest = target.strip_prefix("http://")?;
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let to = ProxyDestination::parse(authority, Some(80))?;
        let slash = if path.starts_with('/') { "" } else { "/" };
        // Sets the `Host` that was checked and allows only one request per connection.
        let mut forwarded =
            format!("{method} {slash}{path} {version}\r\nHost: {authority}\r\nConnection: close\r\n");
        for header in headers.split("\r\n").filter(|it| !it.is_empty()) {
            let name = header.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
            let ours =
                matches!(name.as_str(), "host" | "connection" | "keep-alive") || name.starts_with("proxy-");
            if !ours {
                forwarded.push_str(header);
                forwarded.push_str("\r\n");
            }
        }
        forwarded.push_str("\r\n");
        Some(Self { to, forwarded: Some(forwarded) })
    }
}

async fn answer(client: &mut TcpStream, status: &str, words: &str) -> io::Result<()> {
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{words}\n",
        words.len() + 1
    );
    client.write_all(text.as_bytes()).await?;
    client.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let got = ProxyRequest::parse("CONNECT a.com:443 HTTP/1.1\r\nHost: b.com\r\n\r\n").expect("parses");
        assert_eq!((got.to.to_string(), got.forwarded), (String::from("a.com:443"), None));
        let head = "GET http://a.com/x?y HTTP/1.1\r\nHost: evil.com\r\nProxy-Authorization: x\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n";
        let got = ProxyRequest::parse(head).expect("parses").forwarded.expect("is forwarded");
        assert_eq!(got, "GET /x?y HTTP/1.1\r\nHost: a.com\r\nConnection: close\r\nAccept: */*\r\n\r\n");
        for wrong in [
            "GET /x HTTP/1.1\r\n\r\n",
            "CONNECT a.com HTTP/1.1\r\n\r\n",
            "GET http://a\0b/ HTTP/1.1\r\n\r\n",
            "GET http://u@a.com/ HTTP/1.1\r\n\r\n",
            "x\r\n\r\n",
        ] {
            assert!(ProxyRequest::parse(wrong).is_none(), "{wrong}");
        }
    }
}
