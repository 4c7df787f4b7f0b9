//! Searches file contents.

mod grep_search;
mod input;
mod rendered;
mod result_text;

use std::{path::Path, sync::Arc};

use haft_tool::{
    AccessSet, CallContext, Content, Outcome, Rendered, Stage, Tool, ToolContext, ToolError, Traits,
    schema_of,
};
use haft_workspace::SessionFiles;
pub use input::{Input, OutputMode};
pub use result_text::{Output, Skipped};
use serde_json::Value;

use self::grep_search::Search;
use crate::search_common::{self, Place, SearchToolSettings};

#[derive(Clone, Debug, Default)]
pub struct Grep {
    settings: SearchToolSettings,
    /// The files of the session, to mention those with unsaved changes in an editor.
    files: Option<Arc<SessionFiles>>,
}

impl Grep {
    pub fn new(settings: SearchToolSettings) -> Self {
        Self { settings, files: None }
    }

    /// Adds notes about found files with unsaved changes in an editor.
    pub fn beside(self, files: Arc<SessionFiles>) -> Self {
        Self { files: Some(files), ..self }
    }

    /// Returns the note about unsaved changes, which were not searched.
    fn unsaved(&self, output: &Output) -> Option<String> {
        search_common::unsaved_note(self.files.as_ref()?, output.files())
    }
}

impl Tool for Grep {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "Grep";

    fn traits(&self) -> Traits {
        Traits {
            aliases: &["grep_search"],
            synonyms: &[
                ("include", "glob"),
                ("query", "pattern"),
                ("regex", "pattern"),
                ("directory", "path"),
                ("dir", "path"),
                ("case_insensitive", "-i"),
            ],
            search_hint: "search file contents with a regular expression",
            timeout: None,
            ..Traits::default()
        }
    }

    fn is_read_only(&self, _input: &Input) -> bool {
        true
    }

    fn is_concurrency_safe(&self, _input: &Input) -> bool {
        true
    }

    fn canonicalize(&self, input: &mut Input, cx: &CallContext) {
        search_common::absolute(&mut input.path, cx);
    }

    fn path<'a>(&self, input: &'a Input) -> Option<&'a Path> {
        input.path.as_deref()
    }

    fn reach(&self, input: &Input, cx: &CallContext) -> AccessSet {
        AccessSet::read(input.path.as_deref().unwrap_or(&cx.cwd))
    }

    fn validate(&self, input: &Input, cx: &CallContext) -> Result<(), ToolError> {
        input.query().and(input.filter(cx)).map(drop)
    }

    fn describe(&self, input: &Input) -> String {
        match &input.path {
            Some(path) => format!("Search for {} in {}", input.pattern, path.display()),
            None => format!("Search for {}", input.pattern),
        }
    }

    fn output_schema(&self) -> Option<Value> {
        Some(schema_of::<Output>())
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let limit = self.settings.timeout;
        let search = Search {
            query: input.query()?,
            filter: input.filter(cx)?,
            place: Place::new(cx, input.path.as_deref().unwrap_or(&cx.cwd))?,
            cx: cx.clone(),
            input,
            limit,
        };
        let mut output: Output = search_common::run(cx, limit, move |stop| search.run(stop)).await??;
        output.notes.extend(self.unsaved(&output));
        Ok(output.into())
    }

    fn to_content(&self, output: &Output) -> Content {
        Content::text(output.text())
    }

    fn render(&self, stage: Stage<'_, Input, Output>) -> Rendered {
        match stage {
            Stage::Running(input) => Rendered::headline(self.describe(input)),
            Stage::Failed(error) => Rendered::error(&error.message),
            Stage::Done(output) => rendered::rendered(output),
        }
    }
}
