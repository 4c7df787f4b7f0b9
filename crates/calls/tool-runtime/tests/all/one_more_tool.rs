//! Adding a tool means implementing it and adding it to the list; everything else follows from its
//! methods.

use std::path::{Path, PathBuf};

use haft_permission::{Behavior, Destination, PermissionUpdate, RuleList, RuleText};
use haft_tool::{
    CallContext, CallEffect, ContextChange, ErrorKind, Exposure, Outcome, Tool, ToolContext, ToolError,
    Traits, erase,
};
use haft_tool_runtime::Pool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::common::Setup;

/// Draws a map of a directory into a file.
#[derive(Deserialize, JsonSchema, Serialize)]
struct DrawMapInput {
    /// Where the map goes.
    target: PathBuf,
}

struct DrawMap;

impl Tool for DrawMap {
    type Input = DrawMapInput;
    type Output = String;
    type Progress = ();
    const NAME: &'static str = "DrawMap";

    fn traits(&self) -> Traits {
        Traits {
            aliases: &["draw_map"],
            search_hint: "cartography map of a directory",
            exposure: Exposure::Deferred,
            ..Traits::default()
        }
    }

    fn canonicalize(&self, input: &mut DrawMapInput, cx: &CallContext) {
        input.target = cx.cwd.join(&input.target);
    }

    fn path<'a>(&self, input: &'a DrawMapInput) -> Option<&'a Path> {
        Some(&input.target)
    }

    async fn call(&self, input: DrawMapInput, _cx: &ToolContext<()>) -> Result<Outcome<String>, ToolError> {
        Ok(Outcome::from(String::from("drawn")).with_trace(CallEffect::FileChanged(input.target)))
    }
}

fn rule(tool: &str, content: Option<&str>, behavior: Behavior) -> PermissionUpdate {
    let rule = RuleText { tool_name: tool.to_owned(), rule_content: content.map(str::to_owned) };
    PermissionUpdate::AddRules(RuleList { rules: vec![rule], behavior, destination: Destination::Session })
}

#[tokio::test]
async fn new_tool_is_found_by_its_metadata() {
    let pool = Pool::assemble(vec![erase(DrawMap)], Vec::new());
    assert_eq!(pool.tools().map(|(name, _)| name).collect::<Vec<_>>(), ["DrawMap"]);
    assert_eq!(pool.get("draw_map").map(|tool| tool.name()), Some("DrawMap"));
    assert_eq!(pool.search("cartography", 3), ["DrawMap"]);
    let spec = pool.get("DrawMap").unwrap().spec();
    assert_eq!(spec.description, "Draws a map of a directory into a file.");
    assert_eq!(spec.input_schema["properties"]["target"]["description"], "Where the map goes.");

    let mut rig = Setup { extra: vec![erase(DrawMap)], ..Setup::default() }.rig();
    let gate = std::sync::Arc::clone(&rig.session.pipeline.gate);
    let input = json!({"target": "maps/here"});
    assert_eq!(
        rig.run_one("DrawMap", input.clone()).await.0,
        Some(ErrorKind::Denied),
        "nobody speaks for it"
    );
    gate.apply(&rule("DrawMap", None, Behavior::Allow));
    let reports = rig.run(&[("DrawMap", input.clone())]).await;
    assert_eq!(reports[0].error, None, "{}", reports[0].content.to_text());
    let target = rig.dir.path().join("maps/here");
    let trace = ContextChange::Trace(CallEffect::FileChanged(target));
    assert!(reports[0].changes.contains(&trace), "{:?}", reports[0].changes);
    // A rule about files applies to the tool without naming it.
    gate.apply(&rule("Edit", Some("./maps/**"), Behavior::Deny));
    assert_eq!(rig.run_one("DrawMap", input).await.0, Some(ErrorKind::Denied));
}
