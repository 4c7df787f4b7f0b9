use std::sync::{Mutex, PoisonError};

use haft_tool::{AllowReason, BoxFuture, DynCall};

use crate::{
    Behavior, Decision, Policy,
    evaluate::DecisionStrength,
    reason::ReasonDetail,
    rule::{Rule, RuleSubject},
};

/// Decides in the user's place in auto mode.
pub trait Classifier: Send + Sync {
    /// Classifies one call. Never gets results of other tools.
    fn classify<'a>(&'a self, request: &'a ClassifierRequest) -> BoxFuture<'a, ClassifierAnswer>;
}

/// What a classifier sees of a call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClassifierRequest {
    pub tool: String,
    /// One-line description of the call.
    pub description: String,
    /// The part of the input that the tool discloses to classifiers.
    pub input: String,
    /// Why the call would ask.
    pub reason: String,
}

/// Answer of a classifier.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ClassifierAnswer {
    /// The call may run.
    Approve,
    /// The call must not run, for this reason.
    Block(String),
    /// Undecided or unreachable: the user is asked.
    Abstain,
}

/// An answer requested before it was known to be needed. Used only for an identical request.
#[derive(Clone, Debug)]
pub struct SpeculativeAnswer {
    request: ClassifierRequest,
    answer: ClassifierAnswer,
}

impl Policy {
    /// Asks the classifier in advance.
    pub(crate) async fn foresee(
        &self,
        decision: &Decision,
        tool: &str,
        call: &dyn DynCall,
    ) -> Option<SpeculativeAnswer> {
        let classifier = self.classifier().filter(|_| decision.is_classifiable())?;
        let request = request(decision, tool, call);
        let answer = classifier.classify(&request).await;
        Some(SpeculativeAnswer { request, answer })
    }

    /// Lets the classifier answer a decision that would ask. Others are returned unchanged.
    pub async fn classify(
        &self,
        decision: Decision,
        tool: &str,
        call: &dyn DynCall,
        foreseen: Option<SpeculativeAnswer>,
    ) -> Decision {
        let Some(classifier) = self.classifier().filter(|_| decision.is_classifiable()) else {
            return decision;
        };
        let request = request(&decision, tool, call);
        let answer = match foreseen.filter(|it| it.request == request) {
            Some(foreseen) => foreseen.answer,
            None => classifier.classify(&request).await,
        };
        match answer {
            ClassifierAnswer::Approve => {
                let approved = ReasonDetail::Classifier { blocked: None };
                decision.answered(DecisionStrength::Allowed, &approved)
            }
            ClassifierAnswer::Block(reason) => {
                let blocked = ReasonDetail::Classifier { blocked: Some(reason) };
                decision.answered(DecisionStrength::Denied, &blocked)
            }
            ClassifierAnswer::Abstain => decision,
        }
    }
}

fn request(decision: &Decision, tool: &str, call: &dyn DynCall) -> ClassifierRequest {
    ClassifierRequest {
        tool: tool.to_owned(),
        description: call.describe(),
        input: call.classifier_input(),
        reason: decision.reason.clone(),
    }
}

impl Decision {
    fn answered(mut self, standing: DecisionStrength, why: &ReasonDetail) -> Self {
        self.behavior = standing.behavior();
        self.reason = why.to_string();
        self.source = why.source();
        self.allowed_by = AllowReason::Mode;
        self.standing = standing;
        self.classifiable = false;
        self.suggestions.clear();
        self
    }
}

/// Counts blocks by the classifier. After three in a row or twenty in total the user is asked instead.
#[derive(Debug, Default)]
pub(crate) struct CircuitBreaker(Mutex<BlockCounts>);

#[derive(Clone, Copy, Debug, Default)]
struct BlockCounts {
    in_a_row: u32,
    in_all: u32,
}

const MAX_IN_A_ROW: u32 = 3;
const MAX_IN_ALL: u32 = 20;

impl CircuitBreaker {
    pub(crate) fn is_open(&self) -> bool {
        let blocks = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        MAX_IN_A_ROW <= blocks.in_a_row || MAX_IN_ALL <= blocks.in_all
    }

    pub(crate) fn count(&self, behavior: Behavior) {
        let mut blocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match behavior {
            Behavior::Allow => blocks.in_a_row = 0,
            Behavior::Ask => (),
            Behavior::Deny => {
                blocks.in_a_row = blocks.in_a_row.saturating_add(1);
                blocks.in_all = blocks.in_all.saturating_add(1);
            }
        }
    }

    /// Resets the counts after the user answered.
    pub(crate) fn reset(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = BlockCounts::default();
    }
}

/// Tools that can do anything.
const SWEEPING_TOOLS: &[&str] = &["Bash", "Agent", "Monitor", "REPL"];

/// Programs that run arbitrary code.
const SWEEPING_COMMANDS: &[&str] = &[
    "bash", "bun", "bunx", "deno", "env", "eval", "exec", "npx", "node", "perl", "php", "pnpx", "python",
    "python3", "ruby", "sh", "ssh", "sudo", "uvx", "xargs", "zsh",
];

/// Whether an allow rule is so broad that it would bypass the classifier.
pub(crate) fn is_sweeping(rule: &Rule) -> bool {
    match &rule.about {
        RuleSubject::Everything => rule.name.exact().is_some_and(|name| SWEEPING_TOOLS.contains(&name)),
        RuleSubject::Command(pattern) => match pattern.first_word() {
            None => true,
            Some(word) => pattern.is_prefix() && SWEEPING_COMMANDS.contains(&word),
        },
        RuleSubject::Path(_)
        | RuleSubject::Domain(_)
        | RuleSubject::Named(_)
        | RuleSubject::Input
        | RuleSubject::Broken(_) => false,
    }
}
