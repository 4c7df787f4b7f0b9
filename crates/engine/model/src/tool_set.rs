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

/// What a model is told about a tool.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ToolDef {
    /// Its name in Haft; it may need another one on the wire.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its input.
    pub input_schema: Arc<Value>,
    /// Where it comes from.
    #[serde(default)]
    pub origin: ToolOrigin,
    /// Whether the model sees it from the start.
    #[serde(default)]
    pub loading: ToolLoading,
    /// Fields for the Messages form only, put in as they are
    /// (`eager_input_streaming`, `strict`, …).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

impl ToolDef {
    /// A built-in tool that the model sees from the start.
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

/// Where a tool comes from. Built-in ones come first and share a cache
/// breakpoint of their own, so that external ones can come and go.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOrigin {
    /// Part of the program.
    #[default]
    Builtin,
    /// From a server or an embedder.
    External,
}

/// Whether a model sees a tool from the start.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolLoading {
    /// From the start.
    #[default]
    Eager,
    /// Once a `tool_reference` in the conversation names it.
    Deferred,
    /// It was loaded in the middle of the conversation. Where references are
    /// followed it is sent like a deferred one, so that the cached prefix stays
    /// as it is; elsewhere it is sent behind the others.
    Late,
}

/// The tools of a request, checked once and serialised once.
///
/// The bytes of a set depend on nothing but its definitions in their order, so
/// a session that keeps its set keeps its prefix.
#[derive(Debug, Default)]
pub struct ToolSet {
    tools: Vec<Arc<WireTool>>,
    by_wire_name: HashMap<String, usize>,
    repairs: Vec<Repair>,
    weight: OnceLock<usize>,
    may_grow: bool,
    encoded: Mutex<HashMap<ToolEncoding, Bytes>>,
}

/// A definition and what it is on the wire.
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

    /// The schema as it is sent.
    pub(crate) fn schema_text(&self) -> &RawValue {
        // A value is always JSON.
        self.schema_text
            .get_or_init(|| to_raw_value(&self.schema).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }

    /// A number for all that is said about it.
    pub(crate) fn print(&self) -> u64 {
        *self.print.get_or_init(|| {
            let said = (&self.wire_name, &self.def.description, self.schema_text(), &self.def.extra);
            crate::sent_prefix::print(&serde_json::to_vec(&said).unwrap_or_default())
        })
    }
}

/// What the serialised form of a set depends on besides its definitions.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct ToolEncoding {
    pub(crate) form: &'static str,
    pub(crate) cache: crate::CachePolicy,
    /// Whether deferred tools are sent as such.
    pub(crate) follows_references: bool,
    /// Wire names of deferred tools that are to be sent like eager ones.
    pub(crate) loaded: Vec<String>,
    /// Wire names that are left out.
    pub(crate) without: Vec<String>,
    /// Fields that are left out.
    pub(crate) without_fields: Vec<String>,
}

impl ToolSet {
    /// Checks definitions. What no provider would take is repaired or left out;
    /// [`ToolSet::repairs`] says so.
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

    /// What had to be changed or left out.
    pub fn repairs(&self) -> &[Repair] {
        &self.repairs
    }

    /// The definitions that are offered, in order.
    pub fn definitions(&self) -> Vec<&ToolDef> {
        self.tools.iter().map(|tool| &tool.def).collect()
    }

    /// Bytes of what the model sees from the start.
    pub(crate) fn weight(&self) -> usize {
        *self.weight.get_or_init(|| {
            let seen = self.tools.iter().filter(|tool| tool.def.loading != ToolLoading::Deferred);
            seen.map(|tool| {
                tool.wire_name.len() + tool.def.description.len() + tool.schema_text().get().len()
            })
            .sum()
        })
    }

    /// The same set, in a session that may load more tools. What that needs is
    /// asked for from the first request on: asking for it later would be another
    /// request for the cache.
    #[must_use]
    pub fn that_may_grow(self) -> Self {
        Self { may_grow: true, ..self }
    }

    pub(crate) fn may_grow(&self) -> bool {
        self.may_grow
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The tool a model means by a name on the wire.
    pub(crate) fn by_wire_name(&self, name: &str) -> Option<&WireTool> {
        self.by_wire_name.get(name).map(|at| &*self.tools[*at])
    }

    pub(crate) fn tools(&self) -> &[Arc<WireTool>] {
        &self.tools
    }

    /// The bytes of a form, made once by `encode`.
    pub(crate) fn encoded<T: Serialize>(&self, key: ToolEncoding, encode: impl FnOnce() -> Vec<T>) -> Bytes {
        let mut cache = self.encoded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = cache.get(&key) {
            return bytes.clone();
        }
        // What is said about tools is always JSON.
        let bytes = Bytes::from(serde_json::to_vec(&encode()).unwrap_or_default());
        cache.insert(key, bytes.clone());
        bytes
    }
}
