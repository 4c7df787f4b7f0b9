//! Renders Markdown of models. HTML in it is escaped, and links show their URL as text.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::html::Html;

/// Renders a Markdown text.
pub(crate) fn markdown(out: &mut Html, text: &str) {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut links: Vec<String> = Vec::new();
    let mut in_head = false;
    for event in Parser::new_ext(text, options) {
        match event {
            Event::Start(tag) => start(out, tag, &mut links, &mut in_head),
            Event::End(tag) => end(out, tag, &mut links, &mut in_head),
            Event::Text(words) | Event::Html(words) | Event::InlineHtml(words) => {
                out.text(&words);
            }
            Event::Code(words) | Event::InlineMath(words) | Event::DisplayMath(words) => {
                out.raw("<code>").text(&words).raw("</code>");
            }
            Event::SoftBreak => {
                out.raw("\n");
            }
            Event::HardBreak => {
                out.raw("<br>");
            }
            Event::Rule => {
                out.raw("<hr>");
            }
            Event::TaskListMarker(done) => {
                out.raw(if done { "☑ " } else { "☐ " });
            }
            Event::FootnoteReference(name) => {
                out.text(&format!("[{name}]"));
            }
        }
    }
}

fn start(out: &mut Html, tag: Tag<'_>, links: &mut Vec<String>, in_head: &mut bool) {
    match tag {
        Tag::Paragraph => out.raw("<p>"),
        // Headings become paragraphs, because the page has its own heading levels.
        Tag::Heading { level: HeadingLevel::H1 | HeadingLevel::H2, .. } => out.raw("<p class=\"h h1\">"),
        Tag::Heading { .. } => out.raw("<p class=\"h\">"),
        Tag::BlockQuote(_) => out.raw("<blockquote>"),
        Tag::CodeBlock(kind) => {
            out.raw("<pre tabindex=\"0\">");
            if let CodeBlockKind::Fenced(name) = kind
                && !name.is_empty()
            {
                out.raw("<span class=\"lang\">").text(&name).raw("</span>");
            }
            out.raw("<code>")
        }
        Tag::List(Some(_)) => out.raw("<ol>"),
        Tag::List(None) => out.raw("<ul>"),
        Tag::Item => out.raw("<li>"),
        Tag::Table(_) => out.raw("<div class=\"scroll\" tabindex=\"0\"><table class=\"plain\">"),
        Tag::TableHead => {
            *in_head = true;
            out.raw("<thead><tr>")
        }
        Tag::TableRow => out.raw("<tr>"),
        Tag::TableCell if *in_head => out.raw("<th scope=\"col\">"),
        Tag::TableCell => out.raw("<td>"),
        Tag::Emphasis => out.raw("<em>"),
        Tag::Strong => out.raw("<strong>"),
        Tag::Strikethrough => out.raw("<del>"),
        Tag::Link { dest_url, .. } => {
            links.push(dest_url.to_string());
            out.raw("<span class=\"link\">")
        }
        Tag::Image { dest_url, .. } => {
            links.push(dest_url.to_string());
            out.raw("<span class=\"link\">[picture: ")
        }
        _ => out,
    };
}

fn end(out: &mut Html, tag: TagEnd, links: &mut Vec<String>, in_head: &mut bool) {
    match tag {
        TagEnd::Paragraph | TagEnd::Heading(_) => out.raw("</p>\n"),
        TagEnd::BlockQuote(_) => out.raw("</blockquote>\n"),
        TagEnd::CodeBlock => out.raw("</code></pre>\n"),
        TagEnd::List(true) => out.raw("</ol>\n"),
        TagEnd::List(false) => out.raw("</ul>\n"),
        TagEnd::Item => out.raw("</li>\n"),
        TagEnd::Table => out.raw("</tbody></table></div>\n"),
        TagEnd::TableHead => {
            *in_head = false;
            out.raw("</tr></thead><tbody>")
        }
        TagEnd::TableRow => out.raw("</tr>"),
        TagEnd::TableCell if *in_head => out.raw("</th>"),
        TagEnd::TableCell => out.raw("</td>"),
        TagEnd::Emphasis => out.raw("</em>"),
        TagEnd::Strong => out.raw("</strong>"),
        TagEnd::Strikethrough => out.raw("</del>"),
        TagEnd::Link => {
            let address = links.pop().unwrap_or_default();
            out.raw("</span> <span class=\"address\">").text(&format!("‹{address}›")).raw("</span>")
        }
        TagEnd::Image => {
            let address = links.pop().unwrap_or_default();
            out.text(&format!(" ‹{address}›]")).raw("</span>")
        }
        _ => out,
    };
}
