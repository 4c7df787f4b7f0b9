//! Structured output: output that must match a JSON Schema.

use std::sync::Arc;

use haft_model::ToolDef;
use haft_tool::{ErrorKind, check_input, schema_problem, wire_form};
use haft_tool_runtime::{AnsweredCall, CallReport};
use haft_types::{ToolUse, tags};
use serde_json::{Value, json};

use crate::EndReason;

/// Name of the tool that takes the output.
pub(crate) const STRUCTURED_OUTPUT: &str = "StructuredOutput";

/// Maximum number of attempts.
const ATTEMPTS: u32 = 5;

/// Validates the output of a prompt.
pub(crate) struct StructuredOutput {
    schema: Value,
    attempts: u32,
    problems: Vec<String>,
    output: Option<Value>,
}

impl StructuredOutput {
    pub(crate) fn new(schema: Value) -> Result<Self, String> {
        if !schema.is_object() {
            return Err(format!("an output schema must be a JSON object, got {schema}"));
        }
        if let Some(problem) = schema_problem(&schema) {
            return Err(problem);
        }
        Ok(Self { schema, attempts: 0, problems: Vec::new(), output: None })
    }

    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }

    pub(crate) fn definition(&self) -> ToolDef {
        let about =
            "Hands over the final result. Call it exactly once, when you are done; its input is the result.";
        ToolDef::new(STRUCTURED_OUTPUT, about, wire_form(&self.schema))
    }

    /// Validates an attempt. Values are not coerced.
    pub(crate) fn check(&mut self, input: &Value) -> Result<(), String> {
        let mut checked = input.clone();
        tags::restore_value(&mut checked);
        self.attempts += 1;
        match check_input(STRUCTURED_OUTPUT, &self.schema, &mut checked) {
            Ok(()) => {
                self.output = Some(checked);
                Ok(())
            }
            Err(error) => {
                self.problems.push(error.message.clone());
                Err(error.message)
            }
        }
    }

    /// Whether the calls of an answer end the prompt.
    pub(crate) fn look(&mut self, answered: &[Arc<AnsweredCall>]) -> Option<EndReason> {
        let attempt = answered.iter().find(|it| it.call.name == STRUCTURED_OUTPUT)?;
        match attempt.report.error {
            None => Some(EndReason::Completed),
            Some(ErrorKind::InvalidInput) if ATTEMPTS <= self.attempts => Some(self.exhausted()),
            Some(_) => None,
        }
    }

    /// The demand to a model that stopped without delivering output; an error after too many attempts.
    pub(crate) fn nudge(&mut self) -> Result<String, EndReason> {
        self.attempts += 1;
        if ATTEMPTS <= self.attempts {
            return Err(self.exhausted());
        }
        Ok(format!("You are not done yet: hand over the result by calling {STRUCTURED_OUTPUT}."))
    }

    pub(crate) fn take(&mut self) -> Option<Value> {
        self.attempts = 0;
        self.problems.clear();
        self.output.take()
    }

    fn exhausted(&self) -> EndReason {
        EndReason::NoStructuredOutput(self.problems.clone())
    }

    /// The result of an accepted attempt.
    pub(crate) fn accepted(call: &ToolUse) -> CallReport {
        let mut report = CallReport::refused(
            call.id.clone(),
            call.name.clone(),
            ErrorKind::Failed,
            "Structured output provided successfully",
        );
        report.error = None;
        report.data = Some(json!(report.content.to_text()));
        report
    }
}
