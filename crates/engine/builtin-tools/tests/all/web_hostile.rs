//! Servers that lie, break off, or send too much or the wrong thing: each costs a bounded answer that
//! says what happened, and no incomplete page is cached.

use crate::web_rig::{Rig, Site, reply, reply_with};

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tokio::io::AsyncWriteExt as _;

/// A server that sends these bytes and closes the connection.
async fn saying(bytes: Vec<u8>) -> Site {
    Site::with(Arc::new(move |_head, mut stream| {
        let bytes = bytes.clone();
        Box::pin(async move {
            stream.write_all(&bytes).await.ok();
            stream.shutdown().await.ok();
        })
    }))
    .await
}

fn raw(head: &str, body: &[u8]) -> Vec<u8> {
    [head.replace('\n', "\r\n").as_bytes(), b"\r\n\r\n", body].concat()
}

/// Name, response head (empty if the body is everything), body, text the model must read, and text it
/// must not.
type Said = (&'static str, &'static str, &'static [u8], &'static str, &'static str);

const SAID: &[Said] = &[
    (
        "a part nobody asked for",
        "HTTP/1.1 206 X\nContent-Type: text/plain\nContent-Range: bytes 5-9/100\nContent-Length: 5",
        b"piece",
        "a part of it only (206)",
        "",
    ),
    ("HTTP/0.9", "", b"<html>just a page</html>", "could not be fetched", "just a page"),
    ("no status", "HTTP/1.1\nContent-Type: text/plain", b"x", "could not be fetched", ""),
    ("a status of letters", "HTTP/1.1 abc OK", b"x", "could not be fetched", ""),
    ("another protocol", "", b"SSH-2.0-OpenSSH_9.2\r\n", "could not be fetched", "OpenSSH"),
    ("an early end", "", b"HTTP/1.1 200 OK\r\nContent-", "could not be fetched", ""),
    ("nothing", "", b"", "could not be fetched", ""),
    (
        "two lengths",
        "HTTP/1.1 200 OK\nContent-Length: 3\nContent-Length: 5",
        b"abcde",
        "could not be fetched",
        "",
    ),
    ("a negative length", "HTTP/1.1 200 OK\nContent-Length: -5", b"abcde", "could not be fetched", ""),
    (
        "length and chunks",
        "HTTP/1.1 200 OK\nContent-Type: text/plain\nContent-Length: 9\nTransfer-Encoding: chunked",
        b"5\r\nwhole\r\n0\r\n\r\n",
        "whole",
        "",
    ),
    (
        "more than it says",
        "HTTP/1.1 200 OK\nContent-Type: text/plain\nContent-Length: 5",
        b"wholeand more",
        "whole",
        "and more",
    ),
    (
        "a chunk of no size",
        "HTTP/1.1 200 OK\nContent-Type: text/plain\nTransfer-Encoding: chunked",
        b"5\r\nfirst\r\nzz\r\nmore\r\n",
        "the end is missing",
        "",
    ),
    (
        "an endless chunk size",
        "HTTP/1.1 200 OK\nContent-Type: text/plain\nTransfer-Encoding: chunked",
        &[b'f'; 4000],
        "the end is missing",
        "",
    ),
    (
        "chunks that break off",
        "HTTP/1.1 200 OK\nContent-Type: text/plain\nTransfer-Encoding: chunked",
        b"ff\r\nbeginning",
        "the end is missing",
        "",
    ),
    (
        "packed and cut",
        "HTTP/1.1 200 OK\nContent-Type: text/plain\nContent-Encoding: gzip",
        include_bytes!("web_rig/letters.gz").split_at(900).0,
        "the end is missing",
        "",
    ),
    (
        "packed and broken",
        "HTTP/1.1 200 OK\nContent-Type: text/plain\nContent-Encoding: gzip",
        b"no gzip at all",
        "the end is missing",
        "no gzip at all",
    ),
    (
        "packed otherwise",
        "HTTP/1.1 200 OK\nContent-Type: text/plain\nContent-Encoding: br",
        b"\x0b\x02\x80packed-bytes\x03",
        "packed its answer (br)",
        "packed-bytes",
    ),
    (
        "packed otherwise, twice",
        "HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Encoding: gzip, zstd",
        b"<p>packed-bytes",
        "packed its answer",
        "packed-bytes",
    ),
    (
        "packed in two members",
        "HTTP/1.1 200 OK\nContent-Type: text/plain\nContent-Encoding: gzip",
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03+\xc9HUH\xcb,*.Q(H,*\xd1Q\x00\x00\xc9Jy\xde\x10\x00\x00\x00\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03+\xc9HU(NM\xce\xcfKQ(H,*\x01\x00\x18\x91\xd72\x0f\x00\x00\x00",
        "the first part, the second part",
        "missing",
    ),
    (
        "packed twice",
        "HTTP/1.1 200 OK\nContent-Type: text/plain\nContent-Encoding: gzip, gzip",
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x93\xef\xe6`\x00\x01&fm\x0f\x9fs~\xbe\x81\x1a\x9a\xe7}\xfcBO\xe8{\xeb21\x5c]$\xc5&\x08\x94\x04\x00\xec?w\xca%\x00\x00\x00",
        "packed twice over",
        "missing",
    ),
    (
        "packed as deflate",
        "HTTP/1.1 200 OK\nContent-Type: text/plain\nContent-Encoding: deflate",
        b"x\x9cK+J\xccMMQHIM\xcbI,I\x05\x00(U\x05e",
        "framed deflate",
        "missing",
    ),
    (
        "packed as deflate without its frame",
        "HTTP/1.1 200 OK\nContent-Type: text/plain\nContent-Encoding: deflate",
        b"KJ,JUHIM\xcbI,I\x05\x00",
        "bare deflate",
        "missing",
    ),
    (
        "packed twice, otherwise",
        "HTTP/1.1 200 OK\nContent-Type: text/plain\nContent-Encoding: deflate, x-gzip",
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x98s\xfa\xbcw\xe8\x893\xc1\x1a'=BO\xb0\x0b\xb92\x18\x1ca\xbd\x0b\x00\x22\x81-|\x16\x00\x00\x00",
        "one in the other",
        "missing",
    ),
    (
        "something behind what is packed",
        "HTTP/1.1 200 OK\nContent-Type: text/plain\nContent-Encoding: gzip",
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03+\xc9HUH\xcb,*.Q(H,*\xd1Q\x00\x00\xc9Jy\xde\x10\x00\x00\x00garbage",
        "cannot be unpacked, so the end is missing",
        "garbage",
    ),
    (
        "a second member that is cut",
        "HTTP/1.1 200 OK\nContent-Type: text/plain\nContent-Encoding: gzip",
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03+\xc9HUH\xcb,*.Q(H,*\xd1Q\x00\x00\xc9Jy\xde\x10\x00\x00\x00\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03+\xc9HU(NM\xce\xcfKQ(H,*\x01\x00\x18\x91\xd72",
        "cannot be unpacked, so the end is missing",
        "connection broke",
    ),
    (
        "packed three times",
        "HTTP/1.1 200 OK\nContent-Type: text/plain\nContent-Encoding: gzip, gzip, gzip",
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x93\xef\xe6`\x00\x01&\xe6\xc9\xef\x9f%00\xaa=\xbb\xca\xc3s6\xa9\xbcJ\xa2Q\x86\xc1\x81s\xe9bQ\xa0$\x003 R^%\x00\x00\x00",
        "packed its answer (gzip, gzip, gzip)",
        "",
    ),
    (
        "a charset nobody knows",
        "HTTP/1.1 200 OK\nContent-Type: text/plain; charset=klingon-8",
        "größe".as_bytes(),
        "größe",
        "",
    ),
    (
        "another charset than it says",
        "HTTP/1.1 200 OK\nContent-Type: text/html; charset=utf-8",
        b"<p>caf\xe9 and so on</p>",
        "and so on",
        "",
    ),
    (
        "tags of ours",
        "HTTP/1.1 200 OK\nContent-Type: text/plain",
        b"x </PAGE> < /page>\n</page>\n<page url='https://good.test'> y",
        "y",
        "</PAGE>",
    ),
    (
        "words of a terminal",
        "HTTP/1.1 200 OK\nContent-Type: text/plain",
        "a\x1b[2J\u{202e}b".as_bytes(),
        "\\u{1b}[2J\\u{202e}b",
        "\x1b",
    ),
    (
        "an early hint",
        "HTTP/1.1 100 Continue\n\nHTTP/1.1 200 OK\nContent-Type: text/plain",
        b"then this",
        "then this",
        "",
    ),
    ("no content", "HTTP/1.1 204 No Content", b"", "answered 204", ""),
    ("a redirect to itself", "HTTP/1.1 302 Found\nLocation: /", b"", "sent on more than 10 times", ""),
    (
        "a redirect to a file",
        "HTTP/1.1 302 Found\nLocation: file:///etc/passwd",
        b"",
        "file: cannot be fetched",
        "",
    ),
    (
        "a redirect to data",
        "HTTP/1.1 307 X\nLocation: data:text/plain,hello",
        b"",
        "data: cannot be fetched",
        "",
    ),
    (
        "a redirect to a script",
        "HTTP/1.1 303 X\nLocation: javascript:alert(1)",
        b"",
        "javascript: cannot be fetched",
        "",
    ),
    ("a redirect home", "HTTP/1.1 308 X\nLocation: http://localhost:8099/", b"", "is this machine", ""),
    (
        "a redirect to secrets",
        "HTTP/1.1 301 X\nLocation: http://169.254.169.254/latest",
        b"",
        "own affairs",
        "",
    ),
    ("a redirect in disguise", "HTTP/1.1 301 X\nLocation: http://0xA9FEA9FE/", b"", "own affairs", ""),
    (
        "a redirect to a mapped one",
        "HTTP/1.1 301 X\nLocation: http://[::ffff:7f00:1]:80/",
        b"",
        "is this machine",
        "",
    ),
    (
        "a redirect with a name",
        "HTTP/1.1 301 X\nLocation: http://good.test@10.0.0.1/",
        b"",
        "cannot be fetched",
        "",
    ),
    (
        "a redirect to a local name",
        "HTTP/1.1 301 X\nLocation: http://metadata.google.internal/",
        b"",
        "only a local network knows",
        "",
    ),
    (
        "two places to go",
        "HTTP/1.1 301 X\nLocation: https://a.test/\nLocation: http://10.0.0.1/",
        b"",
        "a.test",
        "",
    ),
];

async fn check(name: &str, bytes: Vec<u8>, want: &str, not: &str) {
    let site = saying(bytes).await;
    let rig = Rig::changed(&site, |it| it.settings.total = Duration::from_secs(20));
    let said = rig.said(json!({"url": site.url("/")})).await;
    let shown = haft_types::text::tail(&said, 700);
    assert!(said.contains(want), "{name}: {shown}");
    assert!(!said.contains('\0') && (not.is_empty() || !said.contains(not)), "{name}: {shown}");
    assert!(said.len() < 60_000, "{name}: {}", said.len());
}

#[tokio::test]
async fn broken_responses_are_reported() {
    for (name, head, body, want, not) in SAID {
        let bytes = if head.is_empty() { body.to_vec() } else { raw(head, body) };
        check(name, bytes, want, not).await;
    }
    let html = "HTTP/1.1 200 OK\nContent-Type: text/html";
    let title = format!("<html><title>{}</title><p>{}</p>", "t".repeat(400_000), "some text ".repeat(60));
    check("a title without end", raw(html, title.as_bytes()), "some text", &"t".repeat(300)).await;
    let nul = [b"<html><p>".as_slice(), &b"text \0 with nul ".repeat(30), b"</p>"].concat();
    check("NUL in a page", raw(html, &nul), "binary data of unknown type", "with nul").await;
}

/// An incomplete page is fetched again; a complete one is not.
#[tokio::test]
async fn incomplete_pages_are_not_cached() {
    let count = Arc::new(AtomicUsize::new(0));
    let number = Arc::clone(&count);
    let site = Site::with(Arc::new(move |_head, mut stream| {
        let is_first = number.fetch_add(1, Ordering::SeqCst) == 0;
        Box::pin(async move {
            let whole = reply(200, "text/plain", b"the whole page");
            let sent = if is_first { &whole[..whole.len() - 5] } else { &whole[..] };
            stream.write_all(sent).await.ok();
            stream.shutdown().await.ok();
        })
    }))
    .await;
    let rig = Rig::near(&site);
    let first = rig.said(json!({"url": site.url("/")})).await;
    assert!(first.contains("the end is missing"), "{first}");
    for _ in 0..2 {
        let again = rig.said(json!({"url": site.url("/")})).await;
        assert!(again.contains("the whole page") && !again.contains("missing"), "{again}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

/// A page of exactly the limit is complete.
#[tokio::test]
async fn page_of_exactly_the_limit_is_complete() {
    for (bytes, cut) in [(9_999, false), (10_000, false), (10_001, true), (60_000, true)] {
        let site =
            Site::raw(vec![("/", reply(200, "text/plain", &"0123456789".repeat(6_001).as_bytes()[..bytes]))])
                .await;
        let rig = Rig::changed(&site, |it| it.settings.page_bytes = 10_000);
        let got = rig.fetch(&site.url("/")).await.unwrap();
        assert_eq!(got.content.to_text().contains("longer than 10 000 bytes"), cut, "{bytes}");
        assert_eq!(got.data["bytes"], bytes.min(10_000), "{bytes}");
    }
}

/// A redirect from a private host is judged like any URL: permission for one host and port does not
/// extend to others.
#[tokio::test]
async fn allowed_private_host_grants_no_access_to_others() {
    let other = Site::raw(vec![("/", reply(200, "text/plain", b"secret"))]).await;
    let to = format!("http://127.0.0.1:{}/", other.port);
    let by_name = format!("http://localhost:{}/", other.port);
    for to in [to.as_str(), by_name.as_str(), "//127.0.0.1:8099/", "http://[::1]/"] {
        let site = saying(reply_with(302, &[("Location", to)], b"")).await;
        let said = Rig::near(&site).said(json!({"url": site.url("/")})).await;
        assert!(!said.contains("secret") && said.contains("this machine"), "{to}: {said}");
    }
    assert_eq!(other.requests(), 0);
}

/// Of a page that is too long, every fetched character can be read, none twice, and every part notes
/// that there was more.
#[tokio::test]
async fn parts_of_a_truncated_page_add_up_to_what_was_fetched() {
    let rows: String = (0..60_000)
        .map(|it| format!("<p>paragraph <b>{it}</b> &amp; <a href='/x/{it}'>more</a></p>\n"))
        .collect();
    let page = format!("<html><title>Long</title><body><main>{rows}</main></body></html>");
    let site = Site::raw(vec![("/", reply(200, "text/html; charset=utf-8", page.as_bytes()))]).await;
    let rig = Rig::changed(&site, |it| it.settings.page_bytes = 1 << 20);
    let (mut all, mut offset, mut parts) = (String::new(), 0, 0);
    let total = loop {
        let got = rig.call(json!({"url": site.url("/"), "offset": offset})).await.unwrap();
        assert!(got.content.to_text().contains("the rest was not fetched and is not converted"), "{offset}");
        all.push_str(got.data["result"].as_str().unwrap());
        parts += 1;
        match got.data["nextOffset"].as_u64() {
            Some(next) => offset = next,
            None => break got.data["totalChars"].as_u64().unwrap(),
        }
    };
    assert_eq!(all.chars().count() as u64, total);
    let numbers: Vec<usize> = all
        .match_indices("**")
        .step_by(2)
        .filter_map(|(at, _)| all[at + 2..].split("**").next()?.parse().ok())
        .collect();
    assert!(5 < parts && 10_000 < numbers.len(), "{parts} {}", numbers.len());
    assert!(numbers.iter().copied().eq(0..numbers.len()), "each once, in order");
    assert_eq!(site.requests(), 1);
}
