//! Untrusted text, everywhere it is shown.

use haft_tool::{LineStyle, Rendered, RenderedLine};
use haft_tui::{
    ChoiceOption, FinishedCall, PagerText, PastedImage, PickerRow, QuestionField, QuestionKind, SlashName,
    StatusUpdate, TermEvent, TodoState, TurnPhase, UiUpdate,
};

use crate::rig::{Rig, ended, question, text};

/// What terminals obey: erasing, titles, links, clipboard, device control, C1 controls, bidirectional
/// controls, bell, carriage return.
const PAYLOADS: [&str; 12] = [
    "\u{1b}[2Jx",
    "\u{1b}[3Jx",
    "\u{1b}]0;stolen\u{7}x",
    "\u{1b}]8;;http://evil.test\u{1b}\\x",
    "\u{1b}]52;c;ZXZpbA==\u{7}x",
    "\u{1b}P+q544e\u{1b}\\x",
    "\u{9b}2Jx",
    "\u{9d}0;stolen\u{9c}x",
    "\u{202e}txt.exe\u{2066}x",
    "a\0b\u{7f}x",
    "first\rsecond",
    "\u{1b}[?1049h\u{1b}[?1000hx",
];

/// All updates that contain untrusted text, with the payload in every field.
fn all_news(evil: &str) -> Vec<UiUpdate> {
    let it = || evil.to_owned();
    let line = || RenderedLine::new(LineStyle::Plain, evil);
    let row = || PickerRow { id: it(), title: it(), detail: it(), preview: vec![line()] };
    let choice = || ChoiceOption {
        key: 'y',
        label: it(),
        detail: vec![it()],
        words: true,
        given: it(),
        ..ChoiceOption::default()
    };
    let asked = |kind: QuestionKind| {
        let UiUpdate::Asked(mut card) = question("q") else { unreachable!("it is a question") };
        (card.from, card.title, card.headline) = (Some(it()), it(), it());
        (card.body, card.kind) = (vec![line()], kind);
        UiUpdate::Asked(card)
    };
    let field = QuestionField { name: it(), label: it(), hint: it(), value: it() };
    let meter = StatusUpdate {
        model: Some(it()),
        mode: Some(it()),
        effort: Some(it()),
        place: Some(it()),
        status_line: Some(it()),
        ..StatusUpdate::default()
    };
    let call = FinishedCall {
        id: String::from("1"),
        agent: Some(it()),
        name: it(),
        headline: it(),
        failed: false,
        rendered: Rendered { headline: it(), lines: vec![line()], ..Rendered::default() },
        whole: None,
    };
    vec![
        UiUpdate::Ready(vec![SlashName { name: it(), about: it(), hint: it() }]),
        UiUpdate::SaidBefore(it()),
        UiUpdate::TurnBegan,
        UiUpdate::Meter(meter),
        UiUpdate::Thinking(it()),
        text(&format!(
            "{evil}\n\n`{evil}`\n\n[{evil}](http://x/{evil})\n\n```{evil}\n{evil}\n```\n\n- {evil}\n\n| {evil} |\n|---|\n| {evil} |\n\n"
        )),
        UiUpdate::BlockEnded,
        UiUpdate::CallBegan { id: String::from("1"), agent: Some(it()), name: it(), headline: it() },
        UiUpdate::CallProgress { id: String::from("1"), tail: vec![it()], note: it() },
        UiUpdate::Phase(TurnPhase::Calling(it())),
        UiUpdate::Phase(TurnPhase::Retrying { why: it(), in_ms: 5000, attempt: (1, 2) }),
        UiUpdate::CallEnded(Box::new(call)),
        UiUpdate::Notice(it()),
        UiUpdate::Todos(vec![(it(), TodoState::Doing)]),
        UiUpdate::AgentBegan { id: String::from("a"), title: it() },
        UiUpdate::AgentNews { id: String::from("a"), news: Box::new(text(evil)) },
        asked(QuestionKind::Choice(vec![choice(), choice()])),
        UiUpdate::AnswerRefused { id: String::from("q"), why: it() },
        UiUpdate::Withdrawn(String::from("q")),
        asked(QuestionKind::Many(vec![choice(), choice()])),
        UiUpdate::Withdrawn(String::from("q")),
        asked(QuestionKind::Form(vec![field])),
        UiUpdate::Withdrawn(String::from("q")),
        UiUpdate::Picture(PastedImage::There { path: it(), label: it() }),
        UiUpdate::Picture(PastedImage::Missing { text: it(), why: it() }),
        UiUpdate::Draft(it()),
        UiUpdate::Panel(PagerText { title: it(), text: it(), lines: vec![line()], paged: false }),
        UiUpdate::TurnEnded { problem: Some(it()), interrupted: false },
        UiUpdate::Panel(PagerText { title: it(), text: it(), lines: vec![line()], paged: true }),
        UiUpdate::Tasks(vec![row()]),
        UiUpdate::Pick { purpose: it(), title: it(), rows: vec![row()], previewed: false },
    ]
}

/// Removes all sequences that the interface itself writes.
fn without_ours(written: &str) -> String {
    let mut rest = written.to_owned();
    // Links end with the sequence they start with.
    while let Some(at) = rest.find("\u{1b}]8;") {
        let end = rest[at..].find("\u{1b}\\").map_or(rest.len(), |it| at + it + 2);
        assert!(!rest[at + 2..end - 2].contains('\u{1b}'), "a link within a link: {:?}", &rest[at..end]);
        rest.replace_range(at..end, "");
    }
    let ours = ["?2026h", "?2026l", "?1049h", "?1049l", "?1007h", "?1007l", ">1u", "<u", "2K", "J", "K"];
    for it in ours {
        rest = rest.replace(&format!("\u{1b}[{it}"), "");
    }
    rest.replace("\u{1b}[?1049h\u{1b}[2J", "")
}

#[test]
fn untrusted_text_never_controls_terminal() {
    for evil in PAYLOADS {
        let mut rig = Rig::new(100, 40);
        for news in all_news(evil) {
            rig.news(news);
            rig.frame();
            rig.wait(500);
            // Open fields of questions and rows of pickers.
            rig.key("down");
            if rig.model.overlay().is_some() {
                rig.key("esc");
            }
        }
        rig.event(TermEvent::Paste(evil.to_owned()));
        rig.key("ctrl+o");
        rig.key("q");
        rig.news(ended());
        rig.news(UiUpdate::Farewell(vec![evil.to_owned()]));
        rig.frame();
        let written = String::from_utf8_lossy(&rig.written).into_owned();
        // On the alternate screen everything is erased first, once each time.
        let rest = without_ours(&written.replace("\u{1b}[>1u\u{1b}[2J", ""));
        let control = rest.chars().find(|it| it.is_control() && !matches!(it, '\u{1b}' | '\r' | '\n'));
        assert_eq!(control, None, "{evil:?} came through");
        for never in ['\u{202e}', '\u{2066}', '\u{9b}', '\u{9d}', '\u{9c}'] {
            assert!(!rest.contains(never), "{evil:?}: {never:?}");
        }
        for piece in rest.split('\u{1b}').skip(1) {
            let body = piece.strip_prefix('[').unwrap_or_else(|| panic!("{evil:?}: ESC {:.9}", piece));
            let end = body.find(|it: char| it.is_ascii_alphabetic() || it == '@').unwrap_or(0);
            let last = body[end..].chars().next().unwrap_or(' ');
            let numbers = body[..end].chars().all(|it| it.is_ascii_digit() || it == ';');
            assert!(numbers && "ABCDGHLMPXm@".contains(last), "{evil:?}: ESC [{}", &body[..end + 1]);
        }
        assert!(!rest.contains("\rsecond"), "{evil:?}: a carriage return came through");
    }
}
