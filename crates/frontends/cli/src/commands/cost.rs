//! `haft cost`: tokens and cost of a session, and why its prompt caches were missed.

use std::collections::BTreeMap;

use haft_agent::{
    CacheMiss,
    log::session_cost::{self, SessionCost},
};
use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, print_bytes},
    style::{clean, colours, painted},
};
use haft_types::{Usage, text};
use serde_json::json;

use crate::{commands::sessions, run::session_spec};

pub(crate) fn run(session: Option<&str>, options: &GlobalArgs) -> CommandExit {
    let logs = session_spec::logs(options)?;
    let id = sessions::resolve_session(&logs, session)?;
    let path = logs.path(&id);
    let cost = session_cost::of_log(&path).map_err(|err| format!("{}: {err}", path.display()))?;
    let agents = haft_session::logged_agents(&path);
    if options.json {
        let mut json = serde_json::to_value(&cost).map_err(|err| CliError::Message(err.to_string()))?;
        json["session"] = json!(id);
        json["tokens_billed_again"] = json!(cost.billed_again());
        json["agents"] = agents.iter().map(haft_session::LoggedAgent::to_json).collect();
        let of_agents: f64 = agents.iter().filter_map(|it| it.cost.as_ref()).map(|it| it.usd).sum();
        json["usd_with_agents"] = json!(cost.usd + of_agents);
        return print_bytes(format!("{json}\n").as_bytes());
    }
    print_bytes(for_people(&id, &cost).as_bytes())?;
    print_bytes(crate::commands::sessions::agent_tree::costs(&cost, &agents).as_bytes())
}

fn for_people(id: &str, cost: &SessionCost) -> String {
    let mut out = format!("session  {}\n", painted(&clean(id), "36", colours()));
    let summaries = match cost.summaries {
        0 => String::new(),
        some => format!(", {some} of them to sum up"),
    };
    out.push_str(&format!("requests {}{summaries}\n", text::thousands(cost.requests)));
    out.push_str(&format!("tokens   {}\n", tokens(&cost.usage)));
    if 0 < cost.estimated {
        let all = if cost.estimated == cost.requests { "all".to_owned() } else { cost.estimated.to_string() };
        out.push_str(&format!("         {all} estimated: the provider did not say what they took\n"));
    }
    out.push_str(&format!("cost     {}\n", money(cost)));
    if 1 < cost.models.len() {
        for (model, it) in &cost.models {
            let usd = it.usd.map(|usd| format!(", ${usd:.4}")).unwrap_or_default();
            let requests = if it.requests == 1 { "request" } else { "requests" };
            out.push_str(&format!(
                "         {}: {} {requests}, {}{usd}\n",
                clean(model),
                text::thousands(it.requests),
                tokens(&it.usage)
            ));
        }
    }
    if !cost.complete {
        out.push_str(
            "\nThe session is older than this report: answers are counted from what they said, \
             and lost caches were not written down.\n",
        );
    }
    out.push('\n');
    out.push_str(&cost.lost_text());
    out
}

/// One line that sums up the prompt cache misses of a run; `None` without any.
pub(crate) fn lost_line(busts: &[CacheMiss]) -> Option<String> {
    if busts.is_empty() {
        return None;
    }
    let mut causes: BTreeMap<&str, usize> = BTreeMap::new();
    for bust in busts {
        *causes.entry(bust.cause.word()).or_default() += 1;
    }
    let causes: Vec<String> = causes
        .into_iter()
        .map(|(cause, count)| if count == 1 { cause.to_owned() } else { format!("{cause} ×{count}") })
        .collect();
    let tokens: u64 = busts.iter().map(|it| it.tokens).sum();
    let about = if busts.iter().any(|it| it.estimated) { "about " } else { "" };
    let causes = causes.join(", ");
    Some(format!(
        "the provider's cache was lost ({causes}): {about}{} tokens were billed again; see `haft cost`",
        text::thousands(tokens)
    ))
}

fn tokens(usage: &Usage) -> String {
    let all = usage.total_input();
    let read = usage.cache_read_input_tokens;
    let share =
        if 0 < read { format!(" ({} % of all input)", read * 100 / all.max(1)) } else { String::new() };
    format!(
        "{} in, {} out, {} written to the cache, {} read from it{share}",
        text::thousands(usage.input_tokens),
        text::thousands(usage.output_tokens),
        text::thousands(usage.cache_creation_input_tokens),
        text::thousands(read),
    )
}

fn money(cost: &SessionCost) -> String {
    let unknown: Vec<String> =
        cost.models.iter().filter(|(_, it)| it.usd.is_none()).map(|(model, _)| clean(model)).collect();
    match (cost.priced || !cost.complete, unknown.is_empty()) {
        (true, _) => format!("${:.4}", cost.usd),
        (false, true) => String::from("$0.0000"),
        (false, false) => {
            format!("${:.4} without {}, whose price is not known", cost.usd, unknown.join(", "))
        }
    }
}
