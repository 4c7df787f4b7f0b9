use std::sync::{Mutex, PoisonError};

use haft_tool::{AllowReason, BoxFuture, DynCall};

use crate::{
    Behavior, Decision, Policy,
    evaluate::DecisionStrength,
    reason::ReasonDetail,
    rule::{Rule, RuleSubject},
};

/// Answers in the person's place in auto mode.
pub trait Classifier: Send + Sync {
    /// Looks at one call. Never sees what other tools returned.
    fn classify<'a>(&'a self, request: &'a ClassifierRequest) -> BoxFuture<'a, ClassifierAnswer>;
}

/// What a classifier may see of a call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClassifierRequest {
    /// The tool.
    pub tool: String,
    /// One line about the call.
    pub description: String,
    /// What the tool lets a classifier see of its input.
    pub input: String,
    /// Why the call would ask.
    pub reason: String,
}

/// What a classifier says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ClassifierAnswer {
    /// It may run.
    Approve,
    /// It must not run, for this reason.
    Block(String),
    /// It cannot say, or could not be reached: the person is asked.
    Abstain,
}

/// What a classifier said before it was certain that it would be asked. Counts
/// only for the very same question.
#[derive(Clone, Debug)]
pub struct SpeculativeAnswer {
    request: ClassifierRequest,
    answer: ClassifierAnswer,
}

impl Policy {
    /// Asks the classifier of auto mode now what it may be asked later.
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

    /// Lets the classifier of auto mode answer what would ask. Everything else
    /// comes back as it was.
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

/// Counts what a classifier blocks; after three in a row or twenty in all the
/// person is asked again, because something is amiss.
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

    /// A person looked: counting starts again.
    pub(crate) fn reset(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = BlockCounts::default();
    }
}

/// Tools that can do anything.
const SWEEPING_TOOLS: &[&str] = &["Bash", "Agent", "Monitor", "REPL"];

/// Programs that run whatever they are given.
const SWEEPING_COMMANDS: &[&str] = &[
    "bash", "bun", "bunx", "deno", "env", "eval", "exec", "npx", "node", "perl", "php", "pnpx", "python",
    "python3", "ruby", "sh", "ssh", "sudo", "uvx", "xargs", "zsh",
];

/// Whether an allow rule approves so much that a classifier would be pointless
/// next to it.
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
