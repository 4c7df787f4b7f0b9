use std::{future::Future, path::Path, time::Duration};

use haft_types::Content;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{AccessSet, CallContext, Outcome, Rendered, ToolContext, ToolError, UserInteraction, Verdict};

/// The interface that tool authors implement.
///
/// Required are the three types, the name and [`Tool::call`]. All other methods have defaults that err
/// on the safe side.
///
/// The description for the model is the doc comment of `Input`; the doc comments of its fields describe
/// the parameters.
pub trait Tool: Send + Sync + 'static {
    /// Arguments. Derive `Serialize`, `Deserialize` and `JsonSchema`.
    type Input: DeserializeOwned + Serialize + JsonSchema + Send + Sync + 'static;
    /// Structured result, before conversion to [`Content`] for the model.
    type Output: Serialize + Send + Sync + 'static;
    /// Payload of progress events; `()` for none.
    type Progress: Serialize + Send + 'static;

    /// Name the model calls.
    const NAME: &'static str;

    /// Executes the call. The only method with side effects. Checks that need the disk (freshness,
    /// uniqueness, file type) belong at its beginning, before anything is changed. Cancelled by dropping
    /// the future.
    fn call(
        &self,
        input: Self::Input,
        cx: &ToolContext<Self::Progress>,
    ) -> impl Future<Output = Result<Outcome<Self::Output>, ToolError>> + Send;

    /// Properties that do not depend on the input.
    fn traits(&self) -> Traits {
        Traits::default()
    }

    /// Whether the tool works in this environment; `false` removes it from the request.
    fn is_enabled(&self) -> bool {
        true
    }

    /// Called when the model has started to generate a call of this tool. May prepare what the first
    /// call needs, in another thread: it must return at once, and must have no visible effect, because
    /// the call may never be completed or be denied.
    fn foreseen(&self) {}

    /// Whether this call certainly changes nothing outside the process. A tool that reads files named in
    /// the input must declare them with [`Tool::path`] or [`Tool::reach`], so that path rules apply.
    fn is_read_only(&self, _input: &Self::Input) -> bool {
        false
    }

    /// Whether this call may run concurrently with other concurrency-safe calls.
    fn is_concurrency_safe(&self, _input: &Self::Input) -> bool {
        false
    }

    /// Whether this call destroys data irrecoverably.
    fn is_destructive(&self, _input: &Self::Input) -> bool {
        false
    }

    /// Converts input written for the alias `alias` of this tool, for example other units.
    /// [`Traits::synonyms`] have been applied before. Not called for input under the tool's own name.
    fn translate(&self, _alias: &str, _input: &mut Map<String, Value>) {}

    /// Tool name shown to users; [`Tool::NAME`] by default.
    fn user_facing_name(&self, _input: &Self::Input) -> String {
        Self::NAME.to_owned()
    }

    /// Rewrites the input to its canonical form (absolute paths, expanded `~`) before hooks and rules
    /// see it.
    fn canonicalize(&self, _input: &mut Self::Input, _cx: &CallContext) {}

    /// The path this call is about, if there is one.
    fn path<'a>(&self, _input: &'a Self::Input) -> Option<&'a Path> {
        None
    }

    /// Everything the call touches, for rules about paths, commands and domains. By default
    /// [`Tool::path`] is read or written; without a path it is undeclared.
    fn reach(&self, input: &Self::Input, _cx: &CallContext) -> AccessSet {
        match self.path(input) {
            None => AccessSet::Undeclared,
            Some(path) if self.is_read_only(input) => AccessSet::read(path),
            Some(path) => AccessSet::write(path),
        }
    }

    /// Checks that the schema cannot express. Must not do I/O. Runs before hooks and permission checks.
    fn validate(&self, _input: &Self::Input, _cx: &CallContext) -> Result<(), ToolError> {
        Ok(())
    }

    /// The tool's own verdict. [`Verdict::Passthrough`] leaves the decision to rules and mode, which ask
    /// by default.
    fn check_permissions(&self, _input: &Self::Input, _cx: &CallContext) -> Verdict {
        Verdict::Passthrough
    }

    /// The question this call puts to the user, if the call is one. A tool that
    /// returns one also sets [`Traits::needs_user`] and insists on being asked.
    fn user_interaction(&self, _input: &Self::Input) -> UserInteraction {
        UserInteraction::None
    }

    /// One line that describes the call in a permission prompt.
    fn describe(&self, input: &Self::Input) -> String {
        let subject = self.path(input).map(|path| path.display().to_string());
        match subject {
            Some(subject) => format!("{} {subject}", Self::NAME),
            None => {
                let input = serde_json::to_string(input).unwrap_or_default();
                format!("{} {}", Self::NAME, haft_types::text::one_line(&input, 120))
            }
        }
    }

    /// Description of the tool for the model. `doc` is the doc comment of `Input`.
    fn prompt(&self, doc: String) -> String {
        doc
    }

    /// JSON Schema of [`Tool::Output`], for programs that want one; see [`crate::schema_of`]. Computed
    /// on each call.
    fn output_schema(&self) -> Option<Value> {
        None
    }

    /// Converts the output to content for the model: a string is used unchanged, anything else as JSON.
    fn to_content(&self, output: &Self::Output) -> Content {
        crate::tool_output::content_of(output)
    }

    /// Content for the model when the output was replaced, for example by a hook. `None` to use JSON.
    fn reworded(&self, _data: &Value) -> Option<Content> {
        None
    }

    /// Rendering for users. By default a shortened preview of the model's content.
    fn render(&self, stage: Stage<'_, Self::Input, Self::Output>) -> Rendered {
        match stage {
            Stage::Running(input) => Rendered::headline(self.describe(input)),
            Stage::Done(output) => Rendered::preview(&self.to_content(output).to_text()),
            Stage::Failed(error) => Rendered::error(&error.message),
        }
    }

    /// Text about this call for a permission classifier; empty by default.
    fn classifier_input(&self, _input: &Self::Input) -> String {
        String::new()
    }
}

/// The stage of a call that [`Tool::render`] shows.
#[derive(Debug)]
pub enum Stage<'a, I, O> {
    /// The call is about to run or running.
    Running(&'a I),
    /// It returned a result.
    Done(&'a O),
    /// It failed at any stage.
    Failed(&'a ToolError),
}

/// Properties of a tool that do not depend on the input.
#[derive(Clone, Debug)]
pub struct Traits {
    /// Alternative names that are accepted.
    pub aliases: &'static [&'static str],
    /// Alternative parameter names that models use: `(alternative, actual)`. Applied if the actual
    /// parameter is missing.
    pub synonyms: &'static [(&'static str, &'static str)],
    /// Keywords for tool search.
    pub search_hint: &'static str,
    /// When the schema is sent to the model.
    pub exposure: Exposure,
    /// Results with more characters are written to disk. Default 50,000; `None` if the tool limits
    /// itself.
    pub max_result_chars: Option<usize>,
    /// Timeout of a call, which is then stopped. Default ten minutes; `None` if the tool limits itself.
    pub timeout: Option<Duration>,
    /// Feature in the settings that must be enabled for the tool to exist.
    pub feature: Option<&'static str>,
    /// Whether the tool exists only in sessions with a user who answers.
    pub needs_user: bool,
}

impl Default for Traits {
    fn default() -> Self {
        Self {
            aliases: &[],
            synonyms: &[],
            search_hint: "",
            exposure: Exposure::Direct,
            max_result_chars: Some(50_000),
            timeout: Some(Duration::from_secs(600)),
            feature: None,
            needs_user: false,
        }
    }
}

/// When a tool's schema is sent to the model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exposure {
    /// In every request, unless there are so many tools that it is deferred.
    Direct,
    /// In every request, regardless of the number of tools.
    Always,
    /// Only after tool search found it, or after it was called.
    Deferred,
}
