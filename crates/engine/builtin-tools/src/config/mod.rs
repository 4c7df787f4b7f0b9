//! Reads settings, and changes those a model may change.

use std::sync::Arc;

use haft_tool::{
    AccessSet, BoxFuture, CallContext, Content, Exposure, Outcome, Tool, ToolContext, ToolError, Traits,
};
use haft_types::nearest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Reads or changes one setting of Haft. Without `value` it reads; with `value` it changes the
/// setting for this user. Settings that decide what is allowed (permissions, hooks, env, sandbox,
/// MCP servers, keys) can be read here but only changed by a person.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Name of the setting, with dots for nested ones: `model`, `permissions.defaultMode`.
    #[schemars(length(min = 1, max = 200))]
    pub setting: String,
    /// New value; leave it out to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Scalar>,
}

/// A value a model may set.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Scalar {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Text.
    Text(String),
}

/// A setting and where its value comes from.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    setting: String,
    value: Value,
    /// Which file or flag says so.
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<Value>,
}

/// The value of a setting and its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The effective value.
    pub value: Value,
    /// The file or flag that sets it.
    pub source: Option<String>,
}

/// Reads and changes settings. Implemented by the session, which knows the settings files.
pub trait SettingsAccess: Send + Sync {
    /// Returns the effective value; `None` if no settings layer sets it.
    fn get(&self, setting: &str) -> Option<Setting>;
    /// Returns all setting names, for suggestions.
    fn known(&self) -> Vec<String>;
    /// Changes the value in the user's settings. An error says why it was rejected.
    fn set<'a>(&'a self, setting: &'a str, value: Value) -> BoxFuture<'a, Result<(), String>>;
}

/// No settings: nothing is set and changes fail.
#[derive(Clone, Copy, Debug)]
pub struct NoSettings;

impl SettingsAccess for NoSettings {
    fn get(&self, _setting: &str) -> Option<Setting> {
        None
    }

    fn known(&self) -> Vec<String> {
        Vec::new()
    }

    fn set<'a>(&'a self, _setting: &'a str, _value: Value) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Err(String::from("there are no settings here")) })
    }
}

/// Settings a model may change. An allow list, because any other setting may affect permissions now or
/// later.
const CHANGEABLE: &[&str] = &[
    "alwaysThinkingEnabled",
    "autoCompactEnabled",
    "cleanupPeriodDays",
    "effortLevel",
    "includeGitInstructions",
    "language",
    "model",
    "outputStyle",
    "prefersReducedMotion",
    "respectGitignore",
    "showTurnDuration",
    "spinnerTipsEnabled",
    "syntaxHighlightingDisabled",
    "theme",
    "verbose",
];

/// Settings whose values are or may contain secrets.
const SECRET: &[&str] =
    &["env", "apiKeyHelper", "awsCredentialExport", "proxyAuthHelper", "otelHeadersHelper"];

pub struct Config {
    settings: Arc<dyn SettingsAccess>,
}

impl Config {
    pub fn new(settings: Arc<dyn SettingsAccess>) -> Self {
        Self { settings }
    }
}

fn root_of(setting: &str) -> &str {
    setting.split('.').next().unwrap_or(setting)
}

impl Tool for Config {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "Config";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            exposure: Exposure::Deferred,
            search_hint: "read or change settings preferences model theme",
            ..Traits::default()
        }
    }

    fn is_read_only(&self, input: &Input) -> bool {
        input.value.is_none()
    }

    fn is_concurrency_safe(&self, input: &Input) -> bool {
        input.value.is_none()
    }

    // A change outlives the session and affects a file that the call does not name. Declaring no
    // accesses makes it ask and blocks it in plan mode. Reading does neither.
    fn reach(&self, _input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::Undeclared
    }

    fn validate(&self, input: &Input, _cx: &CallContext) -> Result<(), ToolError> {
        if input.value.is_some() && !CHANGEABLE.contains(&input.setting.as_str()) {
            let list = CHANGEABLE.join(", ");
            return Err(ToolError::invalid(format!(
                "{} cannot be changed by a tool; ask the user to change it. These can: {list}",
                input.setting
            )));
        }
        Ok(())
    }

    fn describe(&self, input: &Input) -> String {
        match &input.value {
            None => format!("Read the setting {}", input.setting),
            Some(value) => {
                let value = serde_json::to_string(value).unwrap_or_default();
                format!("Set {} to {value}", input.setting)
            }
        }
    }

    async fn call(&self, input: Input, _cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let before = self.settings.get(&input.setting);
        let Some(value) = input.value else {
            return read(&*self.settings, input.setting, before).map(Outcome::from);
        };
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        self.settings
            .set(&input.setting, value)
            .await
            .map_err(|problem| ToolError::failed(format!("{} was not changed: {problem}", input.setting)))?;
        let after = self.settings.get(&input.setting);
        let (value, source) = after.map_or((Value::Null, None), |it| (it.value, it.source));
        let previous = Some(before.map_or(Value::Null, |it| it.value));
        Ok(Output { setting: input.setting, value, source, previous }.into())
    }

    fn to_content(&self, output: &Output) -> Content {
        let from = output.source.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
        Content::text(match &output.previous {
            None => format!("{} = {}{from}", output.setting, output.value),
            Some(previous) => format!("{} = {}{from}, was {previous}", output.setting, output.value),
        })
    }
}

fn read(settings: &dyn SettingsAccess, name: String, found: Option<Setting>) -> Result<Output, ToolError> {
    if let Some(Setting { value, source }) = found {
        let value = if SECRET.contains(&root_of(&name)) { Value::from("(set, not shown)") } else { value };
        return Ok(Output { setting: name, value, source, previous: None });
    }
    let known = settings.known();
    if known.iter().any(|it| it == root_of(&name)) {
        return Ok(Output { setting: name, value: Value::Null, source: None, previous: None });
    }
    let meant = nearest(&name, known.iter().map(String::as_str), 3);
    let hint =
        if meant.is_empty() { String::new() } else { format!("; did you mean {}?", meant.join(" or ")) };
    Err(ToolError::failed(format!("There is no setting named {name}{hint}")))
}
