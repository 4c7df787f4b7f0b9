use std::{io, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Receives the redirect of the browser after a login, on loopback.
pub struct CallbackListener {
    listener: TcpListener,
    port: u16,
}

/// Maximum bytes of a request.
const MAX_REQUEST_BYTES: usize = 64 << 10;
const READ_LIMIT: Duration = Duration::from_secs(5);
/// Maximum concurrent connections. Browsers open some in advance; other programs may connect too.
const MAX_AT_ONCE: usize = 32;

const DONE: &str = "You can close this window and go back to Haft.";
const NOT_THIS: &str = "This is not the answer Haft is waiting for.";

impl CallbackListener {
    /// Listens on loopback, on any free port unless `port` is given because it is registered with the
    /// authorization server.
    pub async fn bind(port: Option<u16>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0))).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// Returns the redirect URI.
    pub fn redirect_uri(&self) -> String {
        format!("http://localhost:{}/callback", self.port)
    }

    /// Waits for the browser's redirect and returns its URL. Other requests, and redirects that
    /// `is_answer` ([`crate::LoginFlow::is_answer`]) rejects, get an error response.
    pub async fn wait(self, is_answer: impl Fn(&str) -> bool) -> io::Result<String> {
        let mut visitors = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if visitors.len() < MAX_AT_ONCE => {
                    visitors.push(self.heard(accepted?.0));
                }
                Some((stream, target)) = visitors.next(), if !visitors.is_empty() => {
                    let url = target.map(|it| format!("http://localhost:{}{it}", self.port));
                    let found = url.filter(|it| is_answer(it));
                    let page = if found.is_some() { ("200 OK", DONE) } else { ("404 Not Found", NOT_THIS) };
                    answer(stream, page).await;
                    if let Some(url) = found {
                        return Ok(url);
                    }
                }
            }
        }
    }

    /// Reads a request; returns its URL if it may be the redirect.
    async fn heard(&self, mut stream: TcpStream) -> (TcpStream, Option<String>) {
        let target = tokio::time::timeout(READ_LIMIT, request_target(&mut stream)).await;
        (stream, target.unwrap_or_default().filter(|it| it.starts_with("/callback?")))
    }
}

async fn answer(mut stream: TcpStream, (status, words): (&str, &str)) {
    let page = format!("<!doctype html><meta charset=utf-8><title>Haft</title><p>{words}</p>");
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{page}",
        page.len()
    );
    // Short enough for the socket buffer; the timeout is a safeguard.
    let _ = tokio::time::timeout(READ_LIMIT, stream.write_all(answer.as_bytes())).await;
    let _ = stream.shutdown().await;
}

/// Reads the path of a GET request.
async fn request_target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    // Read the whole head: closing with unread data would reset the connection and lose the response.
    while !head.windows(4).any(|it| it == b"\r\n\r\n") {
        let mut chunk = [0; 1024];
        let count = stream.read(&mut chunk).await.ok().filter(|it| *it != 0)?;
        head.extend_from_slice(&chunk[..count]);
        if MAX_REQUEST_BYTES < head.len() {
            return None;
        }
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.lines().next()?.split(' ');
    (words.next() == Some("GET")).then(|| words.next().map(str::to_owned))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn listener_accepts_only_the_login_redirect() {
        let listener = CallbackListener::bind(None).await.unwrap();
        let base = listener.redirect_uri();
        let waiting = tokio::spawn(listener.wait(|url| url.ends_with("&state=s")));
        let port = base.split(':').next_back().unwrap().split('/').next().unwrap().to_owned();
        let connect = || TcpStream::connect(format!("127.0.0.1:{port}"));
        // Silent connections must not block others.
        let mut silent = Vec::new();
        for _ in 0..5 {
            silent.push(connect().await.unwrap());
        }
        for (request, status) in [
            ("GET /favicon.ico HTTP/1.1\r\n\r\n", "404"),
            ("POST /callback?code=x&state=s HTTP/1.1\r\n\r\n", "404"),
            ("GET /callback?code=x&state=forged HTTP/1.1\r\n\r\n", "404"),
            ("GET /callback?code=c&state=s HTTP/1.1\r\nhost: x\r\n\r\n", "200"),
        ] {
            let mut stream = connect().await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.contains(status), "{request}: {answer}");
        }
        assert_eq!(waiting.await.unwrap().unwrap(), format!("{base}?code=c&state=s"));
    }
}
