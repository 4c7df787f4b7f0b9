//! The terminal of Haft: a conversation in the terminal's own scrollback.
//!
//! Three pure functions and one thread. [`AppState::update`] takes what happened
//! and says what is to be done; [`fn@view`] turns the model into lines; [`Painter`]
//! turns lines into bytes, knowing what stands on the screen already. The thread
//! of [`driver`] owns the tty and connects them with the world.
//!
//! **Does not know** tools, agents, permissions, servers or sessions: a face
//! translates its session into [`UiUpdate`] and carries out [`TermEffect`]s.
//!
//! **Invariant:** a finished line is written once. It stands where the terminal
//! scrolled it, and is never drawn again, moved or erased by us.
//!
//! **Invariant:** only [`SafeText`] is drawn: foreign text cannot hold control
//! characters.
//!
//! **Invariant:** no key that was typed before a question could be read decides
//! it, and nothing that allows anything is preselected.
//!
//! **Invariant:** the terminal is given back as it was, however the program ends.

mod alternate_screen;
mod app_state;
mod completion;
mod composer;
mod display_width;
pub mod driver;
mod effect;
mod event;
mod highlight;
mod input;
mod keymap;
mod layout;
pub mod line_mode;
mod line_printer;
mod markdown;
mod overlay;
mod paint;
mod picker;
mod prompt_history;
mod question_card;
mod rendered_call;
mod sgr;
mod slash_commands;
mod styled_text;
mod terminal_caps;
mod theme;
mod transcript;
mod ui_update;
mod update;
mod vi;
mod view;

pub use alternate_screen::AlternatePainter;
pub use app_state::{AppState, OWN_COMMAND, ScreenSize};
pub use composer::{CaretMove, Composer};
pub use effect::{FileQuery, TermEffect};
pub use event::{KeyCode, KeyPress, TermEvent};
pub use input::{InputDecoder, InputItem};
pub use keymap::{KeyAction, KeyMap, key_table};
pub use layout::{ScreenRow, layout};
pub use line_printer::{LinePrinter, LiveLines};
pub use markdown::MarkdownStream;
pub use overlay::{Overlay, Pager};
pub use paint::{Caret, Painter};
pub use picker::Picker;
pub use prompt_history::PromptHistory;
pub use question_card::{CardAnswer, ChoiceOption, ChosenOption, QuestionCard, QuestionField, QuestionKind};
pub use slash_commands::{SLASH_COMMANDS, SlashEntry, SlashTarget, keys_page};
pub use styled_text::{ColorRole, SafeText, StyledLine, StyledSpan, TextStyle, WrapMode, width_of};
pub use terminal_caps::{AlertKind, ColorSupport, ScreenKind, TerminalCaps, WrapStyle};
pub use theme::{TermBackground, Theme};
pub use ui_update::{
    FinishedCall, PagerText, PastedImage, PickerRow, SlashName, StatusUpdate, TermPreferences, TodoState,
    TurnPhase, UiUpdate,
};
pub use view::{ScreenFrame, view};
