//! `haft context`: what fills the window.

use std::sync::Arc;

use haft_agent::{FillPart, WindowFill};
use haft_model::Scripted;

use crate::{
    args::{Options, RunArgs},
    output::{Ended, Failure, print_bytes},
    show::{colours, painted},
    wiring::{Chosen, Setup},
};

pub(crate) fn run(session: Option<String>, run: &RunArgs, options: &Options) -> Ended {
    let mut setup = Setup::new(options)?;
    let mut run = run.clone();
    run.continue_ = session.is_none() && run.resume.is_none();
    run.resume = session.or(run.resume);
    // Nobody is asked and nothing is written.
    run.sdk.no_session_persistence = true;
    run.record = None;
    let catalog = setup.catalog()?;
    let nobody = Chosen { provider: Arc::new(Scripted::new([])), catalog, key_source: String::new() };
    let mut agent = setup.agent_on(nobody, &run)?.agent;
    let fill = agent.window_fill();
    if options.json {
        let json = serde_json::to_string(&fill).map_err(|err| Failure::Message(err.to_string()))?;
        return print_bytes(format!("{json}\n").as_bytes());
    }
    print_bytes(for_people(&fill).as_bytes())
}

const BAR: usize = 30;

fn for_people(fill: &WindowFill) -> String {
    let paint = |text: &str, paint: &str| painted(text, paint, colours());
    let percent = |tokens: u64| if fill.window == 0 { 0.0 } else { share(tokens, fill.window) * 100.0 };
    let mut out = format!(
        "{}  about {} of {} tokens ({:.1} %)\n{}\n",
        paint(&fill.model, "1"),
        thousands(fill.total),
        thousands(fill.window),
        percent(fill.total),
        paint(
            &format!(
                "made shorter from {} on; {} are kept for the answer",
                thousands(fill.compact_at),
                thousands(fill.answer)
            ),
            "2"
        ),
    );
    let widest = fill.parts.iter().map(|part| part.name.chars().count()).max().unwrap_or(0);
    let largest = fill.parts.iter().map(|part| part.tokens).max().unwrap_or(1).max(1);
    out.push('\n');
    for FillPart { name, count, tokens } in &fill.parts {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "between 0 and the length of a bar"
        )]
        let length = (share(*tokens, largest) * BAR as f64).round() as usize;
        let bar = paint(&"█".repeat(length.max(usize::from(0 < *tokens))), "36");
        let times = if 1 < *count { format!(" ×{count}") } else { String::new() };
        out.push_str(&format!("  {name:<widest$}  {:>9}  {bar}{}\n", thousands(*tokens), paint(&times, "2")));
    }
    if !fill.largest.is_empty() {
        out.push_str("\nlargest results\n");
    }
    for part in &fill.largest {
        out.push_str(&format!("  {:>9}  {}\n", thousands(part.tokens), crate::show::clean(&part.name)));
    }
    out
}

#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (idx, digit) in digits.chars().enumerate() {
        if 0 < idx && (digits.len() - idx).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}
