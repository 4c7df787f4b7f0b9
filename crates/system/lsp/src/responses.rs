//! Parses locations, hovers and call hierarchies in all versions of the protocol. Malformed responses
//! are errors.

use std::path::PathBuf;

use serde_json::Value;

use crate::path_of;

/// Maximum number of locations; more are an error.
const MOST: usize = 50_000;

/// A location in a file, in the server's units.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct CodeLocation {
    pub path: PathBuf,
    /// Line, from 0.
    pub line: u32,
    pub column: u32,
    pub end_line: u32,
}

/// A call hierarchy item.
#[derive(Clone, Debug, PartialEq)]
pub struct CallItem {
    pub name: String,
    /// `SymbolKind` number.
    pub kind: u64,
    /// Additional detail.
    pub detail: String,
    /// Its location.
    pub spot: CodeLocation,
    /// The item as received, to send back in follow-up requests.
    pub raw: Value,
}

/// A caller or callee, with the call sites.
#[derive(Clone, Debug, PartialEq)]
pub struct CallLink {
    /// The caller or callee.
    pub item: CallItem,
    /// Lines of the calls, from 0.
    pub lines: Vec<u32>,
}

pub(crate) fn number(value: &Value) -> Option<u32> {
    value.as_u64().map(|it| u32::try_from(it).unwrap_or(u32::MAX))
}

fn spot(uri: &Value, range: &Value) -> Result<Option<CodeLocation>, String> {
    let uri = uri.as_str().ok_or("a place without a file")?;
    let (start, end) = (&range["start"], &range["end"]);
    let (Some(line), Some(column)) = (number(&start["line"]), number(&start["character"])) else {
        return Err(String::from("a place without a line"));
    };
    // URIs of virtual documents cannot be opened.
    Ok(path_of(uri).map(|path| CodeLocation {
        path,
        line,
        column,
        end_line: number(&end["line"]).unwrap_or(line),
    }))
}

/// Parses locations: one, a list, links, or null. Also returns the number of locations that are not in a
/// file.
pub fn spots(answer: &Value) -> Result<(Vec<CodeLocation>, usize), String> {
    let single = [answer.clone()];
    let all = match answer {
        Value::Null => return Ok((Vec::new(), 0)),
        Value::Object(_) => &single[..],
        Value::Array(all) => all,
        other => return Err(format!("{} instead of places", kind_of(other))),
    };
    if MOST < all.len() {
        return Err(format!("{} places", all.len()));
    }
    let (mut found, mut elsewhere) = (Vec::new(), 0);
    for item in all {
        let place = match item.get("targetUri") {
            Some(uri) => {
                let range = item.get("targetSelectionRange").unwrap_or(&item["targetRange"]);
                spot(uri, range)?
            }
            None => spot(&item["uri"], &item["range"])?,
        };
        match place {
            Some(place) => found.push(place),
            None => elsewhere += 1,
        }
    }
    found.sort();
    found.dedup();
    Ok((found, elsewhere))
}

pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "yes or no",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Parses a hover; `None` if it is empty.
pub fn hover_text(answer: &Value) -> Result<Option<String>, String> {
    fn marked(value: &Value) -> Option<String> {
        match value {
            Value::String(text) => Some(text.clone()),
            Value::Object(it) => {
                let text = it.get("value")?.as_str()?;
                match it.get("language").and_then(Value::as_str) {
                    Some(language) => Some(format!("```{language}\n{text}\n```")),
                    None => Some(text.to_owned()),
                }
            }
            _ => None,
        }
    }
    if answer.is_null() {
        return Ok(None);
    }
    let contents = answer.get("contents").ok_or("a hover without contents")?;
    let text = match contents {
        Value::Array(all) => all.iter().take(100).filter_map(marked).collect::<Vec<_>>().join("\n\n"),
        one => marked(one).ok_or_else(|| format!("{} instead of contents", kind_of(one)))?,
    };
    let text = text.trim();
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

impl CallItem {
    fn read(item: &Value) -> Result<Self, String> {
        let name = item["name"].as_str().ok_or("a call without a name")?;
        let range = item.get("selectionRange").unwrap_or(&item["range"]);
        let spot = spot(&item["uri"], range)?.ok_or("a call in no file")?;
        Ok(Self {
            name: haft_types::text::one_line(name, 200),
            kind: item["kind"].as_u64().unwrap_or(0),
            detail: haft_types::text::one_line(item["detail"].as_str().unwrap_or_default(), 200),
            spot,
            raw: item.clone(),
        })
    }

    /// Parses the response to `prepareCallHierarchy`.
    pub fn read_all(answer: &Value) -> Result<Vec<Self>, String> {
        match answer {
            Value::Null => Ok(Vec::new()),
            Value::Array(all) => all.iter().take(1_000).map(Self::read).collect(),
            other => Err(format!("{} instead of calls", kind_of(other))),
        }
    }
}

impl CallLink {
    /// Parses callers (`end` = `from`) or callees (`to`).
    pub fn read_all(answer: &Value, end: &str) -> Result<Vec<Self>, String> {
        let all = match answer {
            Value::Null => return Ok(Vec::new()),
            Value::Array(all) => all,
            other => return Err(format!("{} instead of calls", kind_of(other))),
        };
        let read = |link: &Value| {
            let ranges = link["fromRanges"].as_array().map(Vec::as_slice).unwrap_or_default();
            let mut lines: Vec<u32> =
                ranges.iter().take(1_000).filter_map(|it| number(&it["start"]["line"])).collect();
            lines.dedup();
            Ok(Self { item: CallItem::read(&link[end])?, lines })
        };
        all.iter().take(MOST).map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spots_parses_all_location_forms() {
        let range = json!({"start": {"line": 1, "character": 2}, "end": {"line": 1, "character": 3}});
        let one = json!({"uri": "file:///a.rs", "range": range});
        let link = json!({"targetUri": "file:///b.rs", "targetRange": range, "targetSelectionRange": range});
        let away = json!({"uri": "jdt://x", "range": range});
        for (answer, want) in [
            (Value::Null, Ok((0, 0))),
            (one.clone(), Ok((1, 0))),
            (json!([one, one, link, away]), Ok((2, 1))),
            (json!([]), Ok((0, 0))),
            (json!("x"), Err("a text instead of places")),
            (json!([7]), Err("a place without a file")),
            (json!([{"uri": "file:///a"}]), Err("a place without a line")),
            (
                json!([{"uri": "file:///a", "range": {"start": {"line": -1, "character": 0}}}]),
                Err("a place without a line"),
            ),
        ] {
            let got = spots(&answer).map(|(found, elsewhere)| (found.len(), elsewhere));
            assert_eq!(got, want.map_err(str::to_owned), "{answer}");
        }
    }

    #[test]
    fn hover_text_parses_all_hover_forms() {
        for (answer, want) in [
            (Value::Null, Ok(None)),
            (json!({"contents": "x"}), Ok(Some("x"))),
            (json!({"contents": {"kind": "markdown", "value": " y "}}), Ok(Some("y"))),
            (json!({"contents": ["a", {"language": "c", "value": "b"}]}), Ok(Some("a\n\n```c\nb\n```"))),
            (json!({"contents": []}), Ok(None)),
            (json!({}), Err("a hover without contents")),
            (json!({"contents": 3}), Err("a number instead of contents")),
        ] {
            let got = hover_text(&answer);
            assert_eq!(got, want.map(|it| it.map(str::to_owned)).map_err(str::to_owned), "{answer}");
        }
    }

    #[test]
    fn call_items_and_links_are_parsed() {
        let range = json!({"start": {"line": 1, "character": 2}, "end": {"line": 1, "character": 3}});
        let item =
            json!({"name": "f", "kind": 12, "uri": "file:///a.rs", "range": range, "selectionRange": range});
        assert_eq!(CallItem::read_all(&json!([item])).unwrap()[0].name, "f");
        assert_eq!(CallItem::read_all(&json!({"a": 1})).unwrap_err(), "an object instead of calls");
        let links =
            CallLink::read_all(&json!([{"from": item, "fromRanges": [range, range]}]), "from").unwrap();
        assert_eq!(links[0].lines, [1]);
        assert_eq!(CallLink::read_all(&json!([{"to": item}]), "from").unwrap_err(), "a call without a name");
    }
}
