//! The sub-agents of a session as a tree, with their cost.

use std::path::Path;

use haft_agent::log::session_cost::SessionCost;
use haft_console::{
    GlobalArgs,
    stdout::{CliError, print_line},
    style::{clean, colours, painted},
};
use haft_session::{LoggedAgent, logged_agents};
use haft_types::text;
use serde_json::{Value, json};

/// Prints the tree of sub-agents, if there are any.
pub(crate) fn show(log: &Path, options: &GlobalArgs) -> Result<(), CliError> {
    let agents = logged_agents(log);
    if agents.is_empty() {
        return Ok(());
    }
    if options.json {
        let all: Vec<Value> = agents.iter().map(LoggedAgent::to_json).collect();
        return print_line(&json!({"type": "haft-agents", "agents": all}).to_string());
    }
    print_line(&format!("\n{}", painted("Agents", "1", colours())))?;
    for agent in &agents {
        print_line(&line(agent))?;
    }
    Ok(())
}

/// One line per agent, indented by its depth.
fn line(agent: &LoggedAgent) -> String {
    let indent = "  ".repeat(agent.depth.max(1) as usize);
    let name = agent.name.as_deref().unwrap_or(&agent.id);
    let mut about = format!("{}, {}, {}", agent.kind, agent.status, agent.model);
    if !agent.model_from.is_empty() {
        about.push_str(&format!(" from {}", agent.model_from));
    }
    if let Some(cost) = &agent.cost {
        about.push_str(&format!(", {}", money(cost)));
    }
    if let Some(path) = &agent.worktree {
        about.push_str(&format!(", worktree {}", path.display()));
    }
    let description = text::one_line(&agent.description, 80);
    format!(
        "{indent}{} {} {}",
        painted(&clean(name), "36", colours()),
        clean(&description),
        painted(&clean(&format!("({about})")), "2", colours())
    )
}

fn money(cost: &SessionCost) -> String {
    let requests = if cost.requests == 1 { "request" } else { "requests" };
    let price = if cost.priced {
        if 0 < cost.estimated {
            format!("unknown, about ${:.4}", cost.usd)
        } else {
            format!("${:.4}", cost.usd)
        }
    } else {
        format!("${:.4} and what is not known", cost.usd)
    };
    format!("{} {requests}, {price}", text::thousands(cost.requests))
}

/// A table of the cost of the session itself and of each sub-agent.
pub(crate) fn costs(main: &SessionCost, agents: &[LoggedAgent]) -> String {
    if agents.is_empty() {
        return String::new();
    }
    let of_agents: f64 = agents.iter().filter_map(|it| it.cost.as_ref()).map(|it| it.usd).sum();
    let mut out = format!("\nagents   {}, ${of_agents:.4} beside the above\n", agents.len());
    for agent in agents {
        out.push_str(&line(agent));
        out.push('\n');
    }
    out.push_str(&format!("together ${:.4}\n", main.usd + of_agents));
    out
}
