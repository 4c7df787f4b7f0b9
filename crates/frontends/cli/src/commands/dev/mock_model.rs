//! `haft dev mock-model`: a scripted model server for testing agents.

use std::{fs::OpenOptions, io::Write as _, net::SocketAddr, process::ExitCode};

use haft_console::{
    interrupt::Interrupt,
    stdout::{CliError, CommandExit, print_error, print_line},
};
use haft_testkit::{MockModel, Recorded, Script};
use serde_json::{Value, json};

use crate::{args::MockModelArgs, run::session_spec};

pub(crate) fn run(args: &MockModelArgs) -> CommandExit {
    session_spec::runtime()?.block_on(serve(args))
}

async fn serve(args: &MockModelArgs) -> CommandExit {
    let script = Script::load(&args.script).map_err(|err| err.to_string())?;
    let address = SocketAddr::from(([127, 0, 0, 1], args.port));
    let model = MockModel::bind(address, script).await.map_err(|err| format!("{address}: {err}"))?;
    let interrupt = Interrupt::listen_now();
    print_line(&model.url())?;
    let mut seen = 0;
    loop {
        tokio::select! {
            () = interrupt.cancel.cancelled() => break,
            () = model.wait_until(|requests| answered(requests, seen).next().is_some()) => {
                seen = tell(&model, seen, args)?;
            }
        }
    }
    tell(&model, seen, args)?;
    let refused = model.refusals().len();
    print_error(&format!("{} requests, {refused} refused, {} turns left", model.count(), model.unused()));
    Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The requests from index `seen` on, up to the first one that is not finished.
fn answered(requests: &[Recorded], seen: usize) -> impl Iterator<Item = &Recorded> {
    let new = requests.iter().filter(move |it| seen <= it.index);
    let is_done =
        |it: &&Recorded| it.answered.is_some() || it.abandoned || it.refusal.is_some() || it.status == 0;
    new.take_while(is_done)
}

/// Logs each finished request once. Returns the new value of `seen`.
fn tell(model: &MockModel, seen: usize, args: &MockModelArgs) -> Result<usize, CliError> {
    let requests = model.requests();
    let mut next = seen;
    for it in answered(&requests, seen) {
        next = it.index + 1;
        if let Some(refusal) = &it.refusal {
            print_error(&format!("request {} refused: {refusal}", it.index));
        }
        if let Some(path) = &args.requests {
            let mut file = OpenOptions::new().create(true).append(true).open(path)?;
            // One write per line, so that a concurrent reader never sees half a line.
            file.write_all(format!("{}\n", line(it, args.without_bodies)).as_bytes())?;
        }
    }
    Ok(next)
}

fn line(it: &Recorded, without_body: bool) -> Value {
    let mut line = json!({
        "index": it.index, "path": it.path, "status": it.status, "turn": it.turn, "refusal": it.refusal,
        "received_ms": it.received.as_secs_f64() * 1000.0,
        "answered_ms": it.answered.map(|at| at.as_secs_f64() * 1000.0), "abandoned": it.abandoned,
        "bytes": it.body.len(),
    });
    if !without_body {
        line["body"] = Value::from(String::from_utf8_lossy(&it.body));
    }
    line
}
