use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use haft_types::{Content, text};
use serde_json::{Map, Value};

use crate::{
    AccessSet, CallContext, Exposure, Output, Permit, Rendered, Rendering, Stage, Tool, ToolContext,
    ToolError, UserInteraction, Verdict, input,
    schema::{self, InputSchema},
};

/// A boxed `Send` future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A tool as stored in the registry.
///
/// Typed tools are converted with [`erase`]. Tools whose schema is known only at run time (MCP, SDK
/// callbacks) are [`crate::RawTool`]s.
pub trait DynTool: Send + Sync {
    /// Name the model calls. Cheap: does not build the schema.
    fn name(&self) -> &str;

    /// Alternative names. Cheap: does not build the schema.
    fn aliases(&self) -> Vec<String>;

    /// Feature in the settings that must be enabled for the tool to exist.
    fn feature(&self) -> Option<&str>;

    /// See [`Traits::needs_user`]. Cheap: needs no schema.
    ///
    /// [`Traits::needs_user`]: crate::Traits::needs_user
    fn needs_user(&self) -> bool {
        false
    }

    /// See [`Tool::is_enabled`].
    fn is_enabled(&self) -> bool;

    /// Specification for the model and the runtime. Built on first use and cached.
    fn spec(&self) -> &ToolSpec;

    /// Description for the model, as in its [`ToolSpec`]. Cheaper if the specification was not built
    /// yet.
    fn description(&self) -> String {
        self.spec().description.clone()
    }

    /// When the schema is sent to the model. Cheap: does not build the schema.
    fn exposure(&self) -> Exposure;

    /// See [`Tool::output_schema`].
    fn output_schema(&self) -> Option<Value> {
        None
    }

    /// See [`Tool::reworded`].
    fn reworded(&self, _data: &Value) -> Option<Content> {
        None
    }

    /// Converts input in place: renames synonymous parameters and converts input for the alias `called`.
    /// Does nothing by default, because external tools define their own parameters.
    fn translate(&self, _called: &str, _input: &mut Value) {}

    /// See [`Tool::foreseen`].
    fn foreseen(&self) {}

    /// Validates the input against the schema and binds it to the tool.
    fn parse(self: Arc<Self>, input: Value, cx: &CallContext) -> Result<Box<dyn DynCall>, ToolError>;
}

/// A tool with input that passed its schema.
///
/// All further queries go to this object, so the input is parsed once and unchecked input cannot be
/// used.
pub trait DynCall: Send + Sync {
    /// Canonical input, for hooks, rules and the transcript.
    fn input(&self) -> &Value;
    /// See [`Tool::is_read_only`].
    fn is_read_only(&self) -> bool;
    /// See [`Tool::is_concurrency_safe`].
    fn is_concurrency_safe(&self) -> bool;
    /// See [`Tool::is_destructive`].
    fn is_destructive(&self) -> bool;
    /// See [`Tool::reach`].
    fn reach(&self, cx: &CallContext) -> AccessSet;
    /// See [`Tool::validate`].
    fn validate(&self, cx: &CallContext) -> Result<(), ToolError>;
    /// See [`Tool::check_permissions`].
    fn check_permissions(&self, cx: &CallContext) -> Verdict;
    /// See [`Tool::user_interaction`].
    fn user_interaction(&self) -> UserInteraction {
        UserInteraction::None
    }
    /// See [`Tool::describe`].
    fn describe(&self) -> String;
    /// See [`Tool::classifier_input`].
    fn classifier_input(&self) -> String;
    /// See [`Tool::user_facing_name`]. Empty to use the registry's name.
    fn user_facing_name(&self) -> String {
        String::new()
    }
    /// See [`Tool::render`], while the call runs.
    fn render(&self) -> Rendered;
    /// See [`Tool::call`]. Consumes the permit.
    fn run(self: Box<Self>, permit: Permit, cx: CallContext)
    -> BoxFuture<'static, Result<Output, ToolError>>;
}

/// Specification of a tool for the model and the runtime.
#[derive(Clone, Debug)]
pub struct ToolSpec {
    /// Name the model calls.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// Strict JSON Schema of the input, in the form that providers accept.
    pub input_schema: Arc<Value>,
    /// Keywords for tool search.
    pub search_hint: String,
    /// When the schema is sent to the model.
    pub exposure: Exposure,
    /// Results with more characters are written to disk; `None` if the tool limits itself.
    pub max_result_chars: Option<usize>,
    /// Timeout of a call, which is then stopped; `None` if the tool limits itself.
    pub timeout: Option<Duration>,
}

/// Erases the types of a tool. Its schema is built on first use.
pub fn erase<T: Tool>(tool: T) -> Arc<dyn DynTool> {
    Arc::new(Erased { tool, built: OnceLock::new() })
}

struct Erased<T> {
    tool: T,
    built: OnceLock<BuiltSpec>,
}

struct BuiltSpec {
    spec: ToolSpec,
    /// Schema that input is checked against; `spec.input_schema` may be its flattened form.
    checked: Value,
}

impl<T: Tool> Erased<T> {
    fn built(&self) -> &BuiltSpec {
        self.built.get_or_init(|| {
            let traits = self.tool.traits();
            let InputSchema { checked, doc } = schema::input_schema::<T::Input>();
            let spec = ToolSpec {
                name: T::NAME.to_owned(),
                description: self.tool.prompt(doc),
                input_schema: Arc::new(schema::wire_form(&checked)),
                search_hint: traits.search_hint.to_owned(),
                exposure: traits.exposure,
                max_result_chars: traits.max_result_chars,
                timeout: traits.timeout,
            };
            BuiltSpec { spec, checked }
        })
    }
}

impl<T: Tool> DynTool for Erased<T> {
    fn name(&self) -> &str {
        T::NAME
    }

    fn aliases(&self) -> Vec<String> {
        self.tool.traits().aliases.iter().map(ToString::to_string).collect()
    }

    fn feature(&self) -> Option<&str> {
        self.tool.traits().feature
    }

    fn needs_user(&self) -> bool {
        self.tool.traits().needs_user
    }

    fn is_enabled(&self) -> bool {
        self.tool.is_enabled()
    }

    fn foreseen(&self) {
        self.tool.foreseen();
    }

    fn spec(&self) -> &ToolSpec {
        &self.built().spec
    }

    fn description(&self) -> String {
        match self.built.get() {
            Some(built) => built.spec.description.clone(),
            None => self.tool.prompt(schema::doc_of::<T::Input>()),
        }
    }

    fn exposure(&self) -> Exposure {
        self.tool.traits().exposure
    }

    fn output_schema(&self) -> Option<Value> {
        self.tool.output_schema()
    }

    fn reworded(&self, data: &Value) -> Option<Content> {
        self.tool.reworded(data)
    }

    fn translate(&self, called: &str, input: &mut Value) {
        let Value::Object(object) = input else { return };
        input::translate(&self.built().checked, self.tool.traits().synonyms, object);
        if called != T::NAME {
            self.tool.translate(called, object);
        }
    }

    fn parse(self: Arc<Self>, mut input: Value, cx: &CallContext) -> Result<Box<dyn DynCall>, ToolError> {
        let schema = &self.built().checked;
        input::check(T::NAME, schema, &mut input)?;
        let mut typed: T::Input = input::parse(T::NAME, schema, &input)?;
        self.tool.canonicalize(&mut typed, cx);
        let json = canonical_json(&typed, &input)?;
        Ok(Box::new(Call { erased: self, typed, json }))
    }
}

/// The canonical input for hooks and rules, without `null` for omitted parameters.
fn canonical_json(typed: &impl serde::Serialize, given: &Value) -> Result<Value, ToolError> {
    let mut json = serde_json::to_value(typed).map_err(|err| ToolError::invalid(err.to_string()))?;
    if let (Value::Object(object), Value::Object(given)) = (&mut json, given) {
        object.retain(|key, value| !value.is_null() || given.contains_key(key));
    }
    if json.is_null() {
        json = Value::Object(Map::new());
    }
    Ok(json)
}

struct Call<T: Tool> {
    erased: Arc<Erased<T>>,
    typed: T::Input,
    json: Value,
}

impl<T: Tool> DynCall for Call<T> {
    fn input(&self) -> &Value {
        &self.json
    }

    fn is_read_only(&self) -> bool {
        self.erased.tool.is_read_only(&self.typed)
    }

    fn is_concurrency_safe(&self) -> bool {
        self.erased.tool.is_concurrency_safe(&self.typed)
    }

    fn is_destructive(&self) -> bool {
        self.erased.tool.is_destructive(&self.typed)
    }

    fn reach(&self, cx: &CallContext) -> AccessSet {
        self.erased.tool.reach(&self.typed, cx)
    }

    fn validate(&self, cx: &CallContext) -> Result<(), ToolError> {
        self.erased.tool.validate(&self.typed, cx)
    }

    fn check_permissions(&self, cx: &CallContext) -> Verdict {
        self.erased.tool.check_permissions(&self.typed, cx)
    }

    fn user_interaction(&self) -> UserInteraction {
        self.erased.tool.user_interaction(&self.typed)
    }

    fn describe(&self) -> String {
        text::one_line(&self.erased.tool.describe(&self.typed), 400)
    }

    fn classifier_input(&self) -> String {
        self.erased.tool.classifier_input(&self.typed)
    }

    fn user_facing_name(&self) -> String {
        self.erased.tool.user_facing_name(&self.typed)
    }

    fn render(&self) -> Rendered {
        self.erased.tool.render(Stage::Running(&self.typed))
    }

    fn run(
        self: Box<Self>,
        permit: Permit,
        cx: CallContext,
    ) -> BoxFuture<'static, Result<Output, ToolError>> {
        Box::pin(async move {
            let Self { erased, typed, .. } = *self;
            let cx = ToolContext::<T::Progress>::new(cx, permit);
            let outcome = erased.tool.call(typed, &cx).await?;
            let content = erased.tool.to_content(&outcome.data);
            let data = serde_json::to_value(&outcome.data).unwrap_or(Value::Null);
            let typed = outcome.data;
            Ok(Output {
                content,
                data,
                new_messages: outcome.new_messages,
                changes: outcome.changes,
                meta: outcome.meta,
                rendering: Rendering::new(move || erased.tool.render(Stage::Done(&typed))),
            })
        })
    }
}
