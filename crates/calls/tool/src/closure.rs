use std::{future::Future, marker::PhantomData, sync::Arc};

use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    DynTool, Outcome, Output, RawTool, Rendering, ToolContext, ToolError, ToolHints, ToolSpec, Traits, input,
    schema, tool_output::content_of,
};

/// Makes a tool out of a closure.
///
/// ```
/// # use haft_tool::{Outcome, tool};
/// # use schemars::JsonSchema;
/// # use serde::Deserialize;
/// #[derive(Deserialize, JsonSchema)]
/// struct Args {
///     /// Whom to greet.
///     name: String,
/// }
///
/// let greet = tool("greet", "Greets somebody.", async |args: Args, _cx| {
///     Ok(format!("hello {}", args.name).into())
/// })
/// .read_only()
/// .build();
/// assert_eq!(greet.name(), "greet");
/// ```
///
/// It runs alone and asks first, until the builder says otherwise.
pub fn tool<A, T, F, Fut>(name: &str, description: &str, run: F) -> ToolBuilder<A, T, F>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    T: Serialize + Send + Sync + 'static,
    F: Fn(A, ToolContext<Value>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome<T>, ToolError>> + Send + 'static,
{
    ToolBuilder {
        name: name.to_owned(),
        description: description.to_owned(),
        claims: ToolHints::default(),
        traits: Traits::default(),
        run,
        types: PhantomData,
    }
}

/// Builds a tool from a closure; finish with [`ToolBuilder::build`].
pub struct ToolBuilder<A, T, F> {
    name: String,
    description: String,
    claims: ToolHints,
    traits: Traits,
    run: F,
    types: PhantomData<fn(A) -> T>,
}

impl<A, T, F, Fut> ToolBuilder<A, T, F>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    T: Serialize + Send + Sync + 'static,
    F: Fn(A, ToolContext<Value>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome<T>, ToolError>> + Send + 'static,
{
    /// Declares that the tool changes nothing outside the process: it runs without asking.
    pub fn read_only(mut self) -> Self {
        self.claims.read_only = true;
        self
    }

    /// Declares that its calls may run concurrently.
    pub fn concurrency_safe(mut self) -> Self {
        self.claims.concurrency_safe = true;
        self
    }

    /// Declares that its calls destroy data irrecoverably.
    pub fn destructive(mut self) -> Self {
        self.claims.destructive = true;
        self
    }

    /// Sets the static properties of the tool.
    pub fn traits(mut self, traits: Traits) -> Self {
        self.traits = traits;
        self
    }

    /// Finishes the tool.
    pub fn build(self) -> Arc<dyn DynTool> {
        let Self { name, description, claims, traits, run, .. } = self;
        let spec = ToolSpec {
            name: name.clone(),
            description,
            input_schema: Arc::new(schema::input_schema::<A>().checked),
            search_hint: traits.search_hint.to_owned(),
            exposure: traits.exposure,
            max_result_chars: traits.max_result_chars,
            timeout: traits.timeout,
        };
        let parse = {
            let schema = spec.input_schema.clone();
            move |input: &Value| input::parse::<A>(&name, &schema, input)
        };
        let parse = Arc::new(parse);
        let precheck = Arc::clone(&parse);
        let aliases = traits.aliases.iter().map(ToString::to_string).collect();
        let raw = RawTool::new(spec, move |input, cx| {
            let running = parse(&input).map(|args| run(args, cx));
            Box::pin(async move { Ok(output(running?.await?)) })
        });
        Arc::new(
            raw.trust(claims)
                .with_aliases(aliases)
                .with_feature(traits.feature)
                .with_needs_user(traits.needs_user)
                .with_precheck(move |input| precheck(input).map(drop)),
        )
    }
}

fn output<T: Serialize>(outcome: Outcome<T>) -> Output {
    let content = content_of(&outcome.data);
    Output {
        data: serde_json::to_value(&outcome.data).unwrap_or(Value::Null),
        new_messages: outcome.new_messages,
        changes: outcome.changes,
        meta: outcome.meta,
        rendering: Rendering::preview_of(content.to_text()),
        content,
    }
}
