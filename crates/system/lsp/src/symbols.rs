//! Parses document and workspace symbols.

use serde_json::Value;

use crate::{
    CodeLocation, path_of,
    responses::{kind_of, number},
};

/// Maximum number of symbols; more are dropped.
const MOST: usize = 20_000;
/// Maximum nesting; deeper symbols are dropped.
const DEEPEST: usize = 32;

/// A symbol and its location.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CodeSymbol {
    pub name: String,
    /// `SymbolKind` number.
    pub kind: u64,
    /// Additional detail.
    pub detail: String,
    /// Number of enclosing symbols.
    pub depth: usize,
    /// Name of the enclosing symbol, if only that is reported.
    pub container: String,
    /// First line, from 0.
    pub line: u32,
    pub end_line: u32,
    /// Location, if it is in another file.
    pub spot: Option<CodeLocation>,
}

/// Name of a `SymbolKind`.
pub fn kind_name(kind: u64) -> &'static str {
    const NAMES: [&str; 26] = [
        "file",
        "module",
        "namespace",
        "package",
        "class",
        "method",
        "property",
        "field",
        "constructor",
        "enum",
        "interface",
        "function",
        "variable",
        "constant",
        "string",
        "number",
        "boolean",
        "array",
        "object",
        "key",
        "null",
        "member",
        "struct",
        "event",
        "operator",
        "type parameter",
    ];
    let index = usize::try_from(kind.wrapping_sub(1)).unwrap_or(usize::MAX);
    NAMES.get(index).copied().unwrap_or("name")
}

/// Parses symbols of a document or workspace, flat or nested.
pub fn symbols(answer: &Value) -> Result<Vec<CodeSymbol>, String> {
    let mut found = Vec::new();
    match answer {
        Value::Null => (),
        Value::Array(all) => collect(all, 0, &mut found)?,
        other => return Err(format!("{} instead of names", kind_of(other))),
    }
    Ok(found)
}

fn collect(all: &[Value], depth: usize, found: &mut Vec<CodeSymbol>) -> Result<(), String> {
    for item in all {
        if MOST <= found.len() || DEEPEST < depth {
            return Ok(());
        }
        let text = |name: &str| haft_types::text::one_line(item[name].as_str().unwrap_or_default(), 200);
        let name = item["name"].as_str().ok_or("a name without a name")?;
        let location = &item["location"];
        let range = item.get("selectionRange").or_else(|| item.get("range")).unwrap_or(&location["range"]);
        let whole = item.get("range").unwrap_or(range);
        // Workspace symbols may have no range.
        let line = number(&range["start"]["line"]);
        let path = location["uri"].as_str().and_then(path_of);
        let line = match (line, &path) {
            (Some(line), _) => line,
            (None, Some(_)) => 0,
            (None, None) => return Err(String::from("a name without a line")),
        };
        let column = number(&range["start"]["character"]).unwrap_or(0);
        let end_line = number(&whole["end"]["line"]).unwrap_or(line);
        found.push(CodeSymbol {
            name: haft_types::text::one_line(name, 200),
            kind: item["kind"].as_u64().unwrap_or(0),
            detail: text("detail"),
            depth,
            container: text("containerName"),
            line,
            end_line,
            spot: path.map(|path| CodeLocation { path, line, column, end_line }),
        });
        if let Some(children) = item["children"].as_array() {
            collect(children, depth + 1, found)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn symbols_parses_flat_and_nested_forms() {
        let range = json!({"start": {"line": 3, "character": 2}, "end": {"line": 9, "character": 3}});
        let nested = json!([{"name": "A", "kind": 5, "range": range, "selectionRange": range,
            "children": [{"name": "b\nc", "kind": 6, "range": range, "detail": "()"}]}]);
        let got = symbols(&nested).unwrap();
        let short: Vec<_> =
            got.iter().map(|it| (it.name.as_str(), it.depth, kind_name(it.kind), it.end_line)).collect();
        assert_eq!(short, [("A", 0, "class", 9), ("b…", 1, "method", 9)]);
        let flat = json!([{"name": "A", "kind": 99, "location": {"uri": "file:///a", "range": range}, "containerName": "m"}]);
        let got = symbols(&flat).unwrap();
        assert_eq!((got[0].container.as_str(), kind_name(got[0].kind)), ("m", "name"));
        assert_eq!(got[0].spot.as_ref().unwrap().line, 3);
        assert_eq!(symbols(&Value::Null), Ok(Vec::new()));
        assert_eq!(symbols(&json!({"x": 1})), Err(String::from("an object instead of names")));
        assert_eq!(symbols(&json!([{"name": "a"}])), Err(String::from("a name without a line")));
        let mut deep = json!({"name": "x", "range": range});
        for _ in 0..100 {
            deep = json!({"name": "x", "range": range, "children": [deep]});
        }
        assert_eq!(symbols(&json!([deep])).unwrap().len(), DEEPEST + 1);
    }
}
