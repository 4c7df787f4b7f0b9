use std::{borrow::Borrow, time::Instant};

use haft_model::StopReason;
use haft_tool_runtime::AnsweredCall;
use haft_types::Usage;

use crate::{DeniedToolCall, unusable::Demanded};

/// State of a running prompt.
pub(crate) struct TurnProgress {
    pub(crate) started: Instant,
    pub(crate) usage_before: Usage,
    pub(crate) usage_of_others: Usage,
    pub(crate) messages: u32,
    pub(crate) denials: Vec<DeniedToolCall>,
    pub(crate) stop_reason: Option<StopReason>,
    pub(crate) cuts: u32,
    /// The last compaction step that made space for a request that did not fit.
    pub(crate) rung: u32,
    pub(crate) stop_blocks: u32,
    /// Whether the input is a request, not a report of background work.
    pub(crate) is_asked: bool,
    /// Whether the model has called a tool.
    pub(crate) has_called: bool,
    /// Whether a call had a usable result.
    pub(crate) has_result: bool,
    pub(crate) demanded: Demanded,
}

impl TurnProgress {
    pub(crate) fn new(usage_before: Usage) -> Self {
        Self {
            started: Instant::now(),
            usage_before,
            usage_of_others: Usage::default(),
            messages: 1,
            denials: Vec::new(),
            stop_reason: None,
            cuts: 0,
            rung: 0,
            stop_blocks: 0,
            is_asked: false,
            has_called: false,
            has_result: false,
            demanded: Demanded::default(),
        }
    }

    pub(crate) fn count(&mut self, answered: &[impl Borrow<AnsweredCall>]) {
        // The results of one answer count as one turn.
        self.messages += u32::from(!answered.is_empty());
        self.has_called |= !answered.is_empty();
        self.has_result |= answered.iter().any(|it| it.borrow().report.error.is_none());
        self.denials.extend(answered.iter().filter_map(|it| DeniedToolCall::from_answered(it.borrow())));
    }
}
