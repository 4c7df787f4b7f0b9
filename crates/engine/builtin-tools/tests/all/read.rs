//! Read: a large file yields pages, never an error.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::file_rig;

use std::{sync::atomic::Ordering, time::Duration};

use file_rig::Rig;
use haft_builtin_tools::read::ReadLimits;
use haft_tool::CallContext;
use haft_types::AgentId;
use serde_json::{Value, json};

fn lines(from: usize, to: usize) -> String {
    (from..=to).map(|n| format!("line {n}\n")).collect()
}

#[tokio::test]
async fn read_shows_numbered_lines() {
    let rig = Rig::new(&[
        ("plain", "one\ntwo\n\nfour"),
        ("empty", ""),
        ("crlf", "one\r\ntwo\r\n"),
        ("blank", "\n"),
        ("page.html.png", "<html>\n"),
        ("pic.svg", "<svg>\n</svg>\n"),
        ("hundred", &lines(1, 100)),
    ]);
    let rows = [
        (json!({ "file_path": "plain" }), "1\tone\n2\ttwo\n3\t\n4\tfour"),
        (
            json!({ "file_path": "plain", "offset": 2, "limit": 1 }),
            "2\ttwo\n[lines 2-2 of 4. Continue with offset=3]",
        ),
        (json!({ "file_path": "plain", "offset": "4", "limit": "9" }), "4\tfour"),
        (json!({ "file_path": "plain", "offset": 0 }), "1\tone\n2\ttwo\n3\t\n4\tfour"),
        (
            json!({ "file_path": "plain", "offset": 9 }),
            "[The file has only 4 lines; offset 9 is past its end.]",
        ),
        (json!({ "file_path": "plain", "offset": -2 }), "3\t\n4\tfour"),
        (json!({ "file_path": "plain", "offset": -99 }), "1\tone\n2\ttwo\n3\t\n4\tfour"),
        (
            json!({ "file_path": "plain", "offset": 1, "limit": 1, "column": 3 }),
            "1\te\n[lines 1-1 of 4. Continue with offset=2]",
        ),
        (json!({ "file_path": "empty" }), "[The file is empty.]"),
        (json!({ "file_path": "blank" }), "1\t"),
        (json!({ "file_path": "crlf" }), "1\tone\n2\ttwo\n[Encoding: UTF-8, CRLF. Edit and Write keep it.]"),
        (json!({ "file_path": "page.html.png" }), "1\t<html>\n[The name says png, but this is text.]"),
        (json!({ "file_path": "pic.svg" }), "1\t<svg>\n2\t</svg>"),
        (json!({ "file_path": "hundred", "offset": -1 }), "100\tline 100"),
    ];
    for (input, want) in rows {
        assert_eq!(rig.say("Read", input.clone()).await, want, "{input}");
    }
    let output = rig.run("Read", json!({ "file_path": "plain" })).await.unwrap();
    assert_eq!(output.data["type"], "text");
    let file = &output.data["file"];
    assert_eq!(
        (&file["numLines"], &file["startLine"], &file["totalLines"]),
        (&json!(4), &json!(1), &json!(4))
    );
    assert_eq!(file["content"], "one\ntwo\n\nfour");
    assert_eq!(output.meta.unwrap()["haft/seen"]["count"], 4);
}

#[tokio::test]
async fn read_errors_name_the_next_step() {
    let rig = Rig::new(&[("dir/README.md", "x")]);
    rustix::fs::mkfifoat(rustix::fs::CWD, rig.path("fifo"), rustix::fs::Mode::RUSR).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(rig.path("sock")).unwrap();
    for (input, parts) in [
        (json!({ "file_path": "dir" }), &["is a directory", "LS"][..]),
        (json!({ "file_path": "~" }), &["is a directory"]),
        (json!({ "file_path": "fifo" }), &["named pipe"]),
        (json!({ "file_path": "sock" }), &["socket"]),
        (json!({ "file_path": "/dev/zero" }), &["a device"]),
        (json!({ "file_path": "/proc/cpuinfo" }), &["kernel interface"]),
        (json!({ "file_path": "dir/readme" }), &["does not exist", "Did you mean $WS/dir/README.md?"]),
        (json!({ "file_path": "nowhere/x" }), &["does not exist", "Glob"]),
        (json!({ "file_path": "dir/README.md/x" }), &["not a directory"]),
        (json!({ "file_path": "" }), &["empty"]),
        (json!({ "file_path": "dir/README.md\u{0}.txt" }), &["NUL"]),
        (json!({ "file_path": "dir/README.md\n" }), &["does not exist"]),
        (json!({ "file_path": "dir/README.md", "pages": "1" }), &["not a PDF"]),
        (json!({ "file_path": "x", "pages": "5-3" }), &["reversed"]),
        (json!({ "file_path": "x", "limit": 0 }), &["limit"]),
    ] {
        let said =
            tokio::time::timeout(Duration::from_secs(100), rig.say("Read", input.clone())).await.unwrap();
        assert!(said.starts_with("error: "), "{input}: {said}");
        for part in parts {
            assert!(said.contains(part), "{input}: {said}");
        }
    }
}

#[tokio::test]
async fn binary_files_are_described() {
    let rig = Rig::new(&[]);
    rig.put("a.out", b"\x7fELF\x02\x01\x01\0\0\0\0\0");
    rig.put("x.zip", b"PK\x03\x04\x14\0\0\0");
    rig.put("data.bin", [0, 1, 2, 3, 250, 251]);
    for (name, want) in
        [("a.out", "an ELF executable"), ("x.zip", "a ZIP archive"), ("data.bin", "unknown type")]
    {
        let said = rig.read(name).await;
        assert!(said.contains(want) && said.contains("First bytes:\n00000000  "), "{said}");
    }
}

/// Follows the continuation notes to the end and joins the lines.
async fn read_through(rig: &Rig, path: &str, width_of: impl Fn(usize) -> usize) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    let mut input = json!({ "file_path": path });
    for _ in 0..10_000 {
        let output = rig.run("Read", input.clone()).await.unwrap();
        let text = output.content.to_text();
        let column = input["column"].as_u64();
        let mut next = None;
        for line in text.lines() {
            if let Some(notice) = line.strip_prefix('[') {
                let value = |key: &str| -> Option<u64> {
                    let rest = notice.split_once(key)?.1;
                    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
                    digits.parse().ok()
                };
                assert!(
                    !notice.starts_with("Line"),
                    "lines here are cut only when they fill the page: {notice}"
                );
                next = value("offset=").map(|offset| (offset, value("column=")));
                continue;
            }
            let (number, line) = line.split_once('\t').unwrap();
            let number: usize = number.parse().unwrap();
            if seen.len() < number {
                seen.push(String::new());
                assert_eq!(seen.len(), number, "no gap");
            } else {
                assert!(column.is_some() && number == seen.len(), "no overlap");
            }
            seen[number - 1].push_str(line);
        }
        match next {
            Some((offset, column)) => {
                input = json!({ "file_path": path, "offset": offset, "column": column })
            }
            None => break,
        }
    }
    for (at, line) in seen.iter().enumerate() {
        assert_eq!(line.chars().count(), width_of(at), "line {}", at + 1);
    }
    seen
}

#[tokio::test]
async fn pages_together_are_the_whole_file() {
    let limits = ReadLimits { max_tokens: 500, max_lines: 100, ..ReadLimits::default() };
    let rig = Rig::with_limits(&[("many", &lines(1, 950))], limits);
    let all = read_through(&rig, "many", |at| format!("line {}", at + 1).len()).await;
    assert_eq!(all.join("\n") + "\n", lines(1, 950));
    // All pages together are the whole file.
    rig.run("Write", json!({ "file_path": "many", "content": "new\n" })).await.unwrap();
    let first = rig.say("Read", json!({ "file_path": "many" })).await;
    assert_eq!(first, "1\tnew");
}

#[tokio::test]
async fn one_long_line_is_read_by_column() {
    let limits = ReadLimits { max_tokens: 2000, max_lines: 100, ..ReadLimits::default() };
    let rig = Rig::with_limits(&[], limits);
    for (name, text) in
        [("ascii", "x".repeat(60_000)), ("wide", "日é".repeat(8_000)), ("large", "y€".repeat(3_000_000))]
    {
        rig.put(name, &text);
        let wanted = text.chars().count();
        if name == "large" {
            // Too many pages to follow; check their boundaries instead.
            let first = rig.read(name).await;
            let column: u64 = first.rsplit_once("column=").unwrap().1.trim_end_matches(']').parse().unwrap();
            let shown = first.lines().next().unwrap().chars().count() as u64 - 2;
            assert_eq!(column, shown + 1);
            let next = rig.say("Read", json!({ "file_path": name, "offset": 1, "column": column })).await;
            let expected: String = text.chars().skip(shown as usize).take(100).collect();
            assert!(next.starts_with(&format!("1\t{expected}")), "{}", &next[..200]);
            continue;
        }
        let all = read_through(&rig, name, |_| wanted).await;
        assert_eq!(all, [text]);
    }
    // Next to others, a long line is cut, with a note.
    rig.put("mixed", format!("short\n{}\nend\n", "z".repeat(5000)));
    let said = rig.read("mixed").await;
    assert!(said.contains("3\tend"), "{said}");
    assert!(
        said.contains("[Line 2 is cut: 3,000 more characters; continue with offset=2 column=2001]"),
        "{said}"
    );
    let rest =
        rig.say("Read", json!({ "file_path": "mixed", "offset": 2, "limit": 1, "column": 2001 })).await;
    assert!(rest.starts_with(&format!("2\t{}", "z".repeat(3000))), "{rest}");
}

#[tokio::test]
async fn large_files_are_streamed() {
    let rig = Rig::new(&[]);
    let text = lines(1, 1_200_000);
    assert!(8 * 1024 * 1024 < text.len());
    rig.put("big", &text);
    let said = rig.say("Read", json!({ "file_path": "big", "offset": 1_100_000, "limit": 2 })).await;
    assert_eq!(
        said,
        "1100000\tline 1100000\n1100001\tline 1100001\n[lines 1100000-1100001 of 1200000. Continue with offset=1100002]"
    );
    let said = rig.say("Read", json!({ "file_path": "big", "offset": -2 })).await;
    assert_eq!(said, "1199999\tline 1199999\n1200000\tline 1200000");
    let said = rig.say("Read", json!({ "file_path": "big", "offset": 2_000_000 })).await;
    assert!(said.contains("only 1200000 lines"), "{said}");
    let said = rig.read("big").await;
    assert!(said.contains("[PARTIAL view: lines 1-2000 of 1200000. Continue with offset=2001]"), "{said}");
    // Other encodings are detected wherever they show.
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(b"caf\xe9 cr\xe8me\n");
    rig.put("latin", &bytes);
    let said = rig.say("Read", json!({ "file_path": "latin", "offset": -1 })).await;
    assert!(said.starts_with("1200001\tcafé crème\n[Encoding: windows-1252"), "{said}");
}

#[tokio::test]
async fn unchanged_reply_requires_the_earlier_read_in_context() {
    let rig = Rig::new(&[("f", &lines(1, 80))]);
    let read = |from: u64, limit: u64| json!({ "file_path": "f", "offset": from, "limit": limit });
    let is_stub = |said: &str| said.contains("has not changed");
    rig.in_context.store(true, Ordering::Relaxed);
    assert!(!is_stub(&rig.read("f").await));
    let output = rig.run("Read", json!({ "file_path": "f" })).await.unwrap();
    assert_eq!(output.data["type"], "file_unchanged");
    assert!(is_stub(&output.content.to_text()) && output.content.to_text().contains("call-0"));
    assert!(is_stub(&rig.say("Read", read(10, 5)).await));
    // Another agent has not read it.
    let other = CallContext { agent_id: AgentId::from("child"), ..rig.context() };
    let said = rig.run_as(other, "Read", json!({ "file_path": "f" })).await.unwrap();
    assert_eq!(said.data["type"], "text");
    // Removed from the conversation by compaction: shown in full once.
    rig.in_context.store(false, Ordering::Relaxed);
    assert!(!is_stub(&rig.read("f").await));
    rig.in_context.store(true, Ordering::Relaxed);
    assert!(is_stub(&rig.read("f").await));
    // Same size and timestamps, different content.
    let times = std::fs::metadata(rig.path("f")).unwrap().modified().unwrap();
    rig.put("f", lines(1, 80).replace("line 7\n", "LINE 7\n"));
    std::fs::File::options().write(true).open(rig.path("f")).unwrap().set_modified(times).unwrap();
    assert!(!is_stub(&rig.read("f").await));
    // With ranges, only the lines shown count as seen.
    rig.put("f", lines(101, 180));
    assert!(!is_stub(&rig.say("Read", read(1, 50)).await));
    assert!(!is_stub(&rig.say("Read", read(30, 50)).await));
    assert!(is_stub(&rig.say("Read", read(30, 50)).await));
    // Changed and changed back: shown, and counted as seen.
    let before = rig.get("f");
    rig.put("f", "other\n");
    assert!(!is_stub(&rig.read("f").await));
    rig.put("f", &before);
    assert!(!is_stub(&rig.say("Read", read(1, 50)).await));
    rig.run("Edit", json!({ "file_path": "f", "old_string": "line 109", "new_string": "y" })).await.unwrap();
    // An edit after compaction needs no new Read.
    rig.in_context.store(false, Ordering::Relaxed);
    rig.run("Edit", json!({ "file_path": "f", "old_string": "line 110", "new_string": "x" })).await.unwrap();
}

#[tokio::test]
async fn listeners_receive_read_and_change_events() {
    let rig = Rig::new(&[("f", "x\n")]);
    let (sender, heard) = std::sync::mpsc::channel();
    rig.files.reads().listen(move |event| sender.send(format!("{event:?}")).unwrap());
    rig.read("f").await;
    rig.run("Edit", json!({ "file_path": "f", "old_string": "x", "new_string": "y" })).await.unwrap();
    let events: Vec<String> = heard.try_iter().collect();
    assert_eq!(events.len(), 2);
    assert!(events[0].starts_with("Read") && events[1].starts_with("Changed"), "{events:?}");
}

#[tokio::test]
async fn notebooks_are_shown_with_their_outputs() {
    let notebook = json!({
        "nbformat": 4, "nbformat_minor": 5,
        "metadata": { "language_info": { "name": "python" } },
        "cells": [
            { "cell_type": "markdown", "id": "intro", "metadata": {}, "source": ["# Title\n", "text"] },
            { "cell_type": "code", "id": "c1", "metadata": {}, "execution_count": 1, "source": "print(1)",
              "outputs": [
                { "output_type": "stream", "name": "stdout", "text": ["1\n"] },
                { "output_type": "error", "ename": "E", "evalue": "bad", "traceback": ["\u{1b}[31mTrace\u{1b}[0m", "E: bad"] },
                { "output_type": "display_data", "data": { "text/plain": "<fig>", "image/png": "iVBORw0K\n" } },
              ] },
            { "cell_type": "code", "metadata": {}, "source": [], "outputs": [] },
        ],
    });
    let rig = Rig::new(&[("n.ipynb", &notebook.to_string()), ("not.ipynb", "hello\n")]);
    let output = rig.run("Read", json!({ "file_path": "n.ipynb" })).await.unwrap();
    assert_eq!(output.data["type"], "notebook");
    assert_eq!(output.data["file"]["cells"][1]["outputs"][0]["text"], "1\n");
    let text = output.content.to_text();
    for part in [
        "<cell id=\"intro\" type=\"markdown\">\n# Title\ntext\n</cell>",
        "<cell id=\"c1\" type=\"code\" language=\"python\">\nprint(1)\n</cell>\n<output>\n1\n</output>",
        "<output>\nTrace\nE: bad\n</output>",
        "<output>\n<fig>\n[image/png is not shown: ",
        "<cell id=\"cell-2\"",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(rig.read("not.ipynb").await, "1\thello");
    // Long notebooks are shown in pages of cells.
    let cells: Vec<Value> = (0..50)
        .map(|n| json!({ "cell_type": "code", "id": format!("c{n}"), "metadata": {}, "source": "x = 1\n".repeat(400), "outputs": [] }))
        .collect();
    let long = json!({ "nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells });
    rig.put("long.ipynb", long.to_string());
    let said = rig.read("long.ipynb").await;
    assert!(said.contains("[PARTIAL view: cells 1-"), "{}", &said[said.len() - 200..]);
}

#[tokio::test]
async fn malformed_notebooks_have_bounded_output() {
    let limits = ReadLimits { max_tokens: 2000, max_lines: 100, ..ReadLimits::default() };
    let rig = Rig::with_limits(&[], limits);
    let cell = |source: Value, outputs: Value| json!({ "cell_type": "code", "id": "x", "source": source, "outputs": outputs, "metadata": {} });
    let notebook = |cells: Value| json!({ "cells": cells, "metadata": {}, "nbformat": 4 }).to_string();
    let stream = json!({ "output_type": "stream", "text": "o".repeat(900) });
    let long_id =
        json!([{ "id": format!("\"><{}", "i".repeat(5000)), "cell_type": "t".repeat(5000), "source": 7 }]);
    let nested = format!("{{\"cells\": {}{}}}", "[".repeat(50_000), "]".repeat(50_000));
    let rows = [
        ("long source", notebook(json!([cell(json!("y".repeat(500_000)), json!([]))])), "is cut"),
        ("many outputs", notebook(json!([cell(json!("a"), json!(vec![stream; 500]))])), "more outputs"),
        ("many cells", notebook(json!(vec![json!(0); 100_000])), "of 100000. Continue with offset="),
        ("odd shapes", notebook(json!([1, null, "x", [], { "source": {}, "outputs": 5 }])), "cell-0"),
        ("long ids", notebook(long_id), "id=\"___iii"),
        ("cells of another kind", json!({ "cells": {} }).to_string(), "1\t{"),
        ("deep", nested, "cannot be read: recursion limit"),
        ("twice", String::from("{\"cells\": [], \"cells\": []}"), "1\t{"),
    ];
    for (name, text, want) in rows {
        rig.put("n.ipynb", text);
        let said = rig.read("n.ipynb").await;
        assert!(said.contains(want), "{name}: {}", &said[..said.len().min(400)]);
        assert!(said.len() < 12_000, "{name}: {}", said.len());
    }
    // A notebook that was not shown in full must not be overwritten.
    rig.put("n.ipynb", notebook(json!([cell(json!("y".repeat(500_000)), json!([]))])));
    rig.read("n.ipynb").await;
    let said = rig.say("Write", json!({ "file_path": "n.ipynb", "content": "{}\n" })).await;
    assert!(said.starts_with("error: "), "{said}");
    for input in [json!({ "offset": i64::MAX }), json!({ "limit": u64::MAX }), json!({ "offset": i64::MIN })]
    {
        let mut input = input;
        input["file_path"] = json!("n.ipynb");
        assert!(!rig.say("Read", input).await.is_empty());
    }
}
