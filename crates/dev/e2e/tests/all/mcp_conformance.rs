//! Requirements of MCP users, one test each, with servers defined by data: schemas (7), names (17),
//! lifecycles (30), long calls (48), large results (49).
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use common::{Haft, text};
use haft_testkit::{MockModel, ReplyPiece, Script, Turn};
use serde_json::{Value, json};

fn support(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../engine/mcp-client/tests/all/support")
        .join(name)
        .display()
        .to_string()
}

/// Configures a server for the user, defined by `spec`.
fn add(haft: &Haft, name: &str, mut spec: Value, more: Value) {
    let file = haft.home().join(format!("{name}.spec"));
    spec["log"] = json!(haft.home().join(format!("{name}.log")));
    spec["pids"] = json!(haft.home().join(format!("{name}.pids")));
    std::fs::write(&file, spec.to_string()).unwrap();
    let mut entry = json!({"command": "python3", "args": ["-IS", support("spec_server.py"), file]});
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    haft.run(&["mcp", "remove", name], "");
    haft.ok(&["mcp", "add-json", "-s", "user", name, &entry.to_string()], "");
}

/// Messages a server received with this method.
fn heard(haft: &Haft, name: &str, method: &str) -> Vec<Value> {
    let log = std::fs::read_to_string(haft.home().join(format!("{name}.log"))).unwrap_or_default();
    let all = log.lines().map(|it| serde_json::from_str::<Value>(it).unwrap());
    all.filter(|it| it["method"] == method).collect()
}

fn tool(name: &str, schema: Value) -> Value {
    json!({"name": name, "description": format!("The tool {name}."), "inputSchema": schema})
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

/// Runs `haft -p` with a model that plays these turns.
async fn run(haft: &Haft, model: &MockModel, env: &[(&str, String)], args: &[&str]) -> Output {
    let mut command = haft.async_command();
    command.args(["-p", "go"]).args(args).stdin(Stdio::null()).kill_on_drop(true);
    if env.is_empty() {
        command.env("ANTHROPIC_BASE_URL", model.url())
    } else {
        command.envs(env.iter().map(|(name, value)| (*name, value)))
    };
    command.output().await.unwrap()
}

fn bodies(model: &MockModel) -> Vec<Value> {
    assert_eq!(model.refusals(), [""; 0], "the service took every request");
    model.requests().iter().map(|it| it.json()).collect()
}

/// Requirement 7: eight invalid schemas and three valid ones.
fn eleven() -> Value {
    let arm =
        |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    let node = json!({"type": "object", "properties": {
        "name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}});
    let mut bad_output = tool("bad_output", object(json!({"q": {"type": "string"}})));
    bad_output["outputSchema"] = json!({"type": "nonsense", "properties": 5, "required": "all"});
    json!([
        tool("union", json!({"anyOf": [arm("path"), arm("url")]})),
        tool(
            "conditional",
            json!({"type": "object", "properties": {"kind": {"type": "string"}, "size": {"type": "integer"}},
                "allOf": [{"if": {"properties": {"kind": {"const": "big"}}, "required": ["kind"]},
                    "then": {"required": ["size"]}}]})
        ),
        tool("tree", json!({"$ref": "#/$defs/node", "$defs": {"node": node}})),
        tool("bare", json!({"type": "string"})),
        tool("intish", object(json!({"n": {"type": "int"}}))),
        tool("nothing", Value::Null),
        tool("open", object(json!({"anything": true}))),
        bad_output,
        tool("good_one", object(json!({"a": {"type": "string"}}))),
        tool("good_two", object(json!({"b": {"type": "integer", "minimum": 1}}))),
        tool("good_three", object(json!({"c": {"enum": ["x", "y"]}}))),
    ])
}

#[tokio::test]
async fn bad_schemas_cost_only_themselves_with_every_provider() {
    let haft = Haft::new();
    add(&haft, "srv", json!({"tools": eleven()}), json!({"alwaysLoad": true}));
    let calls = [
        ("union", json!({"path": "a"})),
        ("union", json!({"url": "b"})),
        ("conditional", json!({"kind": "big", "size": 3})),
        ("tree", json!({"name": "root", "children": [{"name": "leaf", "children": []}]})),
        ("intish", json!({"n": 4})),
        ("nothing", json!({"whatever": [1, 2]})),
        ("open", json!({"anything": {"x": 1}})),
        ("bad_output", json!({"q": "x"})),
        ("good_one", json!({"a": "x"})),
        ("good_two", json!({"b": 2})),
        ("good_three", json!({"c": "y"})),
    ];
    let wrong = [
        ("union", json!({}), ["path", "url"]),
        ("union", json!({"path": {}, "url": []}), ["path", "url"]),
        ("conditional", json!({"kind": "big"}), ["size", "conditional"]),
    ];
    for form in ["messages", "chat", "responses"] {
        let all =
            calls.iter().map(|it| (it.0, it.1.clone())).chain(wrong.iter().map(|it| (it.0, it.1.clone())));
        let pieces = all.map(|(name, input)| ReplyPiece::tool(format!("mcp__srv__{name}"), input));
        let turns = vec![Turn::from_pieces(pieces.collect::<Vec<_>>()), Turn::text("Done.")];
        let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
        let env = match form {
            "messages" => Vec::new(),
            form => vec![
                ("OPENAI_BASE_URL", format!("{}/v1", model.url())),
                ("OPENAI_API_KEY", String::from("k")),
                ("HAFT_OPENAI_FORM", form.to_owned()),
                // The newest model takes tools only in the Responses form.
                ("OPENAI_MODEL", String::from("gpt-4.1")),
            ],
        };
        let output = run(&haft, &model, &env, &["--mcp-wait", "120", "--allowedTools", "mcp__srv"]).await;
        assert!(output.status.success(), "{form}: {output:?}");
        let bodies = bodies(&model);
        let tools = bodies[0]["tools"].to_string();
        for name in ["union", "conditional", "tree", "intish", "nothing", "open", "bad_output", "good_three"]
        {
            assert!(tools.contains(&format!("mcp__srv__{name}\"")), "{form}: no {name}");
        }
        assert!(!tools.contains("mcp__srv__bare"), "{form}");
        let said = bodies[1].to_string();
        for (name, input) in &calls {
            // The server got the model's input unchanged, whatever happened to the schema.
            let was_called =
                |it: &Value| it["params"]["name"] == *name && it["params"]["arguments"] == *input;
            assert!(heard(&haft, "srv", "tools/call").iter().any(was_called), "{form}: {name} {input}");
        }
        for (name, input, words) in &wrong {
            assert!(words.iter().all(|it| said.contains(it)), "{form}: {name} {input}");
        }
        assert_eq!(
            heard(&haft, "srv", "tools/call").len(),
            calls.len(),
            "{form}: what is wrong never got there"
        );
        std::fs::remove_file(haft.home().join("srv.log")).unwrap();
    }
}

#[test]
fn a_call_that_fits_no_arm_is_told_all_of_them() {
    let haft = Haft::new();
    add(&haft, "srv", json!({"tools": eleven()}), json!({}));
    let call = json!({"name": "mcp__srv__union", "input": {"other": 1}});
    let report = haft.reports(&["--allowedTools", "mcp__srv"], &[call]).remove(0);
    let said = text(&report);
    assert!(report["is_error"] == true && said.contains("`path`") && said.contains("`url`"), "{said}");
    // Everything that was left out is reported: the tool, the keyword, the reason.
    for args in [&["mcp", "get", "srv"][..], &["mcp", "doctor", "srv"], &["mcp", "doctor"]] {
        let shown = haft.ok(args, "");
        assert!(shown.contains("bare: type: its arguments are not an object but `string`"), "{shown}");
        for (name, words) in
            [("intish", "`\"type\": \"int\"`"), ("nothing", "inputSchema"), ("bad_output", "outputSchema")]
        {
            assert!(shown.lines().any(|it| it.contains(name) && it.contains(words)), "{name}: {shown}");
        }
    }
    assert!(haft.ok(&["mcp", "list"], "").contains("1 skipped"));
    let rows: Value = serde_json::from_str(&haft.ok(&["mcp", "list", "--json"], "")).unwrap();
    assert_eq!(rows[0]["skipped"][0]["name"], "bare");
}

/// Requirement 17.
const ID: &str = "6f1c9e0a-5b7d-4c3e-9a21-d84be1fb02c7";

fn named() -> Vec<String> {
    let long = "x".repeat(66);
    let names = ["slack_search_public_and_private", "a.b/c", "a_b_c", "Bash", "größe", "名前", "名称"];
    let long = [format!("{long}_first"), format!("{long}_second")];
    names.into_iter().map(str::to_owned).chain(long).collect()
}

#[tokio::test]
async fn names_fit_every_provider_and_lead_back_in_any_order() {
    let wire_names = async |haft: &Haft, reversed: bool, always: bool| {
        let mut tools: Vec<Value> = named().iter().map(|it| tool(it, object(json!({"v": {}})))).collect();
        if reversed {
            tools.reverse();
        }
        add(haft, ID, json!({"tools": tools}), json!({"alwaysLoad": always}));
        let model = MockModel::start(Script::from_turns([Turn::text("ok")])).await.unwrap();
        run(haft, &model, &[], &["--mcp-wait", "120"]).await;
        let body = bodies(&model).remove(0);
        let names =
            body["tools"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap().to_owned());
        names.filter(|it| it.starts_with("mcp__")).collect::<BTreeSet<String>>()
    };
    let haft = Haft::new();
    let first = wire_names(&haft, false, true).await;
    assert_eq!(first.len(), named().len(), "{first:?}");
    let legal =
        |it: &String| it.len() <= 64 && it.chars().all(|it| it.is_ascii_alphanumeric() || "_-".contains(it));
    assert!(first.iter().all(legal), "{first:?}");
    assert_eq!(wire_names(&haft, true, true).await, first, "another order, after a restart");
    assert_eq!(wire_names(&Haft::new(), true, true).await, first, "another home");
    // Each shortened name maps back to its tool, also through ToolSearch.
    add(
        &haft,
        ID,
        json!({"tools": named().iter().map(|it| tool(it, object(json!({"v": {}})))).collect::<Vec<_>>()}),
        json!({}),
    );
    let list = first.iter().cloned().collect::<Vec<_>>();
    let pieces: Vec<ReplyPiece> = list.iter().map(|it| ReplyPiece::tool(it, json!({}))).collect();
    let turns = vec![
        Turn::tool("ToolSearch", json!({"query": format!("select:{}", list.join(","))})),
        Turn::from_pieces(pieces),
        Turn::text("Done."),
    ];
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
    let rule = format!("mcp__{ID}");
    let output = run(&haft, &model, &[], &["--mcp-wait", "120", "--allowedTools", &rule]).await;
    assert!(output.status.success(), "{output:?}");
    let said = bodies(&model)[2]["messages"].to_string();
    assert!(!said.contains("\"is_error\":true"), "{said}");
    let called: BTreeSet<String> = heard(&haft, ID, "tools/call")
        .iter()
        .map(|it| it["params"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(called, named().into_iter().collect());
}

#[test]
fn rules_may_use_the_names_the_server_gave() {
    let haft = Haft::new();
    let tools: Vec<Value> = named().iter().map(|it| tool(it, json!({"type": "object"}))).collect();
    add(&haft, ID, json!({"tools": tools}), json!({}));
    let long = format!("{}_second", "x".repeat(66));
    for name in ["größe", "a.b/c", "名前", long.as_str(), "Bash"] {
        let full = format!("mcp__{ID}__{name}");
        let calls: Vec<Value> =
            named().iter().map(|it| json!({"name": format!("mcp__{ID}__{it}"), "input": {}})).collect();
        let allowed = haft.reports(&["--allowedTools", &full], &calls);
        for (other, report) in named().iter().zip(&allowed) {
            assert_eq!(report["is_error"] != true, other == name, "allow {name}, call {other}: {report}");
        }
        let whole = format!("mcp__{ID}");
        let denied = haft.reports(&["--allowedTools", &whole, "--disallowedTools", &full], &calls);
        for (other, report) in named().iter().zip(&denied) {
            assert_eq!(report["is_error"] == true, other == name, "deny {name}, call {other}: {report}");
        }
    }
}

/// Requirement 30: six servers with different lifecycles in one session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_servers_with_six_lives() {
    let haft = Haft::new();
    let echo = || tool("echo", object(json!({"text": {"type": "string"}})));
    let look = json!({"name": "look", "inputSchema": object(json!({"n": {}})), "annotations": {"readOnlyHint": true}});
    let go = haft.home().join("go").display().to_string();
    add(&haft, "instant", json!({"tools": [echo()]}), json!({}));
    add(&haft, "late", json!({"tools": [echo()], "wait_for": go}), json!({"startupTimeout": 120_000}));
    let never = haft.home().join("never").display().to_string();
    add(&haft, "never", json!({"tools": [echo()], "wait_for": never}), json!({"startupTimeout": 120_000}));
    add(
        &haft,
        "mortal",
        json!({"tools": [tool("die", object(json!({}))), look], "calls": {"die": {"die": true}}}),
        json!({}),
    );
    let web = Web::start(&haft);
    for path in ["mcp", "login"] {
        let name = if path == "mcp" { "web" } else { "locked" };
        haft.ok(&["mcp", "add", "-s", "user", "-t", "http", name, &format!("{}/{path}", web.url)], "");
    }
    let bash = |command: &str| Turn::tool("Bash", json!({"command": command}));
    let restart = format!("curl -s -X POST {}/restart", web.url);
    let turns = vec![
        Turn::from_pieces([
            ReplyPiece::tool("mcp__instant__echo", json!({"text": "1"})),
            ReplyPiece::tool("RefreshMcpTools", json!({"server": "web"})),
            ReplyPiece::tool("RefreshMcpTools", json!({"server": "mortal"})),
        ]),
        Turn::from_pieces([
            ReplyPiece::tool("mcp__web__echo", json!({})),
            ReplyPiece::tool("mcp__locked__echo", json!({})),
            ReplyPiece::tool("mcp__mortal__die", json!({})),
        ]),
        Turn::from_pieces([1, 2, 3].map(|n| ReplyPiece::tool("mcp__mortal__look", json!({"n": n})))),
        bash(&restart),
        Turn::from_pieces([1, 2].map(|n| ReplyPiece::tool("mcp__web__echo", json!({"text": n.to_string()})))),
        bash(&format!("touch {go}")),
        Turn::tool("RefreshMcpTools", json!({"server": "late"})),
        Turn::tool("mcp__late__echo", json!({"text": "at last"})),
        Turn::text("Done."),
    ];
    let model = MockModel::start(Script::from_turns(turns)).await.unwrap();
    let rules = "mcp__instant,mcp__late,mcp__mortal,mcp__web,mcp__locked,Bash(curl *),Bash(touch *)";
    let started = Instant::now();
    let first = async {
        while model.count() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        started.elapsed()
    };
    let args = ["--allowedTools", rules];
    let (output, first) = tokio::join!(run(&haft, &model, &[], &args), first);
    assert!(output.status.success(), "{output:?}");
    // Two servers take longer than two minutes; the first request did not wait for them.
    assert!(first < Duration::from_secs(100), "{first:?}");
    let bodies = bodies(&model);
    let last = |at: usize| bodies[at]["messages"].as_array().unwrap().last().unwrap().to_string();
    let system = bodies[0]["system"].to_string();
    assert!(system.contains("Still starting: ") && system.contains("never"), "{system}");
    assert!(last(2).contains("from the web") && last(2).contains("haft mcp login locked"), "{}", last(2));
    assert!(last(2).contains("outcome is unknown"), "{}", last(2));
    assert!(!last(3).contains("\"is_error\":true"), "three calls, one restart: {}", last(3));
    let pids = std::fs::read_to_string(haft.home().join("mortal.pids")).unwrap();
    assert_eq!(pids.lines().count(), 2, "started once and restarted once");
    assert!(!last(5).contains("\"is_error\":true") && last(5).contains("from the web"), "{}", last(5));
    let sessions = std::fs::read_to_string(haft.home().join("web.sessions")).unwrap();
    assert_eq!(sessions.lines().count(), 2, "one new session for both calls");
    let told = bodies[8]["messages"].to_string();
    assert!(told.contains("brought more tools") && told.contains("mcp__late__echo"), "{told}");
    assert!(last(8).contains("at last"), "{}", last(8));
}

struct Web {
    process: std::process::Child,
    url: String,
}

impl Web {
    fn start(haft: &Haft) -> Self {
        let mut process = Command::new("python3")
            .args(["-IS", &support("spec_http.py")])
            .env("SPEC_LOG", haft.home().join("web.sessions"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { process, url: format!("http://127.0.0.1:{}", line.trim()) }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Requirement 48, set in the configuration.
#[test]
fn long_calls_live_as_long_as_they_progress() {
    let haft = Haft::new();
    // Each server runs only into the intended limit, even on a busy machine. The one that succeeds comes
    // last: by then the others have been told of the cancellation.
    let rows = [
        ("silent", json!({"silent": true}), (1500, 60_000)),
        ("endless", json!({"progress": {"every": 0.25, "count": 100_000}}), (10_000, 12_000)),
        ("steady", json!({"progress": {"every": 0.5, "count": 20}}), (8000, 120_000)),
    ];
    for (name, how, (idle, whole)) in &rows {
        let spec = json!({"tools": [tool(name, object(json!({})))], "calls": {*name: how}});
        add(&haft, name, spec, json!({"idleTimeout": idle, "timeout": whole}));
    }
    let calls =
        rows.each_ref().map(|(name, ..)| json!({"name": format!("mcp__{name}__{name}"), "input": {}}));
    let reports = haft.reports(&["--allowedTools", "mcp__silent,mcp__endless,mcp__steady"], &calls);
    let (silent, endless) = (text(&reports[0]), text(&reports[1]));
    assert!(silent.contains("no progress for 1.5 s") && silent.contains("whole call is 60 s"), "{silent}");
    assert!(endless.contains("within 12 s") && endless.contains("silence is 10 s"), "{endless}");
    assert!(reports[2]["is_error"] != true, "{}", reports[2]);
    for (name, ..) in &rows {
        let calls = heard(&haft, name, "tools/call");
        assert!(calls.iter().all(|it| !it["params"]["_meta"]["progressToken"].is_null()), "{calls:?}");
        let ids: Vec<&Value> = calls.iter().filter(|_| *name != "steady").map(|it| &it["id"]).collect();
        let cancelled = heard(&haft, name, "notifications/cancelled");
        let withdrawn: Vec<&Value> = cancelled.iter().map(|it| &it["params"]["requestId"]).collect();
        assert_eq!(withdrawn, ids, "{name}: what ran out of time was withdrawn");
    }
}

/// An image of random noise, which does not compress.
fn picture(side: u32) -> Vec<u8> {
    let mut seed = 1_u32;
    let noise = image::RgbImage::from_fn(side, side, |_, _| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        image::Rgb([(seed >> 8) as u8, (seed >> 16) as u8, (seed >> 24) as u8])
    });
    let mut bytes = std::io::Cursor::new(Vec::new());
    noise.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    bytes.into_inner()
}

/// Files the session stored, with their bytes.
fn kept(haft: &Haft) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut todo = vec![haft.home().join(".haft/sessions")];
    while let Some(dir) = todo.pop() {
        for path in std::fs::read_dir(&dir).into_iter().flatten().flatten().map(|it| it.path()) {
            if path.is_dir() {
                todo.push(path)
            } else if path.to_string_lossy().contains("tool-results") {
                found.push((path.clone(), std::fs::read(&path).unwrap()));
            }
        }
    }
    found
}

/// Requirement 49: large results are stored whole and once, and can be read in parts.
#[test]
fn large_results_are_kept_whole_and_once() {
    let png = picture(1200);
    assert!(4_000_000 < png.len());
    let encoded = BASE64_STANDARD.encode(&png);
    let line = json!((0..6000).map(|n| json!({"number": n, "text": "ü".repeat(20)})).collect::<Vec<_>>());
    let data = json!({"rows": (0..9000).map(|n| json!([n, "value"])).collect::<Vec<_>>()});
    let blocks: Vec<Value> =
        (0..40).map(|n| json!({"type": "text", "text": format!("block {n} {}", "y".repeat(8000))})).collect();
    let say = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    let failed = json!({"isError": true, "content": [{"type": "text", "text": format!("disk full: {}", "z".repeat(300_000))}]});
    for (name, result, want) in [
        ("line", say(&line.to_string()), line.to_string().into_bytes()),
        (
            "image",
            json!({"content": [{"type": "image", "mimeType": "image/png", "data": encoded}]}),
            png.clone(),
        ),
        ("uri", say(&format!("data:image/png;base64,{encoded}")), png.clone()),
        ("error", failed, format!("disk full: {}", "z".repeat(300_000)).into_bytes()),
        (
            "audio",
            json!({"content": [{"type": "audio", "mimeType": "audio/wav", "data": encoded}]}),
            png.clone(),
        ),
        (
            "blob",
            json!({"content": [{"type": "resource", "resource": {"uri": "x://y", "mimeType": "application/zip", "blob": encoded}}]}),
            png.clone(),
        ),
        (
            "structured",
            json!({"content": [], "structuredContent": data}),
            serde_json::to_vec_pretty(&data).unwrap(),
        ),
        (
            "blocks",
            json!({"content": blocks}),
            blocks.iter().map(|it| it["text"].as_str().unwrap()).collect::<Vec<_>>().join("\n").into_bytes(),
        ),
    ] {
        let haft = Haft::new();
        let file = haft.home().join("result");
        std::fs::write(&file, result.to_string()).unwrap();
        let spec = json!({"tools": [tool("get", object(json!({})))], "calls": {"get": {"file": file}}});
        add(&haft, "srv", spec, json!({}));
        let call = json!({"name": "mcp__srv__get", "input": {}});
        let report = haft.reports(&["--allowedTools", "mcp__srv"], &[call]).remove(0);
        let shown: String =
            report["content"].as_array().unwrap().iter().filter_map(|it| it["text"].as_str()).collect();
        assert!(shown.len() < 110_000, "{name}: {} characters", shown.len());
        let files = kept(&haft);
        assert_eq!(files.len(), 1, "{name}: {:?}", files.iter().map(|it| &it.0).collect::<Vec<_>>());
        let (path, bytes) = &files[0];
        assert!(*bytes == want, "{name}: {} bytes, not {}", bytes.len(), want.len());
        assert!(
            shown.contains(&path.display().to_string()),
            "{name}: {}",
            haft_types::text::head(&shown, 500)
        );
        let has_picture = report["content"].as_array().unwrap().iter().any(|it| it["type"] == "image");
        assert_eq!(has_picture, matches!(name, "image" | "uri" | "audio" | "blob"), "{name}");
        if name == "error" {
            assert!(report["is_error"] == true && shown.starts_with("disk full: zzz"), "{name}");
        }
        if matches!(name, "line" | "structured" | "blocks" | "error") {
            let read = json!({"name": "Read", "input": {"file_path": path}});
            let page = haft.reports(&["--allowedTools", "Read"], &[read]).remove(0);
            assert!(page["is_error"] != true, "{name}: {}", haft_types::text::head(text(&page), 500));
        }
    }
}

#[test]
fn links_say_how_to_read_on() {
    let haft = Haft::new();
    let link = json!({"content": [{"type": "resource_link", "uri": "db://rows/7", "name": "row seven", "mimeType": "text/csv", "size": 1234}]});
    let spec = json!({"tools": [tool("get", object(json!({})))], "calls": {"get": {"result": link}}});
    add(&haft, "srv", spec, json!({}));
    let call = json!({"name": "mcp__srv__get", "input": {}});
    let report = haft.reports(&["--allowedTools", "mcp__srv"], &[call]).remove(0);
    let said = text(&report);
    for word in ["row seven", "db://rows/7", "text/csv", "1234 bytes", "ReadMcpResource", "\"srv\""] {
        assert!(said.contains(word), "{word}: {said}");
    }
}
