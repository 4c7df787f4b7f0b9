//! Vi keys.

use crate::{app_state::AppState, effect::TermEffect, event::KeyPress, keymap::KeyAction, vi::ViStep};

impl AppState {
    /// Handles a key if vi keys are enabled. Returns whether it was used.
    pub(super) fn vi_key(&mut self, key: KeyPress, effects: &mut Vec<TermEffect>) -> bool {
        if self.offers.is_open() && self.vi.is_inserting() {
            return false;
        }
        match self.vi.key(key, &mut self.composer) {
            ViStep::NotMine => return false,
            ViStep::Taken => (),
            ViStep::Rows { down, count } => {
                for _ in 0..count {
                    self.act(if down { KeyAction::Down } else { KeyAction::Up }, effects);
                }
                self.vi.stay_on_character(&mut self.composer);
            }
            ViStep::Copied(text) => effects.push(TermEffect::Copy(text)),
        }
        self.history.reset_cursor();
        self.draft_changed(effects);
        true
    }
}
