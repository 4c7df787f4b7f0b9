//! Measures the web and language server tools: fetching a page of 1 MB from a local server, compared
//! with curl and an HTML parser; the time until a call reports that its language server is starting; and
//! the cost of waiting scheduled prompts. Run with `cargo xtask bench web`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark prints, and stops when something is wrong"
)]

use std::{
    collections::HashMap,
    ffi::OsString,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use haft_builtin_tools::{
    EditObserver, KnownShapes, NoEditObserver,
    edit::Edit,
    lsp::{Lsp, LspServers, ServerShell},
    read::{Read, ReadLimits},
    web_fetch::{WebFetch, WebServices, WebSettings},
};
use haft_lsp::{LspSettings, PoolLimits, ProgramPath, ServerPool};
use haft_net::{PrivateHosts, SystemNetwork, WebClient, WebLimits};
use haft_shell::{
    own::until_wall_clock,
    run::{Shell, ShellConfig, TaskRegistry},
};
use haft_tool::{
    AllowReason, CallContext, DynTool, GrantedPath, Permit, ProgressSink, UnrestrictedRead, erase,
};
use haft_workspace::{FullContextView, JournalLimits, SessionFiles, Workspace, WorkspaceConfig};
use html5ever::tendril::TendrilSink as _;
use markup5ever_rcdom::RcDom;
use serde_json::json;

const ROUNDS: usize = 21;

fn main() {
    haft_shell::own::adopt_orphans().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // Must run first, before anything else starts threads that wake up.
    waiting(&runtime);
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
    println!("a page of {} kB, median of {ROUNDS}", page.len() / 1024);
    memory(&runtime, port, page.len());
    pages(&runtime, port);
    runtime.block_on(cold_server());
    runtime.block_on(edits());
}

/// Measures by how much the peak memory of the process grows while a page is fetched.
fn memory(runtime: &tokio::runtime::Runtime, port: u16, bytes: usize) {
    let url = format!("http://127.0.0.1:{port}/");
    // Warm up lazily created values.
    runtime.block_on(fetch(&tool(port), &format!("{url}?small")));
    let before = kilobytes("VmRSS:");
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    runtime.block_on(fetch(&tool(port), &url));
    let more = kilobytes("VmHWM:").saturating_sub(before) * 1024;
    println!("  memory {:.1} of the body, the kept text included (goal 4)", more as f64 / bytes as f64);
}

fn kilobytes(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn pages(runtime: &tokio::runtime::Runtime, port: u16) {
    let (mut ours, mut kept, mut bare, mut converted) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
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
        let body = Command::new("curl").args(["-s", &url]).output().unwrap().stdout;
        let parsed = html5ever::parse_document(RcDom::default(), html5ever::ParseOpts::default())
            .one(std::str::from_utf8(&body).unwrap());
        bare.push(began.elapsed());
        assert!(parsed.errors.borrow().len() < body.len());
        let began = Instant::now();
        let body = plain(port);
        let result = mdream::html_to_markdown_result(&body, mdream::HtmlToMarkdownOptions::default());
        converted.push(began.elapsed());
        assert!(!result.markdown.is_empty());
    }
    let (ours, kept, bare, converted) = (median(ours), median(kept), median(bare), median(converted));
    let ratio = |to: Duration| ours.as_secs_f64() / to.as_secs_f64();
    println!("  WebFetch {ours:.1?}, curl and html5ever {bare:.1?}, ratio {:.2} (goal 3)", ratio(bare));
    println!("  against a socket and the converter alone {converted:.1?}: {:.2}", ratio(converted));
    println!("  the same from what is kept {kept:.1?} (goal 2 ms)");
}

/// Measures how soon a call reports that it waits for a server that does not answer yet.
async fn cold_server() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().canonicalize().unwrap().join("work");
    std::fs::create_dir_all(&work).unwrap();
    let mut times = Vec::new();
    for number in 0..9 {
        let mut config = ShellConfig::new(format!("bench-{number}"), dir.path().join("state"));
        config.capture = None;
        let tasks = TaskRegistry::new(Shell::open(config).unwrap());
        let said =
            json!({"slow": {"command": "sleep", "args": ["1000"], "extensionToLanguage": {".x": "text"}}});
        let mut settings = LspSettings::default();
        settings.read_servers(&said);
        let shell = Arc::new(ServerShell(Arc::clone(tasks.shell())));
        let path = std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect();
        let programs = ProgramPath { path, never: vec![work.clone()] };
        let pool = ServerPool::new(PoolLimits::default());
        let open = Box::new(move || Ok(Arc::clone(&shell)));
        let desk = LspServers::new(pool, open, Arc::new(move || settings.clone()), programs);
        let lsp = erase(Lsp::new(Arc::new(desk)));
        let file = work.join("a.x");
        std::fs::write(&file, "def a\n").unwrap();
        let (progress, mut events) = ProgressSink::channel();
        let cx = CallContext { progress, ..CallContext::detached("bench", &*work) };
        let input = json!({"operation": "hover", "filePath": "a.x", "line": 1, "symbol": "a"});
        let began = Instant::now();
        let call = lsp.parse(input, &cx).unwrap();
        let grant = GrantedPath { asked: file.clone(), real: file };
        #[expect(clippy::disallowed_methods, reason = "stands in for the permission engine")]
        let permit = Permit::issue(AllowReason::Mode, vec![grant], Arc::new(UnrestrictedRead));
        let running = tokio::spawn(call.run(permit, cx));
        assert!(events.recv().await.is_some());
        times.push(began.elapsed());
        running.abort();
        tasks.shell().owner().end(Duration::from_secs(1));
    }
    println!("a call for a language server that starts, says so after {:.1?} (goal 100 ms)", median(times));
}

/// Measures edits of a file that a language server knows and has nothing to report about, in a session
/// that can deliver diagnostics later; the baseline is edits of a file without a server.
async fn edits() {
    const EDITS: usize = 400;
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().canonicalize().unwrap();
    let work = place.join("work");
    std::fs::create_dir_all(&work).unwrap();
    let mut config = ShellConfig::new("bench-edits", place.join("state"));
    config.capture = None;
    let tasks = TaskRegistry::new(Shell::open(config).unwrap());
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../system/lsp/tests/all/support/fake_server.py");
    let said = json!({"fake": {"command": "python3", "args": [script.canonicalize().unwrap(), "--pull"],
        "extensionToLanguage": {".x": "text"}}});
    let mut settings = LspSettings::default();
    settings.read_servers(&said);
    let shell = Arc::new(ServerShell(Arc::clone(tasks.shell())));
    let path = std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect();
    let programs = ProgramPath { path, never: vec![work.clone()] };
    let open = Box::new(move || Ok(Arc::clone(&shell)));
    let pool = ServerPool::new(PoolLimits::default());
    let desk = Arc::new(LspServers::new(pool, open, Arc::new(move || settings.clone()), programs));
    desk.tell_with(Box::new(|said| assert_eq!(said, "", "the server says nothing")));
    let limits = JournalLimits::default();
    let config = WorkspaceConfig { state_dir: place.join("journal"), root: work.clone(), limits };
    let files =
        Arc::new(SessionFiles::new(Arc::new(Workspace::open(config).unwrap()), None, FullContextView));
    let edit = |news: Arc<dyn EditObserver>| {
        erase(Edit::new(Arc::clone(&files), Arc::new(KnownShapes)).with_news(news))
    };
    let (with, without) = (edit(Arc::clone(&desk) as _), edit(Arc::new(NoEditObserver)));
    let read = erase(Read::new(Arc::clone(&files), ReadLimits::default()));
    let lsp = erase(Lsp::new(Arc::clone(&desk)));
    for name in ["known.x", "unknown.x"] {
        std::fs::write(work.join(name), "def number_0\n").unwrap();
        granted(&read, &work, name, json!({"file_path": name})).await;
    }
    granted(&lsp, &work, "known.x", json!({"operation": "diagnostics", "filePath": "known.x"})).await;
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for number in 0..EDITS {
        for (tool, name, times) in [(&with, "known.x", &mut known), (&without, "unknown.x", &mut unknown)] {
            let input = json!({"file_path": name, "old_string": format!("number_{number}\n"),
                "new_string": format!("number_{}\n", number + 1)});
            let began = Instant::now();
            granted(tool, &work, name, input).await;
            times.push(began.elapsed());
        }
    }
    tasks.shell().owner().end(Duration::from_secs(1));
    let (known, unknown) = (median(known), median(unknown));
    let ratio = known.as_secs_f64() / unknown.as_secs_f64();
    println!("an edit of a file that a silent language server knows, in a session, median of {EDITS}");
    println!("  with it {known:.1?}, without {unknown:.1?}, ratio {ratio:.2} (goal 1.05)");
}

/// Runs a call with access to the file it needs.
async fn granted(tool: &Arc<dyn DynTool>, work: &Path, name: &str, input: serde_json::Value) {
    let cx = CallContext::detached("bench", work);
    let call = Arc::clone(tool).parse(input, &cx).unwrap();
    let grant = GrantedPath { asked: work.join(name), real: work.join(name) };
    #[expect(clippy::disallowed_methods, reason = "stands in for the permission engine")]
    let permit = Permit::issue(AllowReason::Mode, vec![grant], Arc::new(UnrestrictedRead));
    call.run(permit, cx).await.unwrap();
}

/// Counts how often the process wakes up while scheduled prompts wait for tomorrow. Runs longer than any
/// polling interval.
fn waiting(runtime: &tokio::runtime::Runtime) {
    const PROMPTS: usize = 50;
    const SECONDS: u64 = 40;
    let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
    let waiting: Vec<_> = (0..PROMPTS).map(|_| runtime.spawn(until_wall_clock(tomorrow))).collect();
    std::thread::sleep(Duration::from_secs(1));
    let before = wake_ups();
    std::thread::sleep(Duration::from_secs(SECONDS));
    // Threads that exit meanwhile are not counted.
    let more = |(thread, count): (OsString, u64)| count - before.get(&thread).copied().unwrap_or(0);
    let woken: u64 = wake_ups().into_iter().map(more).sum();
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    println!("{PROMPTS} prompts that wait for tomorrow: {woken} wake-ups in {SECONDS} s (goal 0)");
}

/// Returns the voluntary context switches of each thread of this process except the current one.
fn wake_ups() -> HashMap<OsString, u64> {
    let own = std::process::id().to_string();
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let of = |dir: &Path| -> Option<u64> {
        let status = std::fs::read_to_string(dir.join("status")).ok()?;
        status.lines().find_map(|it| it.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
    };
    let others = threads.filter(|it| it.file_name().to_str() != Some(&own));
    others.filter_map(|it| Some((it.file_name(), of(&it.path())?))).collect()
}

/// Returns a page as documentation has them: headings, text, links, tables, code.
fn page() -> String {
    let part = |number: usize| {
        format!(
            "<h2 id=\"s{number}\">Section {number}</h2><p>Some text with a <a href=\"/x/{number}\">link</a> and \
             <code>code</code>, <b>bold</b> and <i>more</i> of it, to be read by somebody.</p>\
             <pre><code class=\"language-rust\">fn f{number}() -> usize {{ {number} }}</code></pre>\
             <table><tr><th>a</th><th>b</th></tr><tr><td>{number}</td><td>x</td></tr></table>"
        )
    };
    let parts: String = (0..3_450).map(part).collect();
    format!("<!doctype html><html><head><title>Large</title></head><body><main>{parts}</main></body></html>")
}

fn serve(mut stream: TcpStream, page: &str) {
    let mut head = [0; 4096];
    let asked = stream.read(&mut head).unwrap_or(0);
    if asked == 0 {
        return;
    }
    let page = if head[..asked].starts_with(b"GET /?small") { "<p>small" } else { page };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        page.len()
    );
    stream.write_all(head.as_bytes()).ok();
    stream.write_all(page.as_bytes()).ok();
}

/// Fetches the body without any checks.
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
    let permit = Permit::issue(AllowReason::Mode, Vec::new(), Arc::new(UnrestrictedRead));
    call.run(permit, cx).await.unwrap().data["result"].as_str().unwrap().to_owned()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
