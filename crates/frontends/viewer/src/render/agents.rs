//! Tree of a session's sub-agents.

use super::numbers::{counted, duration, money};
use crate::{agent_list::ShownAgent, html::Html};

/// Renders the tree.
pub(crate) fn agents(out: &mut Html, nodes: &[ShownAgent]) {
    if nodes.is_empty() {
        out.raw("<p class=\"empty\">No other agent took part.</p>");
        return;
    }
    out.raw("<p class=\"facts\">").text(&counted(nodes.len(), "agent")).raw(" took part.</p>");
    level(out, nodes, None, 0);
}

fn level(out: &mut Html, nodes: &[ShownAgent], parent: Option<&str>, depth: usize) {
    const DEEPEST: usize = 16;
    let is_known = |id: &str| nodes.iter().any(|it| it.id == id);
    let here: Vec<&ShownAgent> = nodes
        .iter()
        .filter(|it| match (&it.parent, parent) {
            (None, None) => true,
            (Some(of), Some(parent)) => of == parent,
            // An agent whose parent is missing is shown at the top level.
            (Some(of), None) => !is_known(of),
            (None, Some(_)) => false,
        })
        .collect();
    if here.is_empty() || DEEPEST < depth {
        return;
    }
    out.raw("<ul class=\"tree\">");
    for node in here {
        out.raw("<li><p><span class=\"tool\">").text(&node.kind).raw("</span> ").text(&node.description);
        out.raw(" <span class=\"tag\">").text(&node.status).raw("</span></p><p class=\"facts\">");
        out.text(&format!("{} · {}", node.model, counted(node.calls, "call")));
        if let Some(micros) = node.micros {
            out.text(&format!(" · {}", duration(micros)));
        }
        if 0.0 < node.usd {
            out.text(&format!(" · {}", money(node.usd)));
        }
        if let Some(key) = &node.key {
            out.raw(" · <a href=\"#s=")
                .text(key)
                .raw("\" data-session=\"")
                .text(key)
                .raw("\">its own page</a>");
        }
        out.raw("</p>");
        level(out, nodes, Some(&node.id), depth + 1);
        out.raw("</li>");
    }
    out.raw("</ul>");
}
