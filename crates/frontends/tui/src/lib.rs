//! Terminal user interface: a conversation in the terminal's own scrollback.
//!
//! Three pure functions and a thread. [`AppState::update`] processes an event and returns effects;
//! [`fn@view`] renders the state to lines; [`Painter`] converts lines to bytes, knowing what is on the
//! screen. The thread of [`driver`] owns the tty and connects them.
//!
//! **Out of scope**: tools, agents, permissions, MCP servers, sessions. A frontend converts session
//! events to [`UiUpdate`]s and carries out [`TermEffect`]s.
//!
//! **Invariant:** a finished line is written once. It stays where the terminal scrolled it and is never
//! painted again, moved or erased.
//!
//! **Invariant:** only [`SafeText`] is painted, which cannot contain control characters.
//!
//! **Invariant:** a key typed before a question was visible never answers it, and no option that allows
//! something is preselected.
//!
//! **Invariant:** the terminal's state is restored however the program ends.

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
pub use slash_commands::{SLASH_COMMANDS, SlashEntry, SlashTarget, keys_page, slash_commands_page};
pub use styled_text::{ColorRole, SafeText, StyledLine, StyledSpan, TextStyle, WrapMode, width_of};
pub use terminal_caps::{AlertKind, ColorSupport, ScreenKind, TerminalCaps, WrapStyle};
pub use theme::{TermBackground, Theme};
pub use ui_update::{
    FinishedCall, PagerText, PastedImage, PickerRow, SlashName, StatusUpdate, TermPreferences, TodoState,
    TurnPhase, UiUpdate,
};
pub use view::{ScreenFrame, view};
