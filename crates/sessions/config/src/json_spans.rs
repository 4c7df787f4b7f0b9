//! Byte ranges of the values in a JSON text.
//!
//! `serde_json` does not report positions, but naming a line in a message and changing a single key need
//! them. The text has always been parsed by `serde_json` before, so this scanner does not validate; it
//! returns `None` where it fails.

use std::ops::Range;

/// Byte range of a value, and its children.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonNode {
    pub(crate) range: Range<usize>,
    pub(crate) kind: NodeKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NodeKind {
    Object(Vec<ObjectMember>),
    Array(Vec<JsonNode>),
    Scalar,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ObjectMember {
    pub(crate) key: String,
    pub(crate) key_range: Range<usize>,
    pub(crate) value: JsonNode,
}

impl ObjectMember {
    /// Returns the range from the key's opening quote to the end of the value.
    pub(crate) fn range(&self) -> Range<usize> {
        self.key_range.start..self.value.range.end
    }
}

/// Scans a valid JSON text.
pub(crate) fn scan(text: &str) -> Option<JsonNode> {
    #[cfg(test)]
    SCANS.with(|scans| scans.set(scans.get() + 1));
    let mut scanner = Scanner { bytes: text.as_bytes(), text, at: 0 };
    let node = scanner.value(0)?;
    scanner.skip_blanks();
    (scanner.at == text.len()).then_some(node)
}

#[cfg(test)]
thread_local! {
    static SCANS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Returns how many texts this thread has scanned (tests).
#[cfg(test)]
pub(crate) fn scans() -> usize {
    SCANS.get()
}

/// Maximum nesting depth, the same as that of `serde_json`.
const DEEPEST: usize = 128;

struct Scanner<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
}

impl Scanner<'_> {
    fn skip_blanks(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, wanted: u8) -> Option<()> {
        self.skip_blanks();
        (self.bytes.get(self.at) == Some(&wanted)).then(|| self.at += 1)
    }

    fn value(&mut self, depth: usize) -> Option<JsonNode> {
        self.skip_blanks();
        let start = self.at;
        let kind = match self.bytes.get(start)? {
            _ if DEEPEST < depth => return None,
            b'{' => self.object(depth)?,
            b'[' => self.array(depth)?,
            b'"' => {
                self.string()?;
                NodeKind::Scalar
            }
            _ => {
                let word = self.bytes[start..].iter().position(|it| b" \t\r\n,]}:\"".contains(it));
                self.at = word.map_or(self.bytes.len(), |length| start + length);
                if self.at == start {
                    return None;
                }
                NodeKind::Scalar
            }
        };
        Some(JsonNode { range: start..self.at, kind })
    }

    fn object(&mut self, depth: usize) -> Option<NodeKind> {
        self.at += 1;
        let mut members = Vec::new();
        if self.eat(b'}').is_some() {
            return Some(NodeKind::Object(members));
        }
        loop {
            self.skip_blanks();
            let key_range = self.string()?;
            let key = serde_json::from_str(&self.text[key_range.clone()]).ok()?;
            self.eat(b':')?;
            let value = self.value(depth + 1)?;
            members.push(ObjectMember { key, key_range, value });
            if self.eat(b',').is_none() {
                return self.eat(b'}').map(|()| NodeKind::Object(members));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<NodeKind> {
        self.at += 1;
        let mut elements = Vec::new();
        if self.eat(b']').is_some() {
            return Some(NodeKind::Array(elements));
        }
        loop {
            elements.push(self.value(depth + 1)?);
            if self.eat(b',').is_none() {
                return self.eat(b']').map(|()| NodeKind::Array(elements));
            }
        }
    }

    fn string(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        if self.bytes.get(start) != Some(&b'"') {
            return None;
        }
        self.at += 1;
        loop {
            match self.bytes.get(self.at)? {
                b'"' => {
                    self.at += 1;
                    return Some(start..self.at);
                }
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
    }
}

impl JsonNode {
    /// Returns the value at a JSON pointer. Of a duplicate key the last one counts, as for `serde_json`.
    pub(crate) fn at(&self, pointer: &str) -> Option<&Self> {
        let Some(path) = pointer.strip_prefix('/') else { return pointer.is_empty().then_some(self) };
        let mut node = self;
        for step in path.split('/').map(|it| it.replace("~1", "/").replace("~0", "~")) {
            node = match &node.kind {
                NodeKind::Object(members) => &members.iter().rev().find(|it| it.key == step)?.value,
                NodeKind::Array(elements) => elements.get(step.parse::<usize>().ok()?)?,
                NodeKind::Scalar => return None,
            };
        }
        Some(node)
    }

    /// Returns the duplicate keys of all objects; only the last occurrence of each takes effect.
    pub(crate) fn repeated_keys(&self) -> Vec<&ObjectMember> {
        let mut found = Vec::new();
        match &self.kind {
            NodeKind::Object(members) => {
                let mut seen = std::collections::HashSet::new();
                for member in members {
                    if !seen.insert(&member.key) {
                        found.push(member);
                    }
                    found.extend(member.value.repeated_keys());
                }
            }
            NodeKind::Array(elements) => found.extend(elements.iter().flat_map(Self::repeated_keys)),
            NodeKind::Scalar => (),
        }
        found
    }
}

/// Returns a key as one escaped step of a JSON pointer.
pub(crate) fn step(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Converts a byte offset to line and column, both from 1; the column counts characters.
pub(crate) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(at)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointer_finds_value_position() {
        let text = "{\n  \"a\": [1, {\"b/c\": \"x\\\"]\"}],\n  \"é~\": tru\n}".replace("tru", "true");
        let root = scan(&text).unwrap();
        for (pointer, want, line) in
            [("", &*text, 1), ("/a/0", "1", 2), ("/a/1/b~1c", "\"x\\\"]\"", 2), ("/é~0", "true", 3)]
        {
            let node = root.at(pointer).unwrap();
            assert_eq!(&text[node.range.clone()], want, "{pointer}");
            assert_eq!(line_and_column(&text, node.range.start).0, line, "{pointer}");
        }
        assert_eq!(root.at("/a/7"), None);
        assert_eq!(root.at("/a/0/x"), None);
    }

    #[test]
    fn duplicate_keys_are_found_at_any_depth() {
        let text = r#"{"a": {"b": 1, "b": 2}, "c": [{"d": 0, "d": 0}], "a": 3}"#;
        let root = scan(text).unwrap();
        let keys: Vec<&str> = root.repeated_keys().iter().map(|it| &*it.key).collect();
        assert_eq!(keys, ["b", "d", "a"]);
        assert_eq!(&text[root.at("/a").unwrap().range.clone()], "3");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_scanned_without_panic(text in "[\\[\\]{}\",:\\\\ a1\u{e9}]{0,40}") {
            let valid = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            let scanned = scan(&text);
            proptest::prop_assert!(!valid || scanned.is_some(), "{}", text);
        }
    }
}
