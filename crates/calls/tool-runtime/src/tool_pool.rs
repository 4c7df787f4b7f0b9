//! Selects the tools of a session in three layers, each a value derived from the one before: base list →
//! [`visible`] → [`Pool`].

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, OnceLock},
};

use haft_tool::{DynTool, Exposure};
use serde_json::json;

use crate::{
    tool_search::{ToolDocument, ToolIndex},
    wire_names::{folded, marked, wire_name},
};

/// Feature switches from the settings that turn optional tools on and off.
#[derive(Clone, Debug, Default)]
pub struct PoolFeatures {
    /// Names of the features that are turned off.
    pub off: BTreeSet<String>,
}

/// Restricts the base tools to those of one session.
#[derive(Clone, Debug, Default)]
pub struct ToolVisibility {
    /// Names or aliases of tools to hide from the model.
    pub denied: Vec<String>,
    /// If set, only the tools with these names or aliases are visible.
    pub only: Option<Vec<String>>,
    /// Features that are turned off, with their tools.
    pub features: PoolFeatures,
}

impl ToolVisibility {
    fn shows(&self, tool: &dyn DynTool) -> bool {
        let aliases = tool.aliases();
        let named = |list: &[String]| list.iter().any(|it| it == tool.name() || aliases.contains(it));
        !named(&self.denied)
            && self.only.as_deref().is_none_or(named)
            && tool.feature().is_none_or(|feature| !self.features.off.contains(feature))
            && tool.is_enabled()
    }
}

/// Layer two: returns the base tools that are visible in this session.
pub fn visible(base: &[Arc<dyn DynTool>], visibility: &ToolVisibility) -> Vec<Arc<dyn DynTool>> {
    base.iter().filter(|tool| visibility.shows(tool.as_ref())).cloned().collect()
}

/// Layer three: the tools of a model request, in the order they are sent.
///
/// Immutable. A call is looked up in the pool that advertised it, even if the session has since switched
/// to another pool.
#[derive(Clone)]
pub struct Pool {
    entries: Vec<PoolEntry>,
    by_name: HashMap<String, usize>,
    /// Index of a built-in tool by its name and aliases, normalized with [`folded`]. `None` marks a key
    /// that two tools share.
    by_folded: HashMap<String, Option<usize>>,
    search: OnceLock<Arc<ToolIndex>>,
    why_absent: Option<AbsenceReason>,
}

/// Explains why a tool name is not in the pool, for example because its MCP server is still connecting.
/// Returns `None` for names it knows nothing about.
pub type AbsenceReason = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

#[derive(Clone)]
struct PoolEntry {
    tool: Arc<dyn DynTool>,
    wire_name: String,
    origin: PoolOrigin,
    /// Why the tool cannot be called now, for example because its server disconnected.
    gone: Option<Arc<str>>,
    /// The tool's JSON in the request, built on first use. Shared by derived pools, so that the bytes
    /// stay the same.
    advertised: Arc<OnceLock<String>>,
}

/// What [`Pool::narrowed`] does with a tool.
pub enum PoolFilter {
    /// Drops the tool.
    No,
    /// Keeps the tool.
    Yes,
    /// Puts this tool in its place.
    Replaced(Arc<dyn DynTool>),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum PoolOrigin {
    Builtin,
    External,
}

/// The result of looking up a tool.
#[derive(Clone, Copy)]
pub(crate) struct FoundTool<'a> {
    pub(crate) tool: &'a Arc<dyn DynTool>,
    pub(crate) wire_name: &'a str,
    pub(crate) deferred: bool,
    pub(crate) gone: Option<&'a str>,
}

impl Pool {
    /// Builds the pool: built-in tools sorted by name, then external tools sorted by name. On a name
    /// clash the built-in tool keeps its wire name and the external one gets a hash appended.
    ///
    /// **Invariant:** external tools never change the position of a built-in one, so they never invalidate the
    /// prompt cache before them.
    pub fn assemble(builtin: Vec<Arc<dyn DynTool>>, external: Vec<Arc<dyn DynTool>>) -> Self {
        let mut pool = Self {
            entries: Vec::new(),
            by_name: HashMap::new(),
            by_folded: HashMap::new(),
            search: OnceLock::new(),
            why_absent: None,
        };
        pool.add_all(builtin, PoolOrigin::Builtin);
        pool.add_all(external, PoolOrigin::External);
        pool.index_aliases();
        pool
    }

    /// Returns the pool with `external` as its external tools. Tools that stay keep their place and new
    /// ones come last. Missing ones stay declared, but calls of them fail with the reason `gone` returns
    /// for their name.
    pub fn with_external(&self, external: Vec<Arc<dyn DynTool>>, gone: impl Fn(&str) -> String) -> Self {
        let mut pool = self.clone();
        pool.search = OnceLock::new();
        let mut incoming: HashMap<String, Arc<dyn DynTool>> =
            external.into_iter().map(|tool| (tool.name().to_owned(), tool)).collect();
        for entry in pool.entries.iter_mut().filter(|entry| entry.origin == PoolOrigin::External) {
            match incoming.remove(entry.tool.name()) {
                Some(tool) => {
                    entry.gone = None;
                    if !Arc::ptr_eq(&tool, &entry.tool) {
                        entry.advertised = Arc::default();
                        entry.tool = tool;
                    }
                }
                None => entry.gone = Some(Arc::from(gone(entry.tool.name()))),
            }
        }
        pool.add_all(incoming.into_values().collect(), PoolOrigin::External);
        pool.index_aliases();
        pool
    }

    /// Returns the pool with more external tools, appended behind the existing ones.
    #[must_use]
    pub fn with_more(&self, external: Vec<Arc<dyn DynTool>>) -> Self {
        let mut pool = self.clone();
        pool.search = OnceLock::new();
        pool.add_all(external, PoolOrigin::External);
        pool.index_aliases();
        pool
    }

    /// Returns the pool with built-in tool `name` replaced by `tool`, or removed. Rebuilds the pool, so
    /// positions in the request may change: use it only before the first request.
    pub fn with_builtin(&self, name: &str, tool: Option<Arc<dyn DynTool>>) -> Self {
        let of = |origin: PoolOrigin| {
            let entries = self.entries.iter().filter(move |entry| entry.origin == origin);
            entries.map(|entry| Arc::clone(&entry.tool)).collect::<Vec<_>>()
        };
        let mut builtin = of(PoolOrigin::Builtin);
        builtin.retain(|it| it.name() != name);
        builtin.extend(tool);
        Self { why_absent: self.why_absent.clone(), ..Self::assemble(builtin, of(PoolOrigin::External)) }
    }

    /// Returns only the tools that `keep` keeps, in the same order and with the same bytes in the
    /// request. A replacement takes the place of the tool it replaces.
    pub fn narrowed(&self, keep: impl Fn(&str, &Arc<dyn DynTool>) -> PoolFilter) -> Self {
        let (entries, by_name, search) = (Vec::new(), HashMap::new(), OnceLock::new());
        let why_absent = self.why_absent.clone();
        let mut pool = Self { entries, by_name, by_folded: HashMap::new(), search, why_absent };
        for entry in &self.entries {
            let mut entry = entry.clone();
            match keep(&entry.wire_name, &entry.tool) {
                PoolFilter::No => continue,
                PoolFilter::Yes => (),
                PoolFilter::Replaced(tool) => {
                    entry.tool = tool;
                    entry.advertised = Arc::default();
                }
            }
            let idx = pool.entries.len();
            pool.by_name.entry(entry.tool.name().to_owned()).or_insert(idx);
            pool.by_name.insert(entry.wire_name.clone(), idx);
            pool.entries.push(entry);
        }
        pool.index_aliases();
        pool
    }

    /// Adds an explanation for tools that are not in the pool.
    pub fn with_absence_reasons(self, why_absent: AbsenceReason) -> Self {
        Self { why_absent: Some(why_absent), ..self }
    }

    pub(crate) fn why_absent(&self, name: &str) -> Option<String> {
        self.why_absent.as_ref().and_then(|why| why(name))
    }

    /// Finds a tool by name, wire name or alias. Built-in tools are also found if the name differs in
    /// case, separators or a trailing `Tool`.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn DynTool>> {
        self.find(name).map(|found| found.tool)
    }

    pub(crate) fn find(&self, name: &str) -> Option<FoundTool<'_>> {
        let near = || *self.by_folded.get(folded(name).as_str())?;
        let entry = &self.entries[self.by_name.get(name).copied().or_else(near)?];
        Some(FoundTool {
            tool: &entry.tool,
            wire_name: &entry.wire_name,
            deferred: entry.is_deferred(),
            gone: entry.gone.as_deref(),
        })
    }

    /// Returns every wire name, in the order of the request.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.wire_name.as_str())
    }

    /// Returns the wire names of tools that can be called now, without those whose server is gone.
    pub fn present(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter(|entry| entry.gone.is_none()).map(|entry| entry.wire_name.as_str())
    }

    pub(crate) fn is_present(&self, name: &str) -> bool {
        self.find(name).is_some_and(|found| found.gone.is_none())
    }

    /// Returns every tool with its wire name, in the order of the request.
    pub fn tools(&self) -> impl Iterator<Item = (&str, &Arc<dyn DynTool>)> {
        self.entries.iter().map(|entry| (entry.wire_name.as_str(), &entry.tool))
    }

    /// Returns the built-in tools with their wire names, in the order of the request.
    pub fn builtin(&self) -> impl Iterator<Item = (&str, &Arc<dyn DynTool>)> {
        let own = self.entries.iter().filter(|entry| entry.origin == PoolOrigin::Builtin);
        own.map(|entry| (entry.wire_name.as_str(), &entry.tool))
    }

    /// Returns the wire name of the tool that [`Pool::get`] finds for `name`.
    pub fn wire_name(&self, name: &str) -> Option<&str> {
        self.find(name).map(|found| found.wire_name)
    }

    /// Returns the deferred tools with their wire names. The model knows only their names until it
    /// searches for them or calls them.
    pub fn deferred(&self) -> impl Iterator<Item = (&str, &Arc<dyn DynTool>)> {
        let deferred = self.entries.iter().filter(|entry| entry.is_deferred());
        deferred.map(|entry| (entry.wire_name.as_str(), &entry.tool))
    }

    /// Returns the tool list of the request as a JSON array. Tools that are not deferred come first,
    /// then the deferred ones in `loaded` order, so that loading a tool changes no byte before it.
    pub fn advertised(&self, loaded: &[String]) -> String {
        let direct = self.entries.iter().filter(|entry| !entry.is_deferred());
        let late = loaded.iter().filter_map(|name| self.by_name.get(name).map(|&idx| &self.entries[idx]));
        let late = late.filter(|entry| entry.is_deferred());
        let mut json = String::from("[");
        for (idx, entry) in direct.chain(late).enumerate() {
            if 0 < idx {
                json.push(',');
            }
            json.push_str(entry.advertised());
        }
        json.push(']');
        json
    }

    /// Returns the search index of the deferred tools, building it on first use. Its positions are those
    /// in [`Pool::deferred`].
    pub(crate) fn search_index(&self) -> &ToolIndex {
        self.search.get_or_init(|| {
            let documents = self.deferred().map(|(wire_name, tool)| {
                let spec = tool.spec();
                // The index needs both names: the wire name has lost non-ASCII characters.
                ToolDocument {
                    name: tool.name(),
                    wire_name,
                    hint: &spec.search_hint,
                    description: &spec.description,
                }
            });
            Arc::new(ToolIndex::build(documents))
        })
    }

    fn add_all(&mut self, mut tools: Vec<Arc<dyn DynTool>>, origin: PoolOrigin) {
        tools.sort_by(|a, b| a.name().cmp(b.name()));
        for tool in tools {
            self.add(tool, origin);
        }
    }

    fn add(&mut self, tool: Arc<dyn DynTool>, origin: PoolOrigin) {
        let original = tool.name().to_owned();
        let taken = |name: &str| self.by_name.contains_key(name);
        let mut wire = wire_name(&original);
        if taken(&wire) {
            wire = marked(&original);
        }
        if taken(&wire) {
            // An external tool with the same name was added before; that one stays.
            return;
        }
        let idx = self.entries.len();
        self.by_name.entry(original).or_insert(idx);
        self.by_name.insert(wire.clone(), idx);
        self.entries.push(PoolEntry {
            tool,
            wire_name: wire,
            origin,
            gone: None,
            advertised: Arc::default(),
        });
    }

    /// Called after all tools were added, so that an alias never takes over another tool's name.
    fn index_aliases(&mut self) {
        for (idx, entry) in self.entries.iter().enumerate() {
            let aliases = entry.tool.aliases();
            if entry.origin == PoolOrigin::Builtin {
                for name in aliases.iter().map(String::as_str).chain([entry.tool.name()]) {
                    let meant = self.by_folded.entry(folded(name)).or_insert(Some(idx));
                    if *meant != Some(idx) {
                        *meant = None;
                    }
                }
            }
            for alias in aliases {
                self.by_name.entry(alias).or_insert(idx);
            }
        }
    }
}

impl PoolEntry {
    fn is_deferred(&self) -> bool {
        self.tool.exposure() == Exposure::Deferred
    }

    fn advertised(&self) -> &str {
        self.advertised.get_or_init(|| {
            let spec = self.tool.spec();
            json!({
                "name": self.wire_name,
                "description": spec.description,
                "input_schema": spec.input_schema,
            })
            .to_string()
        })
    }
}
