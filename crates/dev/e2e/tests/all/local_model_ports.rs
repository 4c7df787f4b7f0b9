//! Unrelated programs on the default ports of model servers.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
};

use crate::common::Haft;

/// How the unrelated program answers.
#[derive(Clone, Copy)]
enum Answer {
    /// Sends these bytes and closes.
    Whole(&'static str),
    /// Sends a list that never ends.
    Endless,
    /// Sends nothing.
    Silence,
}

fn answer(mut stream: TcpStream, how: Answer) {
    let mut asked = [0; 4096];
    let _ = stream.read(&mut asked);
    match how {
        Answer::Whole(text) => {
            let _ = stream.write_all(text.as_bytes());
        }
        Answer::Endless => {
            let begin =
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{\"data\": [";
            let _ = stream.write_all(begin.as_bytes());
            let piece = "{\"id\": \"model\"},".repeat(4096);
            while stream.write_all(piece.as_bytes()).is_ok() {}
        }
        // Waits until the client gives up.
        Answer::Silence => {
            let _ = stream.read_to_end(&mut Vec::new());
        }
    }
}

#[test]
fn strangers_are_not_taken_for_servers_of_models() {
    for (what, how) in [
        ("a page", Answer::Whole("HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>")),
        ("another shape", Answer::Whole("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{\"data\": 17}")),
        (
            "a redirect",
            Answer::Whole("HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n"),
        ),
        ("an error", Answer::Whole("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")),
        ("another protocol", Answer::Whole("SSH-2.0-OpenSSH_9.2\r\n")),
        ("nothing at all", Answer::Whole("")),
        ("an endless list", Answer::Endless),
        ("silence", Answer::Silence),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                std::thread::spawn(move || answer(stream, how));
            }
        });
        let haft = Haft::new();
        for args in [&["models", "no-such-model"][..], &["doctor", "--online"]] {
            let mut command = haft.command();
            command.args(args).env("OLLAMA_HOST", &address).env("HAFT_LOCAL_PATIENCE_MS", "1500");
            // No other server may be contacted.
            command.env("ANTHROPIC_BASE_URL", "http://127.0.0.1:1");
            for variable in ["LMSTUDIO_BASE_URL", "VLLM_BASE_URL", "LLAMACPP_BASE_URL"] {
                command.env(variable, "http://127.0.0.1:1");
            }
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.code().is_some_and(|it| it < 2), "{what}: {output:?}");
            assert!(!said.contains(&format!("ollama at http://{address}")), "{what}: {said}");
        }
    }
}
