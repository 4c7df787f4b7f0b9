//! `cargo xtask session-log FILE [MB]`: generates the deterministic log of a long session.

use std::{
    fs,
    io::{BufWriter, Write as _},
    path::Path,
};

use serde_json::{Value, json};

/// Default size in megabytes.
const USUAL: u64 = 100;

/// Length of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LogLength {
    /// This many bytes, with results of typical sizes.
    Bytes(u64),
    /// This many calls, with small results.
    Calls(u64),
}

/// Writes the log described by the arguments.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let Some(file) = words.first() else {
        return Err(String::from("cargo xtask session-log FILE [MB]"));
    };
    let megabytes = match words.get(1) {
        Some(text) => text.parse().map_err(|_| format!("{text} is no number of megabytes"))?,
        None => USUAL,
    };
    let calls = append_session(Path::new(file), LogLength::Bytes(megabytes << 20))?;
    println!("{file}: {calls} calls");
    Ok(())
}

/// Appends a session to a file, which is created if necessary. Returns the number of calls.
pub(crate) fn append_session(file: &Path, length: LogLength) -> Result<u64, String> {
    let opened = fs::OpenOptions::new().create(true).append(true).open(file);
    let mut out = BufWriter::new(opened.map_err(|err| format!("{}: {err}", file.display()))?);
    let (mut call, mut written) = (0, 0);
    while match length {
        LogLength::Bytes(most) => written < most,
        LogLength::Calls(most) => call < most,
    } {
        for line in call_lines(call, length) {
            let line = format!("{line}\n");
            out.write_all(line.as_bytes()).map_err(|err| format!("{}: {err}", file.display()))?;
            written += line.len() as u64;
        }
        call += 1;
    }
    out.flush().map_err(|err| format!("{}: {err}", file.display()))?;
    Ok(call)
}

/// Returns the lines for a call: with a prompt before every fortieth, text before every fourth, thinking
/// before every seventh.
fn call_lines(call: u64, length: LogLength) -> Vec<Value> {
    let line = |kind: &str, content: Value| {
        json!({"type": kind, "uuid": format!("{kind}-{call}"), "parentUuid": null, "sessionId": "bench", "cwd": "/x",
            "version": "1", "isSidechain": false, "timestamp": moment(call), "message": message(kind, call, &content)})
    };
    let mut lines = Vec::new();
    if call.is_multiple_of(40) {
        lines.push(line("user", json!(format!("Prompt before call {call}: look at part {}.", call % 97))));
    }
    if call.is_multiple_of(7) {
        let thought = json!([{"type": "thinking", "thinking": prose(call, 60), "signature": "s"}]);
        lines.push(line("assistant", thought));
    }
    if call.is_multiple_of(4) {
        let words = format!("## Step {call}\n\n{}\n\n- `a` and **b**\n- c\n", prose(call, 40));
        lines.push(line("assistant", json!([{"type": "text", "text": words}])));
    }
    let (name, input) = match call % 4 {
        0 => ("Read", json!({"file_path": format!("/x/src/part_{}.rs", call % 311)})),
        1 => ("Bash", json!({"command": format!("cargo test -p part-{}", call % 53), "description": "Test"})),
        2 => ("Grep", json!({"pattern": format!("needle{call}")})),
        _ => ("Glob", json!({"pattern": format!("src/{}/**/*.rs", call % 29)})),
    };
    let id = format!("call_{call}");
    lines.push(line("assistant", json!([{"type": "tool_use", "id": id, "name": name, "input": input}])));
    let rows = match length {
        LogLength::Bytes(_) if call % 500 == 3 => 4_000,
        LogLength::Bytes(_) => 20 + call % 180,
        LogLength::Calls(_) => 8,
    };
    let result: String = (0..rows).map(|row| format!("{row:>5}\t{}\n", prose(call + row, 9))).collect();
    lines.push(line("user", json!([{"type": "tool_result", "tool_use_id": id, "content": result}])));
    let micros = json!({"queue": 20, "hooks": 0, "permission": 90, "run": 1_000 * (call % 700), "after": 30});
    lines.push(json!({"type": "haft", "kind": "call", "call": id, "tool": name, "agent": "main",
        "timestamp": moment(call), "micros": micros, "decision": {"behavior": "allow", "source": "mode", "reason": "it reads"}}));
    lines
}

fn message(kind: &str, call: u64, content: &Value) -> Value {
    match kind {
        "assistant" => {
            json!({"role": kind, "id": format!("m{call}"), "model": "claude-opus-4-5", "content": content,
            "usage": {"input_tokens": 12, "output_tokens": 60, "cache_read_input_tokens": 20_000 + call % 90_000}})
        }
        _ => json!({"role": kind, "content": content}),
    }
}

/// Generates words from a seed.
fn prose(seed: u64, words: u64) -> String {
    const WORDS: [&str; 16] = [
        "the", "index", "of", "a", "parser", "reads", "lines", "before", "tests", "and", "rows", "with",
        "borrowed", "strings", "where", "nothing",
    ];
    let mut number = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut text = String::new();
    for _ in 0..words {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        text.push_str(WORDS[(number % WORDS.len() as u64) as usize]);
        text.push(' ');
    }
    text
}

/// Returns the timestamp of a call; two seconds per call.
fn moment(call: u64) -> String {
    let seconds = call * 2;
    let (day, hour, minute) = (1 + seconds / 86_400 % 28, seconds / 3_600 % 24, seconds / 60 % 60);
    format!("2026-11-{day:02}T{hour:02}:{minute:02}:{:02}.000Z", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_log_has_requested_length_and_is_deterministic() {
        let dir = std::env::temp_dir().join(format!("haft-session-log-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let [one, two, few] = ["one", "two", "few"].map(|name| dir.join(name));
        append_session(&one, LogLength::Bytes(3 << 20)).unwrap();
        append_session(&two, LogLength::Bytes(3 << 20)).unwrap();
        assert_eq!(append_session(&few, LogLength::Calls(90)), Ok(90));
        let [one, two, few] = [one, two, few].map(|file| fs::read_to_string(file).unwrap());
        fs::remove_dir_all(&dir).unwrap();
        assert!(one == two && (3 << 20) <= one.len() && one.len() < (4 << 20), "{}", one.len());
        assert_eq!(few.matches("\"tool_use\"").count(), 90);
        for line in one.lines() {
            assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
        }
    }
}
