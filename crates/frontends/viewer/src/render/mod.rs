//! Renders the views of a session, for pages and file.

mod agents;
mod cost;
mod dashboard;
mod files;
mod markdown;
mod numbers;
mod permissions;
mod rows;
mod waterfall;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256};

use self::numbers::{counted, money};
pub(crate) use self::{
    agents::agents,
    cost::{cost, window},
    dashboard::dashboard,
    files::{UndoOffer, files},
    permissions::permissions,
    rows::{RowForm, detail, row, shown_picture},
    waterfall::timeline,
};
use crate::{
    agent_list::ShownAgent, html::Html, journal_changes::JournalChange, log_index::LogIndex,
    timestamps::moment,
};

pub(crate) const STYLE: &str = include_str!("../../assets/style.css");

/// Renders a session as a self-contained page. `state_dir` contains the undo journal.
pub fn page(index: &LogIndex, state_dir: Option<&std::path::Path>) -> String {
    let nodes = ShownAgent::all(index, None);
    let changes = JournalChange::all(index, state_dir);
    let mut out = Html::default();
    let digest = STANDARD.encode(Sha256::digest(STYLE));
    let name = index.name();
    out.raw("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    out.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-");
    out.text(&digest).raw("'; img-src data:; base-uri 'none'; form-action 'none'\">\n");
    out.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    out.raw("<meta name=\"referrer\" content=\"no-referrer\">\n<title>");
    out.text(&name)
        .raw(" · Haft</title>\n<style>")
        .raw(STYLE)
        .raw("</style></head>\n<body class=\"file\">\n");
    out.raw("<header><h1>").text(&name).raw("</h1>");
    facts(&mut out, index);
    out.raw("<nav aria-label=\"Parts\">");
    out.raw("<a href=\"#conversation\">Conversation</a><a href=\"#timeline\">Timeline</a><a href=\"#cost\">Cost</a>");
    out.raw(
        "<a href=\"#window\">Window</a><a href=\"#files\">Files</a><a href=\"#permission\">Permission</a>",
    );
    out.raw("<a href=\"#agents\">Agents</a></nav></header>\n<main>\n");
    section(&mut out, "conversation", "Conversation", |out| {
        out.raw("<div class=\"rows\">");
        (0..index.rows.len()).for_each(|number| row(out, index, number, RowForm::Whole));
        out.raw("</div>");
    });
    section(&mut out, "timeline", "Timeline", |out| timeline(out, index, None));
    section(&mut out, "cost", "Cost and cache", |out| cost(out, index));
    section(&mut out, "window", "What filled the window", |out| window(out, index));
    section(&mut out, "files", "Files", |out| files(out, &changes, UndoOffer::Told));
    section(&mut out, "permission", "Permission", |out| permissions(out, index));
    section(&mut out, "agents", "Agents", |out| agents(out, &nodes));
    out.raw("</main>\n</body></html>\n");
    out.into_text()
}

fn section(out: &mut Html, id: &'static str, title: &'static str, inside: impl FnOnce(&mut Html)) {
    out.raw("<section aria-labelledby=\"")
        .raw(id)
        .raw("\"><h2 id=\"")
        .raw(id)
        .raw("\">")
        .raw(title)
        .raw("</h2>\n");
    inside(out);
    out.raw("</section>\n");
}

/// Renders one line of facts about a session.
pub(crate) fn facts(out: &mut Html, index: &LogIndex) {
    let mut facts = vec![format!("session {}", index.id())];
    if !index.cwd.is_empty() {
        facts.push(index.cwd.clone());
    }
    facts.extend(index.began.map(moment));
    facts.push(counted(index.calls.len(), "call"));
    facts.push(format!("{}, {}", counted(index.requests.len(), "request"), money(index.usd())));
    if 0 < index.unread {
        facts.push(format!("{} lines could not be read", index.unread));
    }
    out.raw("<p class=\"facts\">").text(&facts.join(" · ")).raw("</p>\n");
}
