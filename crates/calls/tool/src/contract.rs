use std::{future::Future, path::Path, time::Duration};

use haft_types::Content;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{AccessSet, CallContext, Outcome, Rendered, ToolContext, ToolError, UserInteraction, Verdict};

/// What a tool author writes.
///
/// Five things are required: the three types, the name and [`Tool::call`].
/// Every other method has a default, and every default errs on the safe side.
///
/// The model-facing description is the doc comment of `Input`; the doc comments
/// of its fields describe the parameters. There is no second place to keep in
/// step.
pub trait Tool: Send + Sync + 'static {
    /// Arguments. Derive `Serialize`, `Deserialize` and `JsonSchema`.
    type Input: DeserializeOwned + Serialize + JsonSchema + Send + Sync + 'static;
    /// Structured result, before it is turned into model-facing [`Content`].
    type Output: Serialize + Send + Sync + 'static;
    /// Payload of progress events. Use `()` when there are none.
    type Progress: Serialize + Send + 'static;

    /// Name the model calls.
    const NAME: &'static str;

    /// Does the work. The only method with side effects. What needs the disk to
    /// be judged (freshness, uniqueness, file type) is checked here first,
    /// before anything is changed.
    fn call(
        &self,
        input: Self::Input,
        cx: &ToolContext<Self::Progress>,
    ) -> impl Future<Output = Result<Outcome<Self::Output>, ToolError>> + Send;

    /// Facts that do not depend on the input.
    fn traits(&self) -> Traits {
        Traits::default()
    }

    /// Whether the tool can work in this environment; `false` removes it from
    /// the request.
    fn is_enabled(&self) -> bool {
        true
    }

    /// The model has begun to write a call of this tool. What a first call would
    /// wait for may be made ready meanwhile, on another thread: this is asked where
    /// answers are read and returns at once. It changes nothing anybody could
    /// notice, for the call may never come, or not be allowed.
    fn foreseen(&self) {}

    /// True only if this call cannot change anything outside the process. A
    /// tool that reads files the input names says which with [`Tool::path`] or
    /// [`Tool::reach`], so that path rules apply.
    fn is_read_only(&self, _input: &Self::Input) -> bool {
        false
    }

    /// True only if this call may overlap with other concurrency-safe calls.
    fn is_concurrency_safe(&self, _input: &Self::Input) -> bool {
        false
    }

    /// True if this call loses data that cannot be brought back.
    fn is_destructive(&self, _input: &Self::Input) -> bool {
        false
    }

    /// Understands input that was written for another name of this tool, such
    /// as an alias that counts in other units. What [`Traits::synonyms`] say is
    /// done before. Input under the tool's own name is never changed here.
    fn translate(&self, _alias: &str, _input: &mut Map<String, Value>) {}

    /// What a person reads as the tool's name; its own by default.
    fn user_facing_name(&self, _input: &Self::Input) -> String {
        Self::NAME.to_owned()
    }

    /// Rewrites the input to its canonical form (absolute paths, expanded `~`)
    /// before any hook or rule sees it.
    fn canonicalize(&self, _input: &mut Self::Input, _cx: &CallContext) {}

    /// The one path this call is about, if it is about one.
    fn path<'a>(&self, _input: &'a Self::Input) -> Option<&'a Path> {
        None
    }

    /// Everything the call touches, for path, command and domain rules. The
    /// default reads or writes [`Tool::path`].
    fn reach(&self, input: &Self::Input, _cx: &CallContext) -> AccessSet {
        match self.path(input) {
            None => AccessSet::Undeclared,
            Some(path) if self.is_read_only(input) => AccessSet::read(path),
            Some(path) => AccessSet::write(path),
        }
    }

    /// Checks the schema cannot express. Pure: no IO. Runs before hooks and
    /// permissions.
    fn validate(&self, _input: &Self::Input, _cx: &CallContext) -> Result<(), ToolError> {
        Ok(())
    }

    /// The tool's own opinion. [`Verdict::Passthrough`] leaves it to the rules
    /// and the mode, which ask when in doubt.
    fn check_permissions(&self, _input: &Self::Input, _cx: &CallContext) -> Verdict {
        Verdict::Passthrough
    }

    /// The question this call puts to the user, if the call is one. A tool that
    /// returns one also sets [`Traits::needs_user`] and insists on being asked.
    fn user_interaction(&self, _input: &Self::Input) -> UserInteraction {
        UserInteraction::None
    }

    /// One line for the person who is asked whether this call may run.
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

    /// What the model is told about the tool; `doc` is the doc comment of `Input`.
    fn prompt(&self, doc: String) -> String {
        doc
    }

    /// Schema of [`Tool::Output`], for programs that want one; see
    /// [`crate::schema_of`]. Made anew each time somebody asks.
    fn output_schema(&self) -> Option<Value> {
        None
    }

    /// Turns the output into what the model reads: a string as it is, anything
    /// else as JSON.
    fn to_content(&self, output: &Self::Output) -> Content {
        crate::tool_output::content_of(output)
    }

    /// What the model reads when somebody, such as a hook, put other data in the
    /// place of the output. `None` where JSON says it as well as anything.
    fn reworded(&self, _data: &Value) -> Option<Content> {
        None
    }

    /// What a person sees. The default shows what the model reads, cut.
    fn render(&self, stage: Stage<'_, Self::Input, Self::Output>) -> Rendered {
        match stage {
            Stage::Running(input) => Rendered::headline(self.describe(input)),
            Stage::Done(output) => Rendered::preview(&self.to_content(output).to_text()),
            Stage::Failed(error) => Rendered::error(&error.message),
        }
    }

    /// What an approving classifier may see of this call; nothing by default.
    fn classifier_input(&self, _input: &Self::Input) -> String {
        String::new()
    }
}

/// The moment of a call that [`Tool::render`] shows.
#[derive(Debug)]
pub enum Stage<'a, I, O> {
    /// It is about to run, or runs.
    Running(&'a I),
    /// It came back with a result.
    Done(&'a O),
    /// It failed at any stage.
    Failed(&'a ToolError),
}

/// Facts about a tool that do not depend on one call.
#[derive(Clone, Debug)]
pub struct Traits {
    /// Other names still accepted.
    pub aliases: &'static [&'static str],
    /// Names models use for parameters that are called otherwise: `(theirs,
    /// ours)`. Taken where ours is not given.
    pub synonyms: &'static [(&'static str, &'static str)],
    /// A few words for tool search.
    pub search_hint: &'static str,
    /// Whether the schema is sent at once or on demand.
    pub exposure: Exposure,
    /// Larger results go to disk; `None` means the tool bounds itself.
    pub max_result_chars: Option<usize>,
    /// A call that takes longer is stopped; `None` means the tool bounds itself.
    pub timeout: Option<Duration>,
    /// Switch in the settings that must be on for the tool to exist.
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

/// When the model gets to see a tool's schema.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exposure {
    /// In every request, unless a threshold defers it.
    Direct,
    /// In every request, whatever any threshold says.
    Always,
    /// Only after tool search found it, or after it was called.
    Deferred,
}
