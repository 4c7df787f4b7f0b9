//! Opens the fleet's store and checks its state.

use std::{path::PathBuf, process::ExitCode};

use haft_console::stdout::{CliError, CommandExit, print_line};
use haft_fleet_store::{FleetAddress, FleetName, FleetStore};
use serde_json::json;

use super::FleetContext;
use crate::FleetClient;

/// The opened store.
pub(super) struct OpenFleet {
    /// The whole store, for workers.
    pub(super) whole: FleetStore,
    /// The store as the current tenant sees it.
    pub(super) desk: FleetClient,
}

/// Haft's fleet directory on this machine, `~/.haft/fleet`. Fails if `HOME` is not an absolute path.
pub(super) fn fleet_dir() -> Result<PathBuf, CliError> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|it| it.is_absolute());
    let home = home.ok_or_else(|| String::from("HOME is not set; --root says where workspaces are made"))?;
    Ok(home.join(".haft/fleet"))
}

/// The store address in `HAFT_FLEET`; default: a SQLite file in `~/.haft`.
pub(super) fn address() -> Result<FleetAddress, CliError> {
    match std::env::var("HAFT_FLEET").ok().filter(|it| !it.trim().is_empty()) {
        Some(text) => Ok(FleetAddress::parse(text.trim()).map_err(|err| format!("HAFT_FLEET: {err}"))?),
        None => Ok(FleetAddress::Sqlite(fleet_dir()?.with_extension("db"))),
    }
}

/// Opens the store at [`address`] for the tenant in `HAFT_FLEET_TENANT` (default: `default`).
pub(super) async fn open_fleet() -> Result<OpenFleet, CliError> {
    let address = address()?;
    // Only the default directory is created; a misspelled path in `HAFT_FLEET` is an error.
    if let FleetAddress::Sqlite(path) = &address
        && std::env::var_os("HAFT_FLEET").is_some_and(|it| !it.is_empty())
        && let Some(dir) = path.parent().filter(|it| !it.as_os_str().is_empty() && !it.is_dir())
    {
        return Err(CliError::Message(format!("HAFT_FLEET: there is no directory {}", dir.display())));
    }
    let whole = FleetStore::open(&address).await.map_err(|err| format!("{address}: {err}"))?;
    let tenant = std::env::var("HAFT_FLEET_TENANT").ok().filter(|it| !it.trim().is_empty());
    let tenant = FleetName::parse(tenant.as_deref().unwrap_or("default").trim())
        .map_err(|err| format!("HAFT_FLEET_TENANT: {err}"))?;
    let desk = FleetClient::new(whole.for_tenant(tenant.clone()), tenant);
    Ok(OpenFleet { whole, desk })
}

/// Opens another store by its address.
pub(super) async fn open_at(url: &str) -> Result<FleetStore, CliError> {
    let address = FleetAddress::parse(url).map_err(|err| format!("--to {url}: {err}"))?;
    Ok(FleetStore::open(&address).await.map_err(|err| format!("{address}: {err}"))?)
}

/// Prints the checks of the store and whether each passed.
pub(super) async fn doctor(fleet: &OpenFleet, context: &FleetContext) -> CommandExit {
    let address = address()?;
    let findings = fleet.whole.check_health().await.map_err(|err| format!("{address}: {err}"))?;
    let mut is_good = true;
    for finding in &findings {
        is_good &= finding.is_good;
        if context.options.json {
            print_line(&json!(finding).to_string())?;
            continue;
        }
        let mark = if finding.is_good { "ok " } else { "BAD" };
        print_line(&format!("{mark}  {}: {}", finding.what, finding.said))?;
        if let Some(advice) = &finding.advice {
            print_line(&format!("     {advice}"))?;
        }
    }
    let workers = fleet.whole.queue.workers().await.map_err(|err| err.to_string())?;
    if !context.options.json {
        print_line(&format!("     {address}, {} workers", workers.len()))?;
        for worker in workers {
            print_line(&format!("     {} of pool {} has {} jobs", worker.worker, worker.pool, worker.holds))?;
        }
    }
    Ok(ExitCode::from(u8::from(!is_good)))
}
