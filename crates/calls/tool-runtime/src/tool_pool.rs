//! Three layers, each a plain value made from the one before:
//! base list → [`visible`] → [`Pool`].

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

/// Switches of the settings that turn optional tools on and off.
#[derive(Clone, Debug, Default)]
pub struct PoolFeatures {
    /// Switches that are off.
    pub off: BTreeSet<String>,
}

/// What narrows the base list down for one session.
#[derive(Clone, Debug, Default)]
pub struct ToolVisibility {
    /// Names the configuration denies outright: the model never sees them. An
    /// alias counts as the tool.
    pub denied: Vec<String>,
    /// Only these, if given.
    pub only: Option<Vec<String>>,
    /// Feature switches.
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

/// Layer two: the base tools this session may use at all.
pub fn visible(base: &[Arc<dyn DynTool>], visibility: &ToolVisibility) -> Vec<Arc<dyn DynTool>> {
    base.iter().filter(|tool| visibility.shows(tool.as_ref())).cloned().collect()
}

/// Layer three: the tools of one model request, in the order they are sent.
///
/// Immutable. A call is looked up in the pool that advertised it, even if the
/// session has moved on to another pool since.
#[derive(Clone)]
pub struct Pool {
    entries: Vec<PoolEntry>,
    by_name: HashMap<String, usize>,
    /// Names and aliases of built-in tools as [`folded`] has them; nothing where
    /// two tools share one.
    by_folded: HashMap<String, Option<usize>>,
    search: OnceLock<Arc<ToolIndex>>,
    why_absent: Option<AbsenceReason>,
}

/// Says of a name that is not in the pool why it is not, if somebody knows: a
/// tool of a server that has not come yet is not a tool that does not exist.
pub type AbsenceReason = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

#[derive(Clone)]
struct PoolEntry {
    tool: Arc<dyn DynTool>,
    wire_name: String,
    origin: PoolOrigin,
    /// Why the tool cannot be called right now: its server is gone.
    gone: Option<Arc<str>>,
    /// What the request says about it; kept when the pool moves on.
    advertised: Arc<OnceLock<String>>,
}

/// What becomes of a tool in a narrower pool.
pub enum PoolFilter {
    /// It is left out.
    No,
    /// It stays.
    Yes,
    /// This one stands in its place.
    Replaced(Arc<dyn DynTool>),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum PoolOrigin {
    Builtin,
    External,
}

/// A tool as a call finds it.
#[derive(Clone, Copy)]
pub(crate) struct FoundTool<'a> {
    pub(crate) tool: &'a Arc<dyn DynTool>,
    pub(crate) wire_name: &'a str,
    pub(crate) deferred: bool,
    pub(crate) gone: Option<&'a str>,
}

impl Pool {
    /// Built-in tools by name, then external tools by name. On a name clash the
    /// built-in tool keeps the name and the external one gets a marked one.
    ///
    /// **Invariant:** the external tools never change the position of a
    /// built-in one, so they never invalidate the prompt cache before them.
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

    /// The pool after the external tools changed: what was advertised keeps its
    /// place, what is new comes last, and what is gone stays declared and says
    /// so when it is called: `gone` says why, by name.
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

    /// The pool with more external tools behind those it has.
    #[must_use]
    pub fn with_more(&self, external: Vec<Arc<dyn DynTool>>) -> Self {
        let mut pool = self.clone();
        pool.search = OnceLock::new();
        pool.add_all(external, PoolOrigin::External);
        pool.index_aliases();
        pool
    }

    /// The pool with another built-in tool of this name, or without one. For
    /// the beginning of a session: positions in the request may change.
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

    /// Only the tools that are to be kept, in the same order and described by the
    /// same bytes. A tool that is replaced keeps its place.
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

    /// The same pool, with somebody who knows about tools that are not in it.
    pub fn explaining(self, why_absent: AbsenceReason) -> Self {
        Self { why_absent: Some(why_absent), ..self }
    }

    pub(crate) fn why_absent(&self, name: &str) -> Option<String> {
        self.why_absent.as_ref().and_then(|why| why(name))
    }

    /// Finds a tool by name, wire name or alias; a built-in one also by a name that
    /// differs from these in case, separators or the word `Tool` at its end.
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

    /// Every wire name, in the order of the request.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.wire_name.as_str())
    }

    /// The wire names of tools that can be called: those whose servers are there.
    pub fn present(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter(|entry| entry.gone.is_none()).map(|entry| entry.wire_name.as_str())
    }

    pub(crate) fn is_present(&self, name: &str) -> bool {
        self.find(name).is_some_and(|found| found.gone.is_none())
    }

    /// Every tool with its wire name, in the order of the request.
    pub fn tools(&self) -> impl Iterator<Item = (&str, &Arc<dyn DynTool>)> {
        self.entries.iter().map(|entry| (entry.wire_name.as_str(), &entry.tool))
    }

    /// The built-in tools with their wire names, in the order of the request.
    pub fn builtin(&self) -> impl Iterator<Item = (&str, &Arc<dyn DynTool>)> {
        let own = self.entries.iter().filter(|entry| entry.origin == PoolOrigin::Builtin);
        own.map(|entry| (entry.wire_name.as_str(), &entry.tool))
    }

    /// The wire name of the tool a name, wire name or alias means.
    pub fn wire_name(&self, name: &str) -> Option<&str> {
        self.find(name).map(|found| found.wire_name)
    }

    /// Tools the model only knows by name until it searches for them or calls
    /// them.
    pub fn deferred(&self) -> impl Iterator<Item = (&str, &Arc<dyn DynTool>)> {
        let deferred = self.entries.iter().filter(|entry| entry.is_deferred());
        deferred.map(|entry| (entry.wire_name.as_str(), &entry.tool))
    }

    /// What the request says about tools: a JSON array. Tools sent at once come
    /// first, then the deferred ones in the order they were loaded, so that
    /// loading one changes no byte before it.
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

    /// The index over the deferred tools, by position among them.
    pub(crate) fn search_index(&self) -> &ToolIndex {
        self.search.get_or_init(|| {
            let documents = self.deferred().map(|(wire_name, tool)| {
                let spec = tool.spec();
                // The wire name has lost what is not ASCII.
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
            // The same name twice from outside: the first one is the tool.
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

    /// Aliases come last: no alias takes a name away from a tool.
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
