//! When the cursor is parked, in terminals that wrap rows anew before they say so
//! (see `paint/parked`): from the first frame of some work until the terminal has
//! confirmed, after it, that it still has the size things were drawn for.

use crate::app_state::ScreenSize;

/// Asks the terminal for its size.
pub(super) const ASK_SIZE: &[u8] = b"\x1b[18t";
/// After the last frame of work the terminal is asked so much later: longer than a
/// multiplexer keeps a new size to itself.
const CALM_MS: u64 = 300;
/// An answer is waited for so long; then there is none.
const ANSWER_MS: u64 = 1000;

/// Where the cursor is between frames.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum CursorParking {
    /// At the caret.
    #[default]
    Free,
    /// At the top of the region; the terminal is asked then.
    Parked { ask_at: u64 },
    /// At the top of the region; the terminal was asked, and is given up then.
    Asked { give_up_at: u64 },
}

impl CursorParking {
    /// A frame is drawn: whether the cursor is parked by it. It is while the session
    /// works, and stays so at first, but not where it is needed at the caret.
    pub(super) fn is_for_frame(&mut self, may_park: bool, is_working: bool, now: u64) -> bool {
        if !may_park {
            *self = Self::Free;
        } else if is_working {
            *self = Self::Parked { ask_at: now + CALM_MS };
        }
        *self != Self::Free
    }

    /// Time has passed since the last frame: whether the terminal is to be asked.
    pub(super) fn is_to_ask(&mut self, now: u64) -> bool {
        match *self {
            Self::Parked { ask_at } if ask_at <= now => {
                *self = Self::Asked { give_up_at: now + ANSWER_MS };
                true
            }
            _ => false,
        }
    }

    /// The terminal said what size it has, or was waited for in vain: whether the cursor
    /// may go to the caret.
    pub(super) fn is_confirmed(&mut self, said: Option<ScreenSize>, drawn: ScreenSize, now: u64) -> bool {
        let Self::Asked { give_up_at } = *self else { return false };
        match said {
            // tmux 3.3 says columns first.
            Some(size) if size == drawn || size == turned(drawn) => *self = Self::Free,
            // It will tell about it, and everything is drawn anew then.
            Some(_) => *self = Self::Parked { ask_at: now + CALM_MS },
            None if give_up_at <= now => *self = Self::Free,
            None => (),
        }
        *self == Self::Free
    }

    /// When to look again.
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
    fn the_cursor_is_free_when_the_terminal_said_so() {
        let size = |columns| ScreenSize { columns, rows: 24 };
        let mut parking = CursorParking::default();
        assert!(!parking.is_for_frame(true, false, 0), "nothing is parked for a person who types");
        assert!(parking.is_for_frame(true, true, 0));
        assert!(parking.is_for_frame(true, false, 100), "it stays parked at first");
        assert!(!parking.is_to_ask(299));
        assert!(parking.is_to_ask(300));
        // Another size: it is drawn anew, and asked again.
        assert!(!parking.is_confirmed(Some(size(60)), size(80), 310));
        assert!(parking.is_to_ask(610));
        // Work goes on before the answer comes: the answer is old.
        assert!(parking.is_for_frame(true, true, 620));
        assert!(!parking.is_confirmed(Some(size(80)), size(80), 630));
        assert!(parking.is_to_ask(920));
        assert!(!parking.is_confirmed(None, size(80), 1900));
        assert!(parking.is_confirmed(Some(turned(size(80))), size(80), 1910));
        assert_eq!(parking.deadline(), None);
        // Somebody types: the cursor is where they do.
        assert!(parking.is_for_frame(true, true, 1950) && !parking.is_for_frame(false, true, 1960));
        // A terminal that never answers.
        assert!(parking.is_for_frame(true, true, 2000) && parking.is_to_ask(2300));
        assert!(parking.is_confirmed(None, size(80), 3300) && !parking.is_for_frame(true, false, 3300));
    }
}
