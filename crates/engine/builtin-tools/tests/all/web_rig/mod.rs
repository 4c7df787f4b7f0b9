//! A web server on the loopback interface that sends exactly what a test specifies, and a network with
//! simulated names.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]

use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft_builtin_tools::web_fetch::{PageModel, WebFetch, WebServices, WebSettings};
use haft_net::{
    ConnectVia, NetFuture, PrivateHosts, ProxyChoice, SingleRequest, SystemNetwork, WebClient, WebLimits,
    WebNetwork,
};
use haft_tool::{CallContext, DynTool, Output, ToolError, erase};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use url::Url;

/// Handles one request.
pub type Answer = Arc<dyn Fn(String, TcpStream) -> NetFuture<'static, ()> + Send + Sync>;

/// A server that records its requests.
pub struct Site {
    pub port: u16,
    pub asked: Arc<Mutex<Vec<String>>>,
}

impl Site {
    /// Serves raw bytes by the first line of a request (`GET /path`).
    pub async fn raw(answers: Vec<(&'static str, Vec<u8>)>) -> Self {
        let answers = Arc::new(answers);
        Self::with(Arc::new(move |head, mut stream| {
            let answers = Arc::clone(&answers);
            Box::pin(async move {
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                let found = answers.iter().find(|it| it.0 == path).map(|it| it.1.clone());
                let bytes = found.unwrap_or_else(|| reply(404, "text/plain", b"no such page"));
                stream.write_all(&bytes).await.ok();
                stream.shutdown().await.ok();
            })
        }))
        .await
    }

    pub async fn with(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    let mut byte = [0];
                    while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).await.is_ok() {
                        head.push(byte[0]);
                    }
                    let head = String::from_utf8_lossy(&head).into_owned();
                    log.lock().unwrap().push(head.clone());
                    answer(head, stream).await;
                });
            }
        });
        Self { port, asked }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn requests(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

/// Builds a complete response.
pub fn reply(status: u16, content_type: &str, body: &[u8]) -> Vec<u8> {
    reply_with(status, &[("Content-Type", content_type)], body)
}

pub fn reply_with(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

/// A fetch tool that may connect to one loopback server.
pub struct Rig {
    pub dir: tempfile::TempDir,
    pub tool: Arc<dyn DynTool>,
}

impl Rig {
    pub fn near(site: &Site) -> Self {
        Self::changed(site, |_| {})
    }

    pub fn changed(site: &Site, change: impl FnOnce(&mut WebServices)) -> Self {
        let host = format!("127.0.0.1:{}", site.port);
        let (near, wrong) = PrivateHosts::parse([host.as_str()]);
        assert!(wrong.is_empty());
        Self::over(SystemNetwork::new(|_| None), near, change)
    }

    pub fn over(
        network: Arc<dyn WebNetwork>,
        near: PrivateHosts,
        change: impl FnOnce(&mut WebServices),
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut services = WebServices {
            client: WebClient::new(network, near, WebLimits::default()),
            keep_dir: dir.path().join("kept"),
            settings: WebSettings::default(),
            reader: None,
        };
        change(&mut services);
        Self { tool: erase(WebFetch::new(services)), dir }
    }

    pub async fn call(&self, input: Value) -> Result<Output, ToolError> {
        crate::shell_rig::call(&self.tool, input, CallContext::detached("call_1", self.dir.path())).await
    }

    pub async fn fetch(&self, url: &str) -> Result<Output, ToolError> {
        self.call(json!({ "url": url })).await
    }

    /// Returns what the model reads, whether result or error.
    pub async fn said(&self, input: Value) -> String {
        match self.call(input).await {
            Ok(output) => output.content.to_text(),
            Err(error) => format!("{}: {}", error.kind.name(), error.message),
        }
    }
}

/// A network that resolves names from a table and records connections.
#[derive(Default)]
pub struct StubNetwork {
    pub names: HashMap<String, Vec<Vec<IpAddr>>>,
    pub hangs: Vec<String>,
    pub pages: HashMap<String, (u16, Option<String>)>,
    pub connected: Mutex<Vec<(String, Vec<IpAddr>)>>,
    pub lookups: AtomicUsize,
}

impl WebNetwork for StubNetwork {
    fn look_up<'a>(&'a self, host: &'a str) -> NetFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let before = self.lookups.fetch_add(1, Ordering::SeqCst);
            if self.hangs.iter().any(|it| it == host) {
                std::future::pending::<()>().await;
            }
            match self.names.get(host) {
                Some(answers) => Ok(answers[before.min(answers.len() - 1)].clone()),
                None => Err(io::Error::other("no such name")),
            }
        })
    }

    fn proxy_for(&self, _url: &Url) -> Option<ProxyChoice> {
        None
    }

    fn send<'a>(
        &'a self,
        request: SingleRequest<'a>,
    ) -> NetFuture<'a, Result<reqwest::Response, reqwest::Error>> {
        Box::pin(async move {
            let addresses = match request.route {
                ConnectVia::Direct(addresses) => addresses.clone(),
                ConnectVia::Proxy(_) => Vec::new(),
            };
            self.connected.lock().unwrap().push((request.url.to_string(), addresses));
            let (status, location) = self.pages.get(request.url.as_str()).cloned().unwrap_or((200, None));
            let mut response = http::Response::builder().status(status);
            if let Some(location) = location {
                response =
                    response.header("location", http::HeaderValue::from_bytes(location.as_bytes()).unwrap());
            }
            Ok(response.header("content-type", "text/plain").body("the page").unwrap().into())
        })
    }
}

/// A page model with a fixed answer, which records its prompts.
pub struct FixedReader(pub Result<&'static str, &'static str>, pub Mutex<Vec<(String, String)>>);

impl PageModel for FixedReader {
    fn answer<'a>(
        &'a self,
        page: &'a str,
        prompt: &'a str,
    ) -> haft_tool::BoxFuture<'a, Result<haft_builtin_tools::web_fetch::PageAnswer, String>> {
        self.1.lock().unwrap().push((page.to_owned(), prompt.to_owned()));
        let answer = self
            .0
            .map(|text| haft_builtin_tools::web_fetch::PageAnswer {
                text: text.into(),
                model: "small-1".into(),
            })
            .map_err(str::to_owned);
        Box::pin(async move { answer })
    }
}

pub const SOON: Duration = Duration::from_secs(100);
