//! The command that makes a workspace ready: seen while it runs, bounded, and not
//! run again where what it made is known.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use haft_types::EnvVars;
use tokio_util::sync::CancellationToken;

use super::{RunDirs, run_command};
use crate::job_file::CheckoutSpec;

/// How long a setup may take when nobody says.
const USUAL_LIMIT: Duration = Duration::from_secs(1_800);

/// What a setup needs.
pub(crate) struct SetupContext<'a> {
    pub(crate) order: &'a CheckoutSpec,
    pub(crate) dirs: &'a RunDirs,
    pub(crate) work: &'a Path,
    pub(crate) variables: &'a EnvVars,
}

/// Runs the setup of a workspace, if it has one. What it prints is told.
pub(crate) async fn run_setup(
    setup: SetupContext<'_>,
    cancel: &CancellationToken,
    mut tell: impl FnMut(&str) + Send,
) -> Result<(), String> {
    let SetupContext { order, dirs, work, variables } = setup;
    let Some(command) = &order.setup else { return Ok(()) };
    let cached = cache_file(order, dirs, work);
    if let Some(file) = cached.as_ref().filter(|file| file.is_file()) {
        tell(&format!("setup: what it made is known ({})\n", file.display()));
        return unpack(file, work).await;
    }
    let before = cached.as_ref().map(|_| TreeListing::read(work));
    tell(&format!("setup: {command}\n"));
    let limit = order.setup_limit.unwrap_or(USUAL_LIMIT);
    let end = run_command(command, work, variables, limit, cancel, &mut tell).await?;
    match (&end.ended, end.code) {
        (None, Some(0)) => (),
        (Some(why), _) => return Err(format!("the setup `{command}` was ended: {why}")),
        (None, code) => {
            let code = code.map_or_else(|| String::from("a signal"), |it| it.to_string());
            let last: Vec<&str> = end.output.trim_end().lines().rev().take(5).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            return Err(format!("the setup `{command}` ended with {code}: {}", last.join(" | ")));
        }
    }
    if let (Some(file), Some(before)) = (cached, before) {
        let made = TreeListing::read(work).new_since(&before);
        if let Err(why) = pack(&file, work, &made).await {
            tell(&format!("setup: what it made is not kept for the next time: {why}\n"));
        }
    }
    Ok(())
}

/// Where what a setup makes is kept, by everything it depends on.
fn cache_file(order: &CheckoutSpec, dirs: &RunDirs, work: &Path) -> Option<PathBuf> {
    if order.cache.is_empty() {
        return None;
    }
    let mut hasher = blake3::Hasher::new();
    let source = [&order.git, &order.bundle, &order.tar, &order.image, &order.setup];
    hasher.update(serde_json::to_string(&source).unwrap_or_default().as_bytes());
    for name in &order.cache {
        hasher.update(name.as_bytes());
        // A file that is not there is something to depend on too.
        let content = std::fs::read(work.join(name)).ok();
        hasher.update(blake3::hash(content.as_deref().unwrap_or(b"-")).as_bytes());
    }
    Some(dirs.caches().join(format!("{}.tar", &hasher.finalize().to_hex()[..32])))
}

/// Files of a tree, with what changes when they do.
struct TreeListing(BTreeMap<PathBuf, (u64, Option<SystemTime>)>);

impl TreeListing {
    fn read(root: &Path) -> Self {
        let walk = ignore::WalkBuilder::new(root).standard_filters(false).follow_links(false).build();
        let files = walk.flatten().filter(|it| it.file_type().is_some_and(|it| !it.is_dir()));
        let about = files.filter_map(|it| {
            let about = it.path().symlink_metadata().ok()?;
            let path = it.path().strip_prefix(root).ok()?.to_owned();
            (!path.starts_with(".git")).then_some((path, (about.len(), about.modified().ok())))
        });
        Self(about.collect())
    }

    fn new_since(&self, before: &Self) -> Vec<PathBuf> {
        let is_new =
            |(path, about): &(&PathBuf, &(u64, Option<SystemTime>))| before.0.get(*path) != Some(*about);
        self.0.iter().filter(is_new).map(|(path, _)| path.clone()).collect()
    }
}

async fn pack(file: &Path, work: &Path, made: &[PathBuf]) -> Result<(), String> {
    let failed = |err: std::io::Error| format!("{}: {err}", file.display());
    std::fs::create_dir_all(file.parent().unwrap_or(work)).map_err(failed)?;
    let part = file.with_extension(format!("{}.part", std::process::id()));
    let list = file.with_extension(format!("{}.list", std::process::id()));
    let names: Vec<u8> =
        made.iter().flat_map(|it| it.as_os_str().as_encoded_bytes().iter().copied().chain([0])).collect();
    std::fs::write(&list, names).map_err(failed)?;
    let mut line = tokio::process::Command::new("tar");
    line.args(["--create", "--null", "--no-recursion", "--directory"]).arg(work);
    line.arg("--files-from").arg(&list).arg("--file").arg(&part);
    let output = line.kill_on_drop(true).output().await.map_err(failed);
    std::fs::remove_file(&list).ok();
    if output?.status.success() {
        std::fs::rename(&part, file).map_err(failed)
    } else {
        std::fs::remove_file(&part).ok();
        Err(String::from("tar failed"))
    }
}

async fn unpack(file: &Path, work: &Path) -> Result<(), String> {
    let mut line = tokio::process::Command::new("tar");
    line.args(["--extract", "--no-same-owner", "--file"]).arg(file).arg("--directory").arg(work);
    let output = line.kill_on_drop(true).output().await.map_err(|err| format!("tar: {err}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{} cannot be unpacked; remove it", file.display()))
    }
}
