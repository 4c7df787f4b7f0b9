//! `haft models`: lists known models with their prices, and the models of servers on this machine.

use std::process::ExitCode;

use haft_console::{
    GlobalArgs,
    stdout::{CommandExit, print_bytes, print_error, print_line},
    style,
};
use haft_model::{Catalog, ModelInfo, ThinkingSupport};
use serde_json::{Value, json};

use crate::{
    args::ModelsArgs,
    run::{
        local_model_servers::{self, DetectedServer, ServerProbe},
        session_spec,
    },
};

pub(crate) fn run(args: &ModelsArgs, options: &GlobalArgs) -> CommandExit {
    let premises = session_spec::premises(options)?;
    let catalog = premises.catalog()?;
    let own = premises.state_dir().join("models.json");
    let from_user = catalog.models().len() - Catalog::built_in().models().len();
    let servers = if args.no_local {
        Vec::new()
    } else {
        session_spec::runtime()?.block_on(local_model_servers::find(&|name| premises.variable(name)))
    };
    let fits = |name: &str| args.filter.as_deref().is_none_or(|it| name.contains(it));
    let known: Vec<(&ModelInfo, String)> = catalog
        .models()
        .iter()
        .enumerate()
        .filter(|(_, info)| fits(&info.id) || info.short.as_deref().is_some_and(fits))
        .map(|(at, info)| {
            let from = if at < from_user { own.display().to_string() } else { String::from("built in") };
            (info, from)
        })
        .collect();
    if options.json {
        let models: Vec<Value> = known.iter().map(|(info, from)| model_json(info, from)).collect();
        print_line(&json!({"models": models, "servers": servers}).to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    if known.is_empty() {
        let wanted = args.filter.as_deref().unwrap_or_default();
        print_error(&format!("no model that is known has {wanted:?} in its name; `haft models` lists all"));
    } else {
        print_bytes(style::clean(&table(&known)).as_bytes())?;
    }
    for server in servers.iter().filter(|it| it.state != ServerProbe::NotThere) {
        print_bytes(style::clean(&server_text(server, &fits)).as_bytes())?;
    }
    if !args.no_local && servers.iter().all(|it| it.state == ServerProbe::NotThere) {
        let names: Vec<&str> = servers.iter().map(|it| it.name).collect();
        print_line(&format!("\nNo server of models answers on this machine ({}).", names.join(", ")))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn model_json(info: &ModelInfo, from: &str) -> Value {
    let mut out = json!(info);
    out["from"] = json!(from);
    out
}

/// A table with one row per model: name, context window, maximum output, price, thinking.
fn table(known: &[(&ModelInfo, String)]) -> String {
    let heads = ["MODEL", "WINDOW", "ANSWER", "$/M IN", "$/M OUT", "CACHED", "THINKS", "FROM"];
    let mut rows = vec![heads.map(str::to_owned)];
    rows.extend(known.iter().map(|(info, from)| {
        let dollars = |pick: fn(&haft_model::TokenPrice) -> f64| {
            info.price.as_ref().map_or_else(|| String::from("-"), |price| format!("{}", pick(price)))
        };
        let name = match &info.short {
            Some(short) => format!("{} ({short})", info.id),
            None => info.id.clone(),
        };
        [
            name,
            thousands(info.window),
            thousands(info.max_output),
            dollars(|it| it.input),
            dollars(|it| it.output),
            dollars(|it| it.cache_read),
            thinking(info),
            from.clone(),
        ]
    }));
    columns(&rows)
}

/// Aligns rows into columns of minimal width.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:0$}", *width));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

fn thousands(tokens: u64) -> String {
    match tokens {
        0..10_000 => tokens.to_string(),
        10_000..1_000_000 => format!("{}k", tokens / 1000),
        _ => format!("{}.{}M", tokens / 1_000_000, tokens % 1_000_000 / 100_000),
    }
}

fn thinking(info: &ModelInfo) -> String {
    let how = match info.thinking {
        ThinkingSupport::None => "-",
        ThinkingSupport::Budget => "budget",
        ThinkingSupport::Adaptive => "adaptive",
        ThinkingSupport::Both => "budget, adaptive",
        ThinkingSupport::Always => "always",
        ThinkingSupport::Effort => "effort",
    };
    match info.efforts.last() {
        Some(most) => format!("{how} up to {most}"),
        None => how.to_owned(),
    }
}

fn server_text(server: &DetectedServer, fits: &dyn Fn(&str) -> bool) -> String {
    if server.state == ServerProbe::Elsewhere {
        return format!("\n{} is at {}, not on this machine: nobody asked it.\n", server.name, server.url);
    }
    let mut out = format!("\n{} at {} (use --provider {}):\n", server.name, server.url, server.name);
    for model in server.models.iter().filter(|it| fits(&it.id)) {
        let window = model.window.map(|it| format!("  window {}", thousands(it))).unwrap_or_default();
        out.push_str(&format!("  {}{window}\n", model.id));
    }
    if server.models.is_empty() {
        out.push_str("  it has no model yet\n");
    }
    out
}
