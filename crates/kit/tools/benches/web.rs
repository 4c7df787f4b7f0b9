//! A page of a megabyte from a server on this machine, beside fetching the same
//! bytes and converting them without anything around it. `cargo xtask bench web`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark prints, and stops when something is wrong"
)]

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

use haft_net::{PrivateHosts, SystemNetwork, WebClient, WebLimits};
use haft_tool::{AllowReason, CallContext, DynTool, OpenScope, Permit, erase};
use haft_tools::web_fetch::{WebFetch, WebServices, WebSettings};
use serde_json::json;

const ROUNDS: usize = 21;

fn main() {
    let page = Arc::new(page());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = Arc::clone(&page);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let served = Arc::clone(&served);
            std::thread::spawn(move || serve(stream, &served));
        }
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (mut ours, mut kept, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    let url = format!("http://127.0.0.1:{port}/");
    for _ in 0..ROUNDS {
        let tool = tool(port);
        let began = Instant::now();
        let first = runtime.block_on(fetch(&tool, &url));
        ours.push(began.elapsed());
        let began = Instant::now();
        let again = runtime.block_on(fetch(&tool, &url));
        kept.push(began.elapsed());
        assert_eq!(first, again);
        let began = Instant::now();
        let body = plain(port);
        let options = mdream::HtmlToMarkdownOptions::default();
        let converted = mdream::html_to_markdown_result(&body, options);
        bare.push(began.elapsed());
        assert!(!converted.markdown.is_empty());
    }
    let (ours, kept, bare) = (median(ours), median(kept), median(bare));
    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
    println!("a page of {} kB, median of {ROUNDS}", page.len() / 1024);
    println!("  WebFetch {ours:.1?}, fetched and converted without it {bare:.1?}, ratio {ratio:.2} (goal 3)");
    println!("  the same from what is kept {kept:.1?} (goal 2 ms)");
}

/// A page like those of documentation: headings, text, links, tables, code.
fn page() -> String {
    let part = |number: usize| {
        format!(
            "<h2 id=\"s{number}\">Section {number}</h2><p>Some text with a <a href=\"/x/{number}\">link</a> and \
             <code>code</code>, <b>bold</b> and <i>more</i> of it, to be read by somebody.</p>\
             <pre><code class=\"language-rust\">fn f{number}() -> usize {{ {number} }}</code></pre>\
             <table><tr><th>a</th><th>b</th></tr><tr><td>{number}</td><td>x</td></tr></table>"
        )
    };
    let parts: String = (0..2_800).map(part).collect();
    format!("<!doctype html><html><head><title>Large</title></head><body><main>{parts}</main></body></html>")
}

fn serve(mut stream: TcpStream, page: &str) {
    let mut head = [0; 4096];
    if stream.read(&mut head).unwrap_or(0) == 0 {
        return;
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        page.len()
    );
    stream.write_all(head.as_bytes()).ok();
    stream.write_all(page.as_bytes()).ok();
}

/// The body, as a program without any care gets it.
fn plain(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

fn tool(port: u16) -> Arc<dyn DynTool> {
    let host = format!("127.0.0.1:{port}");
    let (near, _) = PrivateHosts::parse([host.as_str()]);
    let services = WebServices {
        client: WebClient::new(SystemNetwork::new(|_| None), near, WebLimits::default()),
        keep_dir: std::env::temp_dir().join("haft-bench-web"),
        settings: WebSettings::default(),
        reader: None,
    };
    erase(WebFetch::new(services))
}

async fn fetch(tool: &Arc<dyn DynTool>, url: &str) -> String {
    let cx = CallContext::detached("bench", std::path::Path::new("/"));
    let call = Arc::clone(tool).parse(json!({ "url": url }), &cx).unwrap();
    #[expect(clippy::disallowed_methods, reason = "stands in for the permission engine")]
    let permit = Permit::issue(AllowReason::Mode, Vec::new(), Arc::new(OpenScope));
    call.run(permit, cx).await.unwrap().data["result"].as_str().unwrap().to_owned()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
