//! One connection of a client.

use std::{sync::Arc, time::Duration};

use tokio::{sync::mpsc, time::Instant};

use super::{host_run::HostRun, run_registry::HostRunRegistry};
use crate::{
    line_pipe::LinePipe,
    protocol::{ClientFrame, Hello, HostFrame},
};

/// Timeout for the first frame of a client.
const HELLO_LIMIT: Duration = Duration::from_secs(15);

/// Maximum queued lines for a client that does not read.
const WAITING_LINES: usize = 4096;

/// Keep-alive intervals without a frame after which the peer counts as gone.
pub(crate) const SILENT_PINGS: u32 = 3;

/// Minimum keep-alive interval a client may request.
const MIN_PING: Duration = Duration::from_millis(50);

/// Serves a client until it disconnects.
pub(crate) async fn serve(mut pipe: LinePipe, runs: Arc<HostRunRegistry>) {
    let _mark = runs.mark();
    let first = tokio::time::timeout(HELLO_LIMIT, pipe.incoming.recv()).await.ok().flatten();
    let Some(hello) = first.and_then(|line| hello(&line)) else { return };
    let (run, welcome) = match runs.admit(&hello).await {
        Ok(admitted) => admitted,
        Err((kind, reason)) => return say(&pipe, &HostFrame::Refused { kind, reason }).await,
    };
    let (lines, waiting) = mpsc::channel(WAITING_LINES);
    say(&pipe, &HostFrame::Welcome(Box::new(welcome))).await;
    let (visit, end) = run.enter(lines, hello.attended);
    run.questions.open.questions().into_iter().for_each(|it| run.say(&HostFrame::Ask(Box::new(it))));
    run.tell_news();
    let said_bye = tokio::select! {
        said_bye = converse(&mut pipe, waiting, &run, &runs, &hello) => said_bye,
        () = end.cancelled() => false,
        () = run.closed.cancelled() => false,
    };
    run.leave(visit);
    if said_bye {
        runs.close(&run).await;
    }
}

/// Parses the first frame. One of another protocol version may have other fields, but always contains
/// its version.
fn hello(line: &str) -> Option<Hello> {
    if let Ok(ClientFrame::Hello(hello)) = serde_json::from_str(line) {
        return Some(hello);
    }
    let value: serde_json::Value = serde_json::from_str(line).ok()?;
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    (value["t"] == "hello").then(|| Hello {
        protocol: value["protocol"].as_u64().and_then(|it| u32::try_from(it).ok()).unwrap_or(u32::MAX),
        version: text("version"),
        session: String::new(),
        instance: String::new(),
        epoch: None,
        dir: String::new(),
        attended: false,
        ping_ms: 0,
    })
}

async fn say(pipe: &LinePipe, frame: &HostFrame) {
    if let Ok(line) = serde_json::to_string(frame) {
        pipe.outgoing.send(line).await.ok();
    }
}

/// Processes frames in both directions. Returns whether the client has ended its session.
async fn converse(
    pipe: &mut LinePipe,
    mut waiting: mpsc::Receiver<String>,
    run: &Arc<HostRun>,
    runs: &Arc<HostRunRegistry>,
    hello: &Hello,
) -> bool {
    let silence = Duration::from_millis(hello.ping_ms).max(MIN_PING) * SILENT_PINGS;
    let mut ping = tokio::time::interval(runs.limits.ping.max(MIN_PING));
    let mut heard = Instant::now();
    loop {
        tokio::select! {
            line = pipe.incoming.recv() => {
                let Some(line) = line else { return false };
                heard = Instant::now();
                match serde_json::from_str(&line) {
                    Ok(ClientFrame::Bye) => return true,
                    Ok(frame) => take(frame, run, hello),
                    // A frame of a later version is ignored.
                    Err(err) => tracing::debug!(%err, "a line of a caller was not understood"),
                }
            }
            Some(line) = waiting.recv() => {
                if pipe.outgoing.send(line).await.is_err() {
                    return false;
                }
            }
            _ = ping.tick() => {
                if silence < heard.elapsed() {
                    return false;
                }
                // A queued ping is enough.
                if let Ok(line) = serde_json::to_string(&HostFrame::Ping) {
                    pipe.outgoing.try_send(line).ok();
                }
            }
        }
    }
}

fn take(frame: ClientFrame, run: &Arc<HostRun>, hello: &Hello) {
    match frame {
        ClientFrame::Call(call) => run.call(*call),
        ClientFrame::Find { key } => run.find(key),
        ClientFrame::Cancel { key } => run.cancel(&key),
        ClientFrame::Answer { question, answer } => drop(run.questions.open.resolve(&question, answer)),
        ClientFrame::Heard { key } => run.heard(&key),
        ClientFrame::Order { id, order } => run.order(&hello.instance, id, order),
        ClientFrame::Ping | ClientFrame::Hello(_) | ClientFrame::Bye => (),
    }
}
