//! Builds the result text: pages, redirects, errors.

use haft_net::{AddressClass, CrossHostRedirect, FetchError, WebUrl};
use haft_tool::{Block, Content, ToolError};
use haft_types::text::thousands;
use reqwest::StatusCode;
use url::Url;

use super::{Input, Output, page::visible};

/// Formats a result for the model.
pub(super) fn text_for_model(output: &Output) -> Content {
    if let Some(to) = &output.redirect_to {
        return Content::text(redirect_text(output, to));
    }
    let mut text = String::new();
    match &output.summary_by {
        Some(model) => {
            text.push_str(&format!(
                "Answer by {model} from {} (not the page itself; it may be wrong):\n{}\n",
                output.url,
                output.result.trim_end()
            ));
        }
        None if output.result.is_empty() && output.total_chars != 0 => {
            text.push_str(&format!(
                "{} has {} characters; there is nothing at {}.\n",
                output.url,
                thousands(output.total_chars),
                thousands(output.offset)
            ));
        }
        None if !output.result.is_empty() => text.push_str(&framed(output)),
        None if output.images.is_empty() => {
            text.push_str(&format!("{} answered {} {}.\n", output.url, output.code, output.code_text));
        }
        None => text.push_str(&format!("{} ({}):\n", output.url, output.content_type)),
    }
    for note in notes(output) {
        text.push_str(&format!("[{note}]\n"));
    }
    let mut blocks = vec![Block::text(text.trim_end().to_owned())];
    blocks.extend(output.images.iter().map(|(kind, data)| Block::image(kind.clone(), data.clone())));
    Content::from(blocks)
}

/// Encloses the page in tags that its text cannot close.
fn framed(output: &Output) -> String {
    let title = output.title.as_ref().map(|it| format!(" title={:?}", haft_types::text::one_line(it, 200)));
    let body = unframed(&output.result);
    format!(
        "<page url={:?} type={:?}{}>\n{}\n</page>\n",
        output.url,
        output.content_type,
        title.unwrap_or_default(),
        body.trim_end_matches('\n'),
    )
}

/// Removes text that looks like the enclosing tags.
fn unframed(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        shown.push_str(before);
        let word = after.trim_start_matches(['/', ' ', '\t', '\n']);
        let is_ours = word.get(..4).is_some_and(|it| it.eq_ignore_ascii_case("page"))
            && !word[4..].starts_with(|it: char| it.is_alphanumeric() || it == '-');
        shown.push_str(if is_ours { "<\\" } else { "<" });
        rest = after;
    }
    shown.push_str(rest);
    shown
}

fn notes(output: &Output) -> Vec<String> {
    let mut notes = output.notes.clone();
    if let Some(seconds) = output.cached_seconds {
        notes.push(format!("Fetched {seconds} s ago and kept."));
    }
    if let Some(path) = &output.saved_to {
        let what = if output.result.is_empty() { "Saved to" } else { "The whole is in" };
        notes.push(format!("{what} {}.", path.display()));
    }
    let end = output.next_offset.unwrap_or(output.total_chars);
    if output.offset < output.total_chars && (output.offset != 0 || output.next_offset.is_some()) {
        let range = format!(
            "Characters {}–{} of {}.",
            thousands(output.offset),
            thousands(end),
            thousands(output.total_chars)
        );
        notes.push(match output.next_offset {
            Some(next) => format!("{range} Next part: {}", next_call(&output.url, next)),
            None => format!("{range} This is the end."),
        });
    }
    notes
}

fn next_call(url: &str, offset: u64) -> String {
    format!("WebFetch {}", serde_json::json!({ "url": url, "offset": offset }))
}

fn redirect_text(output: &Output, to: &str) -> String {
    format!(
        "{} sends you elsewhere ({} {}), which was not followed because it is another host or not encrypted: {to}\n\
         Nobody has checked that address. If it is where you want to go, call WebFetch {}",
        output.url,
        output.code,
        output.code_text,
        serde_json::json!({ "url": to })
    )
}

/// Builds the result for a redirect that was not followed.
pub(super) fn redirected(elsewhere: &CrossHostRedirect, duration_ms: u64) -> Output {
    let mut to = elsewhere.to.clone();
    // A user name before the host can only deceive; fetches never log in.
    to.set_username("").ok();
    to.set_password(None).ok();
    Output {
        code: elsewhere.status.as_u16(),
        code_text: reason(elsewhere.status),
        url: elsewhere.from.to_string(),
        redirect_to: Some(visible(to.as_str())),
        duration_ms,
        ..Output::default()
    }
}

/// Formats a status code.
pub(super) fn reason(status: StatusCode) -> String {
    status.canonical_reason().unwrap_or("").to_owned()
}

/// Builds the error for a 4xx or 5xx status.
pub(super) fn status_error(
    status: StatusCode,
    url: &Url,
    user_agent: &str,
    retry_after: Option<&str>,
    body: &str,
) -> ToolError {
    let hint = match status.as_u16() {
        401 | 407 => "It wants a login, and nobody is logged in here: use a tool that has access (such as gh or an MCP server).".to_owned(),
        403 => format!(
            "The server refuses: the page may need a login, or it does not answer programs. We asked as {user_agent:?}; the setting web.userAgent changes that."
        ),
        404 | 410 => String::from("There is no such page: check the address, or search for the new one."),
        429 => format!(
            "It was asked too often{}: wait, or look elsewhere.",
            retry_after.map(|it| format!(" (Retry-After: {})", visible(it))).unwrap_or_default()
        ),
        451 => String::from("It is withheld for legal reasons."),
        500..=599 => String::from("The server has a problem: try again later."),
        _ => String::from("Nothing was fetched."),
    };
    let mut message = format!("{url} answered {} {}. {hint}", status.as_u16(), reason(status));
    if !body.is_empty() {
        let body = unframed(body);
        message.push_str(&format!("\nIt says:\n<page url={:?}>\n{body}\n</page>", url.as_str()));
    }
    ToolError::failed(message)
}

/// Builds the error for an invalid URL.
pub(super) fn bad_address(input: &Input, problem: &haft_net::WebUrlError) -> ToolError {
    let near = matches!(
        problem,
        haft_net::WebUrlError::ThisMachine(_)
            | haft_net::WebUrlError::LocalName(_)
            | haft_net::WebUrlError::NotPublic { .. }
    );
    let help = if near { NEARBY } else { "" };
    ToolError::invalid(format!("{} cannot be fetched: {problem}.{help}", shown_address(&input.url)))
}

const NEARBY: &str = " Only public addresses are fetched; the person can allow one host and port in the user settings (web.allowPrivateHosts), or use Bash with curl.";

/// Builds the error for a failed fetch.
pub(super) fn failure(failure: &FetchError, asked: &Input, target: &WebUrl) -> ToolError {
    let what = shown_address(&asked.url);
    let upgraded = asked.url.get(..7).is_some_and(|it| it.eq_ignore_ascii_case("http://"))
        && target.url().scheme() == "https";
    let message = match failure {
        FetchError::Refused { url, problem, redirected } => {
            let sent = if *redirected {
                format!("sends on to {}, which", shown_address(url))
            } else {
                String::new()
            };
            format!("{what} {sent} cannot be fetched: {problem}.")
        }
        FetchError::NotPublic { host, address } => format!(
            "{what} cannot be fetched: {host} leads to {address}, which {}.{NEARBY}",
            AddressClass::classify(*address).in_words()
        ),
        FetchError::Unknown { host, why } => {
            format!("{what} cannot be fetched: {host} was not found ({why}).")
        }
        FetchError::OtherServer(address) => format!(
            "{what} was not fetched: the connection went to {address}, which is not what was checked."
        ),
        FetchError::TooManyHops(most) => format!("{what} was sent on more than {most} times."),
        FetchError::NoLocation(status) => {
            format!("{what} answered {} {} without saying where to go.", status.as_u16(), reason(*status))
        }
        FetchError::Slow { what: waited_for, waited } => {
            format!("{what}: {waited_for} took longer than {} s.", waited.as_secs())
        }
        FetchError::Broken { why, .. } if upgraded => format!(
            "{what} was asked over https, as plain http without a port always is, and that failed: {why}. \
             If the server has no https, name the port: http://{}:80/…",
            target.host()
        ),
        FetchError::Broken { why, .. } => format!("{what} could not be fetched: {why}."),
    };
    ToolError::failed(message)
}

fn shown_address(url: &str) -> String {
    visible(haft_types::text::one_line(url, 300))
}
