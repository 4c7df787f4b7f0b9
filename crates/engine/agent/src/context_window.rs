//! How much fits: what is known about the model, and what requests showed.

use haft_model::Request;
use haft_types::Usage;

use crate::Agent;

/// A window that nobody told is not taken for smaller than this.
const MIN_WINDOW: u64 = 4_000;

/// Where the beginning of requests fills most of the window, a conversation may take
/// this much beside it, or half of what is left there.
const MIN_TALK: u64 = 4_000;

/// The shortest answer that is asked for.
const MIN_ANSWER: u32 = 1_024;

/// An answer of this length is asked for where nobody says what fits.
const SHORT_ANSWER: u32 = 4_096;

/// What requests showed about the window of a model.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObservedWindow {
    model: String,
    /// What fits, where that is less than the list says.
    tokens: Option<u64>,
    /// How long answers may be, where nobody says what fits.
    answer: Option<u32>,
}

impl ObservedWindow {
    /// An answer was cut: the next one may be twice as long.
    pub(crate) fn raise_answer(&mut self) {
        self.answer = self.answer.map(|answer| answer.saturating_mul(2));
    }

    /// What was seen of another model says nothing about this one.
    fn of(&mut self, model: &str) -> &mut Self {
        if self.model != model {
            *self = Self { model: model.to_owned(), ..Self::default() };
        }
        self
    }
}

/// What a request that does not fit teaches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WindowOverflow {
    /// With a shorter answer the same request may fit.
    ShorterAnswer,
    /// The conversation has to become shorter.
    SmallerWindow,
}

/// What the next request takes of the window, and how much it may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct WindowMeasure {
    pub(crate) tokens: u64,
    /// As much as the next request may take.
    pub(crate) enough: u64,
    /// The same, with room for some more after it.
    pub(crate) to_work_in: u64,
}

impl Agent {
    /// What fits: what requests showed, else what is known about the model.
    pub fn window(&self) -> u64 {
        let known = self.provider.info(&self.settings.model).window;
        let seen = self.seen_window.tokens.filter(|_| self.seen_window.model == self.settings.model);
        seen.map_or(known, |seen| seen.min(known))
    }

    /// The window of a model and its longest answer, in tokens: what requests showed, else
    /// what is known about it.
    pub fn limits_of(&self, model: &str) -> (u64, u64) {
        let info = self.provider.info(model);
        let seen = self.seen_window.tokens.filter(|_| self.seen_window.model == model);
        (seen.map_or(info.window, |seen| seen.min(info.window)), info.max_output)
    }

    /// Lets the provider find out what fits into the model, where it has to ask.
    pub(crate) async fn ask_window(&mut self) {
        let model = self.settings.model.clone();
        let before = self.provider.info(&model).window;
        self.provider.prepare(&model).await;
        let window = self.provider.info(&model).window;
        if let Some(tokens) = self.settings.compact_at_tokens.filter(|_| window != before) {
            self.settings.compact_at(tokens, window);
        }
    }

    /// Measures the next request. What every request begins with cannot be made
    /// shorter: where it fills most of the window, half of what it leaves is for the
    /// conversation, however full that makes the window.
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

    /// A request did not fit: the window is smaller than the list says. Where nobody
    /// says how small, it may be the answer that has no room; if not, the window is
    /// smaller than what was just sent.
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

    /// A request was answered: so much fits at least.
    pub(crate) fn window_held(&mut self, used: &Usage) {
        let held = used.total_input() + used.output_tokens;
        let seen = self.seen_window.of(&self.settings.model);
        seen.tokens = seen.tokens.map(|tokens| tokens.max(held));
    }

    /// The list does not know a window that was seen, so nobody else leaves room for
    /// the request itself.
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
