//! Decodes character references.

/// Decodes numeric references and the named ones that are common in titles and URLs.
pub(super) fn entities(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    let text = numbers(text);
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&nbsp;", " ")
        .replace("&mdash;", "—")
        .replace("&ndash;", "–")
        .replace("&amp;", "&")
}

/// Decodes numeric references.
fn numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("&#") {
        out.push_str(before);
        let end = after.find(|it: char| !it.is_ascii_alphanumeric()).unwrap_or(after.len());
        let number = match after[..end].strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => after[..end].parse().ok(),
        };
        match number.and_then(char::from_u32).filter(|it| *it != '\0') {
            Some(it) => {
                out.push(it);
                rest = after[end..].strip_prefix(';').unwrap_or(&after[end..]);
            }
            None => {
                out.push_str("&#");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Returns the text without tags, with entities decoded.
pub(super) fn strip_tags(html: &str) -> String {
    let (mut text, mut in_tag) = (String::new(), false);
    for it in html.chars() {
        match it {
            '<' => in_tag = true,
            '>' => in_tag = false,
            it if !in_tag => text.push(it),
            _ => {}
        }
    }
    entities(&text)
}
