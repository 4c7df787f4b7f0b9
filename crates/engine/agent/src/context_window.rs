//! The size of the context window: from the catalog, or learnt from requests.

use haft_model::Request;
use haft_types::Usage;

use crate::Agent;

/// Minimum size in tokens assumed for an unknown window.
const MIN_WINDOW: u64 = 4_000;

/// If system prompt and tools fill most of the window, the conversation may use this many tokens, or
/// half of the rest.
const MIN_TALK: u64 = 4_000;

/// Minimum output limit of a request, in tokens.
const MIN_ANSWER: u32 = 1_024;

/// Output limit for models of unknown size, in tokens.
const SHORT_ANSWER: u32 = 4_096;

/// The window of a model as learnt from requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObservedWindow {
    model: String,
    /// Size in tokens, if smaller than in the catalog.
    tokens: Option<u64>,
    /// Output limit in tokens, if the catalog does not know it.
    answer: Option<u32>,
}

impl ObservedWindow {
    /// Doubles the output limit after a truncated answer.
    pub(crate) fn raise_answer(&mut self) {
        self.answer = self.answer.map(|answer| answer.saturating_mul(2));
    }

    /// Resets the state when the model changes.
    fn of(&mut self, model: &str) -> &mut Self {
        if self.model != model {
            *self = Self { model: model.to_owned(), ..Self::default() };
        }
        self
    }
}

/// What follows from a request that does not fit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WindowOverflow {
    /// The same request may fit with a lower output limit.
    ShorterAnswer,
    /// The conversation must be compacted.
    SmallerWindow,
}

/// Size of the next request and its limits, in tokens.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct WindowMeasure {
    pub(crate) tokens: u64,
    /// Maximum size of the next request.
    pub(crate) enough: u64,
    /// Maximum size that leaves space for several more requests.
    pub(crate) to_work_in: u64,
}

impl Agent {
    /// The context window in tokens: learnt from requests, otherwise from the catalog.
    pub fn window(&self) -> u64 {
        let known = self.provider.info(&self.settings.model).window;
        let seen = self.seen_window.tokens.filter(|_| self.seen_window.model == self.settings.model);
        seen.map_or(known, |seen| seen.min(known))
    }

    /// Context window and maximum output of a model, in tokens: learnt from requests, otherwise from the
    /// catalog.
    pub fn limits_of(&self, model: &str) -> (u64, u64) {
        let info = self.provider.info(model);
        let seen = self.seen_window.tokens.filter(|_| self.seen_window.model == model);
        (seen.map_or(info.window, |seen| seen.min(info.window)), info.max_output)
    }

    /// Asks the provider for the model's window, if it has to be queried.
    pub(crate) async fn ask_window(&mut self) {
        let model = self.settings.model.clone();
        let before = self.provider.info(&model).window;
        self.provider.prepare(&model).await;
        let window = self.provider.info(&model).window;
        if let Some(tokens) = self.settings.compact_at_tokens.filter(|_| window != before) {
            self.settings.compact_at(tokens, window);
        }
    }

    /// Measures the next request. System prompt and tools cannot be shortened: if they fill most of the
    /// window, the conversation gets half of the rest.
    pub(crate) fn measure(&mut self) -> WindowMeasure {
        let mut request = self.request();
        let tokens = self.provider.estimate_tokens(&request);
        request.messages.clear();
        let head = self.provider.estimate_tokens(&request);
        let window = self.window();
        let share = window * u64::from(self.settings.compact_at_percent) / 100;
        let (enough, kept) = if window / 2 < head {
            (share.max(head + (window.saturating_sub(head) / 2).min(MIN_TALK)), head)
        } else {
            (share, 0)
        };
        WindowMeasure { tokens, enough, to_work_in: kept + enough.saturating_sub(kept) * 4 / 5 }
    }

    /// Updates the window after a request that did not fit. If the provider names no size, first the
    /// output limit is lowered, then the window is assumed to be smaller than the request.
    pub(crate) fn learn_window(&mut self, told: Option<u64>) -> WindowOverflow {
        let request = self.request();
        let sent = self.provider.estimate_tokens(&request);
        let seen = self.seen_window.of(&self.settings.model);
        if told.is_none() && SHORT_ANSWER < request.max_tokens {
            seen.answer = Some(SHORT_ANSWER);
            return WindowOverflow::ShorterAnswer;
        }
        let learnt = told.unwrap_or_else(|| (sent * 9 / 10).max(MIN_WINDOW));
        seen.tokens = Some(seen.tokens.map_or(learnt, |before| before.min(learnt)));
        WindowOverflow::SmallerWindow
    }

    /// Updates the window after an answered request: at least its size fits.
    pub(crate) fn window_held(&mut self, used: &Usage) {
        let held = used.total_input() + used.output_tokens;
        let seen = self.seen_window.of(&self.settings.model);
        seen.tokens = seen.tokens.map(|tokens| tokens.max(held));
    }

    /// Lowers the output limit of a request for a learnt window, which the provider layer does not know.
    pub(crate) fn leave_room(&self, request: &mut Request) {
        let seen = &self.seen_window;
        if seen.model != request.model {
            return;
        }
        let most = seen.answer.unwrap_or(u32::MAX);
        let left = seen.tokens.map_or(u32::MAX, |window| {
            let left = window.saturating_sub(self.provider.estimate_tokens(request) * 5 / 4 + 500);
            u32::try_from(left).unwrap_or(u32::MAX)
        });
        request.max_tokens = request.max_tokens.min(most).min(left.max(MIN_ANSWER));
    }
}
