//! A configurable call, and short functions to evaluate it.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "shared by several test binaries"
)]

use std::{path::Path, sync::Arc};

use haft_permission::{Behavior, Decision, Destination, HookOpinion, Policy, PolicyBuilder, RuleSource};
use haft_tool::{
    Access, AccessSet, BoxFuture, CallContext, DynCall, Output, Permit, Rendered, ToolError, Verdict,
};
use haft_types::PermissionMode;
use serde_json::Value;

/// A call with predefined answers.
#[derive(Clone, Debug)]
pub struct Call {
    pub input: Value,
    pub read_only: bool,
    pub reach: AccessSet,
    pub verdict: Verdict,
}

impl Call {
    pub fn touching(accesses: Vec<Access>) -> Self {
        let read_only = accesses.iter().all(|it| matches!(it, Access::Read(_)));
        Self {
            input: Value::Object(serde_json::Map::new()),
            read_only,
            reach: AccessSet::Declared(accesses),
            verdict: Verdict::Passthrough,
        }
    }

    pub fn undeclared() -> Self {
        Self { reach: AccessSet::Undeclared, read_only: false, ..Self::touching(Vec::new()) }
    }

    pub fn read(path: impl AsRef<Path>) -> Self {
        Self::touching(vec![Access::Read(path.as_ref().to_owned())])
    }

    pub fn write(path: impl AsRef<Path>) -> Self {
        Self::touching(vec![Access::Write(path.as_ref().to_owned())])
    }

    pub fn command(line: &str) -> Self {
        Self::touching(vec![Access::Command(line.into())])
    }

    pub fn fetch(address: &str) -> Self {
        Self::touching(vec![Access::Fetch(address.to_owned())])
    }

    pub fn named(name: &str) -> Self {
        Self::touching(vec![Access::Named(name.to_owned())])
    }

    pub fn named_twice(name: &str, with_arguments: &str) -> Self {
        Self::touching(vec![Access::Named(name.to_owned()), Access::Named(with_arguments.to_owned())])
    }

    pub fn with_verdict(mut self, verdict: Verdict) -> Self {
        self.verdict = verdict;
        self
    }

    pub fn with_input(mut self, input: Value) -> Self {
        self.input = input;
        self
    }

    pub fn reading(mut self) -> Self {
        self.read_only = true;
        self
    }
}

impl DynCall for Call {
    fn input(&self) -> &Value {
        &self.input
    }
    fn is_read_only(&self) -> bool {
        self.read_only
    }
    fn is_concurrency_safe(&self) -> bool {
        false
    }
    fn is_destructive(&self) -> bool {
        false
    }
    fn reach(&self, _cx: &CallContext) -> AccessSet {
        self.reach.clone()
    }
    fn validate(&self, _cx: &CallContext) -> Result<(), ToolError> {
        Ok(())
    }
    fn check_permissions(&self, _cx: &CallContext) -> Verdict {
        self.verdict.clone()
    }
    fn describe(&self) -> String {
        String::from("a call")
    }
    fn classifier_input(&self) -> String {
        String::from("what it does")
    }
    fn render(&self) -> Rendered {
        Rendered::headline("a call")
    }
    fn run(
        self: Box<Self>,
        _permit: Permit,
        _cx: CallContext,
    ) -> BoxFuture<'static, Result<Output, ToolError>> {
        Box::pin(async { Err(ToolError::invalid("not made to run")) })
    }
}

pub fn context(cwd: &Path, home: Option<&Path>) -> CallContext {
    CallContext { home: home.map(Arc::from), ..CallContext::detached("call_1", cwd) }
}

/// Rules of a test, by behaviour.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules<'a> {
    pub allow: &'a [&'a str],
    pub ask: &'a [&'a str],
    pub deny: &'a [&'a str],
}

pub fn settings() -> RuleSource {
    RuleSource::new("project settings", Destination::ProjectSettings)
}

pub fn with_rules(builder: PolicyBuilder, rules: Rules<'_>) -> PolicyBuilder {
    builder
        .rules(&settings(), Behavior::Allow, rules.allow.iter().copied())
        .rules(&settings(), Behavior::Ask, rules.ask.iter().copied())
        .rules(&settings(), Behavior::Deny, rules.deny.iter().copied())
}

/// A policy for a workspace that need not exist.
pub fn policy(mode: PermissionMode, rules: Rules<'_>) -> Policy {
    with_rules(Policy::builder("/ws").home("/home/u").mode(mode), rules).build()
}

pub fn judge(policy: &Policy, tool: &str, call: &Call) -> Decision {
    judge_with(policy, tool, call, &HookOpinion::None)
}

pub fn judge_with(policy: &Policy, tool: &str, call: &Call, hook: &HookOpinion) -> Decision {
    policy.judge(tool, call, &context(Path::new("/ws"), Some(Path::new("/home/u"))), hook)
}
