//! Decides when the cursor is parked, in terminals that wrap rows again before they report a resize (see
//! `paint/parked`): from the first frame of a turn until the terminal has confirmed, afterwards, that
//! its size is still the one painted for.

use crate::app_state::ScreenSize;

/// Queries the terminal's size.
pub(super) const ASK_SIZE: &[u8] = b"\x1b[18t";
/// Delay of the size query after the last frame; longer than multiplexers delay a resize.
const CALM_MS: u64 = 300;
/// Timeout of the answer.
const ANSWER_MS: u64 = 1000;

/// Position of the cursor between frames.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum CursorParking {
    /// At the caret.
    #[default]
    Free,
    /// At the top of the region; the size is queried at this time.
    Parked { ask_at: u64 },
    /// At the top of the region; the query times out at this time.
    Asked { give_up_at: u64 },
}

impl CursorParking {
    /// Whether the cursor is parked by the next frame. Parked while the session works and for some time
    /// after, unless it is needed at the caret.
    pub(super) fn is_for_frame(&mut self, may_park: bool, is_working: bool, now: u64) -> bool {
        if !may_park {
            *self = Self::Free;
        } else if is_working {
            *self = Self::Parked { ask_at: now + CALM_MS };
        }
        *self != Self::Free
    }

    /// Whether the size has to be queried now.
    pub(super) fn is_to_ask(&mut self, now: u64) -> bool {
        match *self {
            Self::Parked { ask_at } if ask_at <= now => {
                *self = Self::Asked { give_up_at: now + ANSWER_MS };
                true
            }
            _ => false,
        }
    }

    /// Handles the reported size or a timeout. Returns whether the cursor may move to the caret.
    pub(super) fn is_confirmed(&mut self, said: Option<ScreenSize>, drawn: ScreenSize, now: u64) -> bool {
        let Self::Asked { give_up_at } = *self else { return false };
        match said {
            // tmux 3.3 reports columns first.
            Some(size) if size == drawn || size == turned(drawn) => *self = Self::Free,
            // A resize event follows, after which everything is painted again.
            Some(_) => *self = Self::Parked { ask_at: now + CALM_MS },
            None if give_up_at <= now => *self = Self::Free,
            None => (),
        }
        *self == Self::Free
    }

    /// Returns when to check again.
    pub(super) fn deadline(self) -> Option<u64> {
        match self {
            Self::Free => None,
            Self::Parked { ask_at: at } | Self::Asked { give_up_at: at } => Some(at),
        }
    }
}

fn turned(size: ScreenSize) -> ScreenSize {
    ScreenSize { columns: size.rows, rows: size.columns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_is_unparked_after_size_confirmation() {
        let size = |columns| ScreenSize { columns, rows: 24 };
        let mut parking = CursorParking::default();
        assert!(!parking.is_for_frame(true, false, 0), "nothing is parked for a person who types");
        assert!(parking.is_for_frame(true, true, 0));
        assert!(parking.is_for_frame(true, false, 100), "it stays parked at first");
        assert!(!parking.is_to_ask(299));
        assert!(parking.is_to_ask(300));
        // A different size: painted again, and queried again.
        assert!(!parking.is_confirmed(Some(size(60)), size(80), 310));
        assert!(parking.is_to_ask(610));
        // New work before the answer makes it outdated.
        assert!(parking.is_for_frame(true, true, 620));
        assert!(!parking.is_confirmed(Some(size(80)), size(80), 630));
        assert!(parking.is_to_ask(920));
        assert!(!parking.is_confirmed(None, size(80), 1900));
        assert!(parking.is_confirmed(Some(turned(size(80))), size(80), 1910));
        assert_eq!(parking.deadline(), None);
        // While the user types, the cursor is at the caret.
        assert!(parking.is_for_frame(true, true, 1950) && !parking.is_for_frame(false, true, 1960));
        // A terminal that never answers.
        assert!(parking.is_for_frame(true, true, 2000) && parking.is_to_ask(2300));
        assert!(parking.is_confirmed(None, size(80), 3300) && !parking.is_for_frame(true, false, 3300));
    }
}
