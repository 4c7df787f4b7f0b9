use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Waits on this machine for the browser to come back from a login.
pub struct CallbackListener {
    listener: TcpListener,
    port: u16,
}

/// A request line longer than this is not the browser's.
const MAX_REQUEST_BYTES: usize = 16 << 10;
const READ_LIMIT: Duration = Duration::from_secs(5);

const PAGE: &str = "<!doctype html><meta charset=utf-8><title>Haft</title>\
    <p>You can close this window and go back to Haft.</p>";

impl CallbackListener {
    /// Listens on the loopback address; on any free port unless one is
    /// registered with the authorization server.
    pub async fn bind(port: Option<u16>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0))).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// The address to register as the redirect.
    pub fn redirect_uri(&self) -> String {
        format!("http://localhost:{}/callback", self.port)
    }

    /// Waits for the browser and gives the address it came to. Anything else
    /// that knocks is sent away.
    pub async fn wait(self) -> io::Result<String> {
        loop {
            let (mut stream, _) = self.listener.accept().await?;
            let target = tokio::time::timeout(READ_LIMIT, request_target(&mut stream)).await;
            let target = target.unwrap_or_default().filter(|it| it.starts_with("/callback?"));
            let (status, page) = if target.is_some() { ("200 OK", PAGE) } else { ("404 Not Found", "") };
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{page}",
                page.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
            if let Some(target) = target {
                return Ok(format!("http://localhost:{}{target}", self.port));
            }
        }
    }
}

/// The path of a GET request.
async fn request_target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(2).any(|it| it == b"\r\n") {
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
    async fn only_the_callback_counts() {
        let listener = CallbackListener::bind(None).await.unwrap();
        let base = listener.redirect_uri();
        let waiting = tokio::spawn(listener.wait());
        let port = base.split(':').next_back().unwrap().split('/').next().unwrap().to_owned();
        for (request, status) in [
            ("GET /favicon.ico HTTP/1.1\r\n\r\n", "404"),
            ("POST /callback?code=x HTTP/1.1\r\n\r\n", "404"),
            ("GET /callback?code=c&state=s HTTP/1.1\r\nhost: x\r\n\r\n", "200"),
        ] {
            let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.contains(status), "{request}: {answer}");
        }
        assert_eq!(waiting.await.unwrap().unwrap(), format!("{base}?code=c&state=s"));
    }
}
