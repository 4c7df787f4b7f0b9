//! Which store, and whether it is as it should be.

use std::{path::PathBuf, process::ExitCode};

use haft_console::stdout::{CliError, CommandExit, print_line};
use haft_fleet_store::{FleetAddress, FleetName, FleetStore};
use serde_json::json;

use super::FleetContext;
use crate::FleetClient;

/// A fleet, as this command sees it.
pub(super) struct OpenFleet {
    /// All of it, for workers.
    pub(super) whole: FleetStore,
    /// What the tenant sees.
    pub(super) desk: FleetClient,
}

/// Haft's directory for fleets on this machine.
pub(super) fn fleet_dir() -> Result<PathBuf, CliError> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|it| it.is_absolute());
    let home = home.ok_or_else(|| String::from("HOME is not set; --root says where workspaces are made"))?;
    Ok(home.join(".haft/fleet"))
}

/// The address that `HAFT_FLEET` names; a file at home when it names none.
pub(super) fn address() -> Result<FleetAddress, CliError> {
    match std::env::var("HAFT_FLEET").ok().filter(|it| !it.trim().is_empty()) {
        Some(text) => Ok(FleetAddress::parse(text.trim()).map_err(|err| format!("HAFT_FLEET: {err}"))?),
        None => Ok(FleetAddress::Sqlite(fleet_dir()?.with_extension("db"))),
    }
}

/// Opens the store of this command.
pub(super) async fn open_fleet() -> Result<OpenFleet, CliError> {
    let address = address()?;
    // Only our own directory is made: a path with a slip in it is not.
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

/// Another store, by its address.
pub(super) async fn open_at(url: &str) -> Result<FleetStore, CliError> {
    let address = FleetAddress::parse(url).map_err(|err| format!("--to {url}: {err}"))?;
    Ok(FleetStore::open(&address).await.map_err(|err| format!("{address}: {err}"))?)
}

/// Says what is good and what is not.
pub(super) async fn doctor(fleet: &OpenFleet, context: &FleetContext) -> CommandExit {
    let address = address()?;
    let findings = fleet.whole.examine().await.map_err(|err| format!("{address}: {err}"))?;
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
