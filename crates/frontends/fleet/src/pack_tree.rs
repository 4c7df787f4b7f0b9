//! What the submitter has, packed so that a worker needs no way to it.

use std::path::Path;

use bytes::Bytes;
use haft_fleet_store::{FleetName, FleetStore};

use crate::checkout::FleetGit;

/// A packed tree: what a job says under `bundle` or `tar`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PackedTree(pub String);

/// Packs the repository a directory is in, with what is not committed; or an
/// archive file as it is.
pub async fn pack_tree(store: &FleetStore, tenant: &FleetName, path: &Path) -> Result<PackedTree, String> {
    let put = async |bytes: Vec<u8>| {
        let put = store.blobs.put(tenant.clone(), Bytes::from(bytes), None).await;
        put.map(|it| it.to_string()).map_err(|err| err.to_string())
    };
    if path.is_file() {
        let bytes = std::fs::read(path).map_err(|err| format!("{}: {err}", path.display()))?;
        return Ok(PackedTree(format!("blob:{}", put(bytes).await?)));
    }
    let root = FleetGit::new(path, ["rev-parse", "--show-toplevel"]).text().await;
    let root = root.map_err(|why| format!("{} is no repository: {why}", path.display()))?;
    let root = Path::new(&root);
    let head = FleetGit::new(root, ["rev-parse", "HEAD"]).text().await;
    let head = head.map_err(|_| String::from("the repository has no commit yet; make one first"))?;
    let scratch = std::env::temp_dir().join(format!("haft-pack-{}", uuid::Uuid::new_v4()));
    let bundle = scratch.with_extension("bundle");
    let index = scratch.with_extension("index");
    let name = bundle.display().to_string();
    FleetGit::new(root, ["bundle", "create", "--quiet", &name, "HEAD"]).run().await?;
    let bytes = std::fs::read(&bundle).map_err(|err| format!("{name}: {err}"));
    std::fs::remove_file(&bundle).ok();
    let line = |arguments: &[&str]| FleetGit::new(root, arguments).with("GIT_INDEX_FILE", &index);
    line(&["read-tree", "HEAD"]).run().await?;
    line(&["add", "--all", "--", "."]).run().await?;
    let patch =
        line(&["diff", "--cached", "--binary", "--full-index", "--no-color", "--no-ext-diff", "HEAD"])
            .run()
            .await;
    std::fs::remove_file(&index).ok();
    let (bundle, patch) = (put(bytes?).await?, patch?);
    if patch.is_empty() {
        Ok(PackedTree(format!("blob:{bundle}:{head}")))
    } else {
        Ok(PackedTree(format!("blob:{bundle}:{head}:{}", put(patch).await?)))
    }
}
