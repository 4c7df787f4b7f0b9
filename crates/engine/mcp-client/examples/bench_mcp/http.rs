//! Servers over HTTP, both protocol generations, one client and many.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::json;

use super::{Outcome, goal, median, neighbour, say, times as repeated};

const CALLS: usize = 3000;
const CLIENTS: usize = 16;
const LOAD: Duration = Duration::from_secs(3);

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A minimal keep-alive client.
struct Connection {
    write: TcpStream,
    read: BufReader<TcpStream>,
    request: String,
}

impl Connection {
    fn open(address: &str, request: &str) -> Outcome<Self> {
        let write = TcpStream::connect(address)?;
        write.set_nodelay(true)?;
        let read = BufReader::new(write.try_clone()?);
        Ok(Self { write, read, request: request.to_owned() })
    }

    fn call(&mut self) -> Outcome<Duration> {
        let started = Instant::now();
        self.write.write_all(self.request.as_bytes())?;
        let (status, body) = self.answer()?;
        if status != 200 || !body.contains("hello") {
            return Err(format!("{status}: {body}").into());
        }
        Ok(started.elapsed())
    }

    fn answer(&mut self) -> Outcome<(u16, String)> {
        let (mut status, mut length, mut line) = (0, 0, String::new());
        loop {
            line.clear();
            self.read.read_line(&mut line)?;
            let text = line.trim_end().to_ascii_lowercase();
            if let Some(rest) = text.strip_prefix("http/1.1 ") {
                status = rest.split(' ').next().unwrap_or_default().parse()?;
            } else if let Some(value) = text.strip_prefix("content-length: ") {
                length = value.parse()?;
            } else if text.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.read.read_exact(&mut body)?;
        Ok((status, String::from_utf8(body)?))
    }
}

fn request(address: &str) -> String {
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": "hello"}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }},
    })
    .to_string();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
         mcp-method: tools/call\r\nmcp-name: echo\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub(super) fn run() -> Outcome<()> {
    let mut child =
        Command::new(neighbour("tool_server")?).arg("127.0.0.1:0").stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take();
    let _running = Running(child);
    let mut url = String::new();
    BufReader::new(output.ok_or("no output")?).read_line(&mut url)?;
    let address = url.trim().trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    let request = request(&address);
    let mut times = Vec::new();
    let mut one = Connection::open(&address, &request)?;
    for _ in 0..repeated(CALLS) {
        times.push(one.call()?);
    }
    say("over HTTP, 2026-07-28");
    goal("one client, median", median(&mut times).as_secs_f64() * 1e3, "ms", 0.2);
    let started = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (address, request) = (address.clone(), request.clone());
            std::thread::spawn(move || -> Result<usize, String> {
                let mut it = Connection::open(&address, &request).map_err(|err| err.to_string())?;
                let mut calls = 0;
                while started.elapsed() < LOAD.mul_f64(repeated(1000) as f64 / 1000.0) {
                    it.call().map_err(|err| err.to_string())?;
                    calls += 1;
                }
                Ok(calls)
            })
        })
        .collect();
    let mut calls = 0;
    for client in clients {
        calls += client.join().map_err(|_| "a client died")??;
    }
    let rate = calls as f64 / started.elapsed().as_secs_f64();
    let mark = if 10_000.0 <= rate { "ok" } else { "MISSED" };
    say(&format!("  {CLIENTS} clients {rate:>52.0} calls/s goal ≥ 10000 {mark}"));
    Ok(())
}
