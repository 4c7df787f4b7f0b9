use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};

use crate::{Repair, RepairKind, tool_wire_name::wire_name, wire_schema::wire_schema};

/// A tool definition as sent to the model.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ToolDef {
    /// Name in Haft. The name on the wire may differ ([`wire_name`]).
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the input.
    pub input_schema: Arc<Value>,
    /// Whether the tool is built in.
    #[serde(default)]
    pub origin: ToolOrigin,
    /// Whether the model sees the definition from the start.
    #[serde(default)]
    pub loading: ToolLoading,
    /// Additional fields of the definition, sent over the Messages API only (`eager_input_streaming`,
    /// `strict`, …).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

impl ToolDef {
    /// Creates a built-in tool that the model sees from the start.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: impl Into<Arc<Value>>,
    ) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            input_schema: input_schema.into(),
            origin: ToolOrigin::Builtin,
            loading: ToolLoading::Eager,
            extra: Map::new(),
        }
    }
}

/// Where a tool comes from. Built-in tools come first and have their own cache breakpoint, so that
/// external tools can change without invalidating it.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOrigin {
    /// Part of the program.
    #[default]
    Builtin,
    /// From an MCP server or an embedding program.
    External,
}

/// Whether a model sees a tool definition from the start.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolLoading {
    /// From the start.
    #[default]
    Eager,
    /// Only after a `tool_reference` in the conversation names it.
    Deferred,
    /// Loaded in the middle of the conversation. Sent like a deferred tool if the provider supports
    /// references, which keeps the cached prefix unchanged; otherwise appended to the tool list.
    Late,
}

/// The tools of a request, checked and serialised once.
///
/// The serialised bytes depend only on the definitions and their order, so a session that keeps its set
/// keeps its cached prefix.
#[derive(Debug, Default)]
pub struct ToolSet {
    tools: Vec<Arc<WireTool>>,
    by_wire_name: HashMap<String, usize>,
    repairs: Vec<Repair>,
    weight: OnceLock<usize>,
    may_grow: bool,
    encoded: Mutex<HashMap<ToolEncoding, Bytes>>,
}

/// A definition with its name and schema on the wire.
#[derive(Debug)]
pub(crate) struct WireTool {
    pub(crate) def: ToolDef,
    pub(crate) wire_name: String,
    pub(crate) schema: Value,
    schema_text: OnceLock<Box<RawValue>>,
    print: OnceLock<u64>,
}

impl WireTool {
    fn new(def: ToolDef, wire_name: String, schema: Value) -> Self {
        Self { def, wire_name, schema, schema_text: OnceLock::new(), print: OnceLock::new() }
    }
}

impl WireTool {
    pub(crate) fn is_deferred(&self) -> bool {
        self.def.loading != ToolLoading::Eager
    }

    /// Returns the schema as serialised JSON.
    pub(crate) fn schema_text(&self) -> &RawValue {
        // Serialising a `Value` cannot fail.
        self.schema_text
            .get_or_init(|| to_raw_value(&self.schema).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }

    /// Returns a hash of the definition.
    pub(crate) fn print(&self) -> u64 {
        *self.print.get_or_init(|| {
            let said = (&self.wire_name, &self.def.description, self.schema_text(), &self.def.extra);
            crate::sent_prefix::print(&serde_json::to_vec(&said).unwrap_or_default())
        })
    }
}

/// What the serialised form of a set depends on besides its definitions; key of the cache.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct ToolEncoding {
    pub(crate) form: &'static str,
    pub(crate) cache: crate::CachePolicy,
    /// Whether deferred tools are marked as such.
    pub(crate) follows_references: bool,
    /// Wire names of deferred tools that are sent like eager ones.
    pub(crate) loaded: Vec<String>,
    /// Wire names of tools left out.
    pub(crate) without: Vec<String>,
    /// Names of fields left out.
    pub(crate) without_fields: Vec<String>,
}

impl ToolSet {
    /// Checks the definitions. Definitions that providers would reject are repaired or left out; see
    /// [`ToolSet::repairs`].
    pub fn new(definitions: impl IntoIterator<Item = ToolDef>) -> Self {
        let mut set = Self::default();
        let mut names = HashSet::new();
        for def in definitions {
            set.add(def, &mut names);
        }
        if !set.tools.is_empty() && set.tools.iter().all(|tool| tool.is_deferred()) {
            set.undefer_first();
        }
        set
    }

    fn add(&mut self, mut def: ToolDef, names: &mut HashSet<String>) {
        let wire_name = wire_name(&def.name);
        if wire_name != def.name {
            self.note(RepairKind::ToolName, &def.name, format!("is called {wire_name} on the wire"));
        }
        let schema = match wire_schema(&def.input_schema) {
            Ok(wire) => {
                if !wire.notes.is_empty() {
                    self.note(RepairKind::ToolSchema, &def.name, wire.notes.join("; "));
                }
                wire.schema
            }
            Err(reason) => {
                self.note(RepairKind::ToolLeftOut, &def.name, reason);
                return;
            }
        };
        if !names.insert(wire_name.clone()) {
            let reason = "another tool has the same name".to_owned();
            self.note(RepairKind::ToolLeftOut, &def.name, reason);
            return;
        }
        if let Some(clean) = crate::lint::clean_text(&def.description) {
            def.description = clean;
        }
        let mut schema = schema;
        crate::lint::clean_value(&mut schema);
        self.by_wire_name.insert(wire_name.clone(), self.tools.len());
        self.tools.push(Arc::new(WireTool::new(def, wire_name, schema)));
    }

    fn undefer_first(&mut self) {
        let Some(first) = self.tools.first_mut() else { return };
        let mut def = first.def.clone();
        def.loading = ToolLoading::Eager;
        let name = def.name.clone();
        *first = Arc::new(WireTool::new(def, first.wire_name.clone(), first.schema.clone()));
        let reason = "one tool has to be there from the start".to_owned();
        self.note(RepairKind::ToolSchema, &name, reason);
    }

    fn note(&mut self, kind: RepairKind, tool: &str, detail: String) {
        self.repairs.push(Repair { kind, place: format!("tool {tool}"), detail });
    }

    /// Returns what was changed or left out.
    pub fn repairs(&self) -> &[Repair] {
        &self.repairs
    }

    /// Returns the definitions that are sent, in order.
    pub fn definitions(&self) -> Vec<&ToolDef> {
        self.tools.iter().map(|tool| &tool.def).collect()
    }

    /// Returns the bytes of all definitions the model sees from the start.
    pub(crate) fn weight(&self) -> usize {
        *self.weight.get_or_init(|| {
            let seen = self.tools.iter().filter(|tool| tool.def.loading != ToolLoading::Deferred);
            seen.map(|tool| {
                tool.wire_name.len() + tool.def.description.len() + tool.schema_text().get().len()
            })
            .sum()
        })
    }

    /// Marks the set as one that may load more tools later. The beta feature this needs is then
    /// requested from the first request on, because adding it later would change the cache key.
    #[must_use]
    pub fn growable(self) -> Self {
        Self { may_grow: true, ..self }
    }

    pub(crate) fn may_grow(&self) -> bool {
        self.may_grow
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Finds the tool with this name on the wire.
    pub(crate) fn by_wire_name(&self, name: &str) -> Option<&WireTool> {
        self.by_wire_name.get(name).map(|at| &*self.tools[*at])
    }

    pub(crate) fn tools(&self) -> &[Arc<WireTool>] {
        &self.tools
    }

    /// Returns the serialised tools for `key`, calling `encode` only the first time.
    pub(crate) fn encoded<T: Serialize>(&self, key: ToolEncoding, encode: impl FnOnce() -> Vec<T>) -> Bytes {
        let mut cache = self.encoded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = cache.get(&key) {
            return bytes.clone();
        }
        // Serialising tool definitions cannot fail.
        let bytes = Bytes::from(serde_json::to_vec(&encode()).unwrap_or_default());
        cache.insert(key, bytes.clone());
        bytes
    }
}
