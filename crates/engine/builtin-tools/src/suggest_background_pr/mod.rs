//! Records a suggestion for a pull request. Never opens one.

use std::{
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::PathBuf,
};

use haft_tool::{
    AccessSet, CallContext, Content, Exposure, Outcome, Tool, ToolContext, ToolError, Traits, Verdict,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Suggests a pull request to the user, who is asked first. It is written down with the session;
/// nothing is committed, pushed or opened. Use it for something worth doing beside the task.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Its title.
    #[schemars(length(min = 1, max = 200))]
    pub title: String,
    /// What it changes and why.
    #[schemars(length(min = 1, max = 20000))]
    pub body: String,
    /// The branch it would come from.
    #[schemars(length(min = 1, max = 200))]
    pub branch: String,
    /// The branch it would go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Files it would change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Output {
    /// File the suggestion was appended to.
    pub path: PathBuf,
}

pub struct SuggestBackgroundPr {
    file: PathBuf,
}

impl SuggestBackgroundPr {
    /// Creates the tool, which appends one line per suggestion to `file`.
    pub fn new(file: PathBuf) -> Self {
        Self { file }
    }
}

impl Tool for SuggestBackgroundPr {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "SuggestBackgroundPR";

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "suggest pull request background",
            exposure: Exposure::Deferred,
            feature: Some("suggestBackgroundPr"),
            ..Traits::default()
        }
    }

    fn reach(&self, _input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::Undeclared
    }

    /// Always asks, whatever the rules say.
    fn check_permissions(&self, input: &Input, _cx: &CallContext) -> Verdict {
        Verdict::Insist(format!("suggests a pull request: {}", haft_types::text::one_line(&input.title, 100)))
    }

    fn describe(&self, input: &Input) -> String {
        format!("Suggest a pull request: {}", haft_types::text::one_line(&input.title, 100))
    }

    async fn call(&self, input: Input, _cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let line = json!({
            "title": input.title, "body": input.body, "branch": input.branch, "base": input.base,
            "files": input.files, "status": "suggested",
        });
        let path = self.file.clone();
        let written = tokio::task::spawn_blocking(move || {
            if let Some(dir) = path.parent() {
                std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
            }
            let mut file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
            file.write_all(format!("{line}\n").as_bytes())
        });
        match written.await {
            Ok(Ok(())) => Ok(Output { path: self.file.clone() }.into()),
            Ok(Err(err)) => Err(ToolError::failed(format!("the suggestion cannot be written down: {err}"))),
            Err(err) => Err(ToolError::failed(format!("the suggestion cannot be written down: {err}"))),
        }
    }

    fn to_content(&self, output: &Output) -> Content {
        Content::text(format!(
            "Written down in {}. Nothing was pushed or opened; that is up to the user.",
            output.path.display()
        ))
    }
}
