//! Rejects schemas whose references expand exponentially.
//!
//! Sixty definitions with two references each expand to 2^60 parts; validating against such a schema
//! would not terminate.

use std::collections::HashMap;

use serde_json::Value;

/// Maximum parts that apply to one position of an input.
const MAX_PARTS: u64 = 20_000;

/// Maximum length of a chain of references.
const MAX_CHAIN: usize = 100;

/// Checks that all references that apply to one position of an input can be resolved within the limits;
/// the error says why not.
pub(super) fn can_be_followed(schema: &Value) -> Result<(), String> {
    let mut weigh = SchemaSizer { root: schema, known: HashMap::new() };
    let mut todo = vec![schema];
    while let Some(node) = todo.pop() {
        match node {
            Value::Object(fields) => {
                weigh.parts(node, 0)?;
                todo.extend(fields.values());
            }
            Value::Array(items) => todo.extend(items),
            _ => (),
        }
    }
    Ok(())
}

struct SchemaSizer<'a> {
    root: &'a Value,
    /// Number of parts by node address; `None` while a node is being computed.
    known: HashMap<*const Value, Option<u64>>,
}

impl<'a> SchemaSizer<'a> {
    /// Counts the parts that apply to the same position as this node.
    fn parts(&mut self, node: &'a Value, chain: usize) -> Result<u64, String> {
        if MAX_CHAIN < chain {
            return Err(String::from("$ref: its references lead too far"));
        }
        match self.known.get(&std::ptr::from_ref(node)) {
            Some(Some(parts)) => return Ok(*parts),
            Some(None) => return Err(String::from("$ref: it refers to itself without an end")),
            None => drop(self.known.insert(std::ptr::from_ref(node), None)),
        }
        let mut parts = 1_u64;
        for part in self.beside(node) {
            parts = parts.saturating_add(self.parts(part, chain + 1)?);
        }
        if MAX_PARTS < parts {
            return Err(format!("$ref: it means more than {MAX_PARTS} parts once references are followed"));
        }
        self.known.insert(std::ptr::from_ref(node), Some(parts));
        Ok(parts)
    }

    /// Returns the subschemas that apply to the same position.
    fn beside(&self, node: &'a Value) -> Vec<&'a Value> {
        let root = self.root;
        let target = node["$ref"].as_str().and_then(|link| root.pointer(link.strip_prefix('#')?));
        let lists = ["allOf", "anyOf", "oneOf"].iter().filter_map(|key| node[*key].as_array()).flatten();
        let single = ["not", "if", "then", "else"].iter().filter_map(|key| node.get(*key));
        let dependent = node["dependentSchemas"].as_object().into_iter().flat_map(|it| it.values());
        target.into_iter().chain(lists).chain(single).chain(dependent).collect()
    }
}
