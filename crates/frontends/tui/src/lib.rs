//! The terminal of Haft: a conversation in the terminal's own scrollback.
//!
//! Three pure functions and one thread. [`AppState::update`] takes what happened
//! and says what is to be done; [`view`] turns the model into lines; [`Painter`]
//! turns lines into bytes, knowing what stands on the screen already. The thread
//! of [`shell`] owns the tty and connects them with the world.
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

mod alternate;
mod asks;
mod code;
mod commands;
mod complete;
mod composer;
mod effect;
mod event;
mod history;
mod input;
mod keymap;
mod layout;
mod look;
mod markdown;
mod model;
mod news;
mod overlay;
mod paint;
mod picker;
pub mod plain;
mod print;
mod rendered;
mod sgr;
pub mod shell;
mod text;
mod theme;
mod transcript;
mod update;
mod vi;
mod view;
mod width;

pub use alternate::AlternatePainter;
pub use asks::{CardAnswer, ChoiceOption, ChosenOption, QuestionCard, QuestionField, QuestionKind};
pub use commands::{SLASH_COMMANDS, SlashEntry, SlashTarget, commands_page, keys_page};
pub use composer::{CaretMove, Composer};
pub use effect::{FileQuery, TermEffect};
pub use event::{KeyCode, KeyPress, TermEvent};
pub use history::PromptHistory;
pub use input::{InputDecoder, InputItem};
pub use keymap::{KeyAction, KeyMap, key_table};
pub use layout::{ScreenRow, layout};
pub use look::{AlertKind, ColorSupport, ScreenKind, TerminalCaps, WrapStyle};
pub use markdown::MarkdownStream;
pub use model::{AppState, OWN_COMMAND, ScreenSize};
pub use news::{
    FinishedCall, PagerText, PastedImage, PickerRow, SlashName, StatusUpdate, TermPreferences, TodoState,
    TurnPhase, UiUpdate,
};
pub use overlay::{Overlay, Pager};
pub use paint::{Caret, Painter};
pub use picker::Picker;
pub use print::{LinePrinter, LiveLines};
pub use text::{ColorRole, SafeText, StyledLine, StyledSpan, TextStyle, WrapMode, width_of};
pub use theme::{TermBackground, Theme};
pub use view::{ScreenFrame, view};
