//! System prompt and tools at the beginning of requests, kept unchanged for the prompt cache.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use haft_model::{SystemPart, ToolDef, ToolLoading, ToolOrigin, ToolSet};
use haft_tool::{DynTool, Exposure, Tool as _};
use haft_tool_runtime::{Pool, ToolSearch};
use haft_types::{Block, Message, MessageBlock, SessionId, text};

use super::change_notice::{changed_tool, goes_on, prompt_news};
use crate::{SystemPrompt, log::LogState};

/// System prompt and tools that an earlier process sent, from its log.
#[derive(Clone, Debug, Default)]
pub struct StoredPrefix {
    pub prompt: Option<Box<SystemPrompt>>,
    /// The system prompt with the updates sent since.
    pub told: Option<Box<SystemPrompt>>,
    /// MCP tools, in the order they were sent.
    pub tools: Vec<ToolDef>,
}

/// The inputs of the declaration.
pub(crate) struct PrefixSources<'a> {
    pub(crate) session: &'a SessionId,
    pub(crate) prompt: &'a SystemPrompt,
    pub(crate) pool: &'a Pool,
    /// Names of deferred tools that were loaded, in order.
    pub(crate) loaded: &'a [String],
    /// The structured output tool.
    pub(crate) structured: Option<ToolDef>,
    pub(crate) messages: &'a [Arc<Message>],
}

/// The tools and the system prompt of a session's requests.
///
/// **Invariant:** unless the prompt or the built-in tools are changed on purpose, tools are only
/// added at the end. If the provider supports it, they are declared so that the prompt cache stays
/// valid.
pub(crate) struct DeclaredPrefix {
    session: SessionId,
    /// The current prompt, the prompt that is sent, and the prompt the model knows including updates.
    wanted: SystemPrompt,
    sent: SystemPrompt,
    known: SystemPrompt,
    system: Vec<SystemPart>,
    /// The built-in tools, for detecting changes.
    fixed: Vec<(String, Arc<dyn DynTool>)>,
    structured: Option<ToolDef>,
    tools: Vec<ToolDef>,
    set: Arc<ToolSet>,
    /// Size of the MCP tool definitions in bytes.
    weight: usize,
    /// MCP tools whose definitions were compared.
    checked: HashMap<String, Arc<dyn DynTool>>,
    /// Names of tools that the conversation references.
    referred: HashSet<String>,
    logged: LoggedParts,
}

/// What is already in the log.
#[derive(Default)]
struct LoggedParts {
    prompt: Option<SystemPrompt>,
    told: Option<SystemPrompt>,
    /// Number of MCP tools in the log; larger than the actual number if all must be logged again.
    tools: usize,
}

impl DeclaredPrefix {
    /// Continues what an earlier process sent, if possible.
    pub(crate) fn new(from: &PrefixSources<'_>, stored: StoredPrefix) -> Self {
        let StoredPrefix { prompt, told, tools } = stored;
        let kept = prompt.filter(|it| goes_on(it, from.prompt)).map(|it| *it);
        let logged = LoggedParts {
            prompt: kept.clone(),
            told: told.as_deref().cloned().or_else(|| kept.clone()),
            tools: tools.len(),
        };
        let known = told.filter(|_| kept.is_some()).map(|it| *it);
        let sent = kept.unwrap_or_else(|| from.prompt.clone());
        let known = known.unwrap_or_else(|| sent.clone());
        let mut new = Self {
            session: from.session.clone(),
            wanted: from.prompt.clone(),
            system: system(&sent),
            sent,
            known,
            fixed: fixed(from.pool),
            structured: from.structured.clone(),
            tools: Vec::new(),
            set: Arc::default(),
            weight: 0,
            checked: HashMap::new(),
            referred: referred(from.messages),
            logged,
        };
        new.tools = new.builtin();
        new.tools.extend(tools);
        new.add_external(from);
        new.make_set(from.pool);
        new
    }

    /// Rebuilds everything, because the prompt cache is lost anyway.
    pub(crate) fn renew(&mut self, from: &PrefixSources<'_>) {
        let mut logged = std::mem::take(&mut self.logged);
        logged.tools = if logged.tools == 0 { 0 } else { usize::MAX };
        *self = Self { logged, ..Self::new(from, StoredPrefix::default()) };
    }

    /// Applies unavoidable changes: loaded tools, and intentional changes of prompt or built-in tools.
    pub(crate) fn follow(&mut self, from: &PrefixSources<'_>) {
        if self.wanted.is_but_for_style(from.prompt) {
            // A changed output style is sent as a message; the prompt is kept.
            self.wanted.style.clone_from(&from.prompt.style);
        } else {
            self.wanted = from.prompt.clone();
            self.sent = from.prompt.clone();
            self.known = from.prompt.clone();
            self.system = system(&self.sent);
        }
        if !is_fixed(&self.fixed, from.pool) || self.structured != from.structured {
            let external = self.external().cloned().collect::<Vec<_>>();
            (self.fixed, self.structured) = (fixed(from.pool), from.structured.clone());
            self.tools = self.builtin();
            self.tools.extend(external);
            self.make_set(from.pool);
        }
        let before = self.tools.len();
        for name in from.loaded {
            self.add(name, from.pool, ToolLoading::Late);
        }
        if before < self.tools.len() {
            self.make_set(from.pool);
        }
    }

    /// Whether it belongs to this session.
    pub(crate) fn is_of(&self, session: &SessionId) -> bool {
        self.session == *session
    }

    pub(crate) fn system(&self) -> Vec<SystemPart> {
        self.system.clone()
    }

    pub(crate) fn set(&self) -> Arc<ToolSet> {
        Arc::clone(&self.set)
    }

    /// The prompt that is sent, and the prompt the model knows including updates.
    pub(crate) fn prompts(&self) -> (&SystemPrompt, &SystemPrompt) {
        (&self.sent, &self.known)
    }

    /// The prompt that is sent.
    pub(crate) fn prompt(&self) -> &SystemPrompt {
        &self.sent
    }

    /// Names of the system prompt parts, from their first lines.
    pub(crate) fn part_names(&self) -> Vec<String> {
        let first = |part: &SystemPart| {
            let line = part.text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            text::one_line(line, 60)
        };
        self.system.iter().map(first).collect()
    }

    /// Whether the result of a call should reference the tool, so that the model sees its definition
    /// from then on.
    pub(crate) fn wants_reference(&mut self, name: &str) -> bool {
        let is_eager = |tool: &ToolDef| tool.name == name && tool.loading == ToolLoading::Eager;
        !self.tools.iter().any(is_eager) && self.referred.insert(name.to_owned())
    }

    /// Records that the conversation references a tool.
    pub(crate) fn refer(&mut self, name: &str) {
        self.referred.insert(name.to_owned());
    }

    /// Messages about changes that the beginning of requests does not contain.
    pub(crate) fn take_news(&mut self, pool: &Pool) -> Vec<String> {
        let mut news = prompt_news(&self.known, &self.wanted);
        if !news.is_empty() {
            self.known = self.wanted.clone();
        }
        for tool in self.tools.iter().filter(|it| it.origin == ToolOrigin::External) {
            let Some(now) = pool.get(&tool.name) else { continue };
            if self.checked.get(&tool.name).is_some_and(|it| Arc::ptr_eq(it, now)) {
                continue;
            }
            let spec = now.spec();
            let known = match self.checked.insert(tool.name.clone(), Arc::clone(now)) {
                Some(before) => {
                    before.spec().description == spec.description
                        && before.spec().input_schema == spec.input_schema
                }
                None => tool.description == spec.description && tool.input_schema == spec.input_schema,
            };
            if !known {
                news.push(changed_tool(&tool.name, now.as_ref()));
            }
        }
        news
    }

    /// Log entries that let the next process continue from here.
    pub(crate) fn take_log(&mut self) -> Vec<LogState> {
        let mut states = Vec::new();
        if self.logged.prompt.as_ref() != Some(&self.sent) {
            states.push(LogState::Prompt { prompt: Box::new(self.sent.clone()) });
            self.logged.prompt = Some(self.sent.clone());
            self.logged.told = Some(self.sent.clone());
        }
        if self.logged.told.as_ref() != Some(&self.known) {
            states.push(LogState::Told { prompt: Box::new(self.known.clone()) });
            self.logged.told = Some(self.known.clone());
        }
        // Too large to be logged: the next process queries the servers.
        let count = if self.weight <= MAX_LOGGED { self.external().count() } else { 0 };
        match self.logged.tools {
            logged if logged == count => (),
            logged if logged < count => {
                states.push(LogState::MoreTools { tools: self.external().skip(logged).cloned().collect() });
            }
            _ => states.push(LogState::Tools { tools: self.external().take(count).cloned().collect() }),
        }
        self.logged.tools = count;
        states
    }

    fn external(&self) -> impl Iterator<Item = &ToolDef> {
        self.tools.iter().filter(|it| it.origin == ToolOrigin::External)
    }

    fn builtin(&self) -> Vec<ToolDef> {
        let define = |(name, tool): &(String, Arc<dyn DynTool>)| define(name, tool.as_ref());
        self.fixed.iter().map(define).chain(self.structured.clone()).collect()
    }

    /// Adds MCP tools that are always declared, then loaded ones. Referenced tools are not part of the
    /// beginning.
    fn add_external(&mut self, from: &PrefixSources<'_>) {
        let direct = from.pool.tools().filter(|(_, tool)| tool.exposure() != Exposure::Deferred);
        let names: Vec<&str> = direct.map(|(name, _)| name).collect();
        for name in names {
            self.add(name, from.pool, ToolLoading::Eager);
        }
        for name in from.loaded {
            let is_referred = self.referred.contains(name);
            self.add(name, from.pool, if is_referred { ToolLoading::Late } else { ToolLoading::Eager });
        }
    }

    fn add(&mut self, name: &str, pool: &Pool, loading: ToolLoading) {
        let Some(tool) = pool.get(name) else { return };
        if self.tools.iter().any(|it| it.name == name) {
            return;
        }
        self.checked.insert(name.to_owned(), Arc::clone(tool));
        self.tools.push(ToolDef { origin: ToolOrigin::External, loading, ..define(name, tool.as_ref()) });
    }

    fn make_set(&mut self, pool: &Pool) {
        self.weight = self.external().map(size).sum();
        let set = ToolSet::new(self.tools.iter().cloned());
        let may_grow = pool.get(ToolSearch::NAME).is_some();
        self.set = Arc::new(if may_grow { set.growable() } else { set });
    }
}

/// Maximum size in bytes of tool definitions that are logged.
const MAX_LOGGED: usize = 256 << 10;

fn size(tool: &ToolDef) -> usize {
    tool.name.len() + tool.description.len() + tool.input_schema.to_string().len()
}

fn define(name: &str, tool: &dyn DynTool) -> ToolDef {
    let spec = tool.spec();
    ToolDef::new(name, spec.description.clone(), spec.input_schema.clone())
}

/// The system prompt as parts of a request.
pub(crate) fn system(prompt: &SystemPrompt) -> Vec<SystemPart> {
    let mut system: Vec<SystemPart> = prompt.parts().into_iter().map(SystemPart::from).collect();
    if let Some(first) = system.first_mut() {
        first.breakpoint = true;
    }
    system
}

/// The built-in tools that are always declared.
fn always_sent(pool: &Pool) -> impl Iterator<Item = (&str, &Arc<dyn DynTool>)> {
    pool.builtin().filter(|(_, tool)| tool.exposure() != Exposure::Deferred)
}

fn fixed(pool: &Pool) -> Vec<(String, Arc<dyn DynTool>)> {
    always_sent(pool).map(|(name, tool)| (name.to_owned(), Arc::clone(tool))).collect()
}

/// Whether the always declared built-in tools are unchanged.
fn is_fixed(known: &[(String, Arc<dyn DynTool>)], pool: &Pool) -> bool {
    let mut now = always_sent(pool);
    let is_same = |(name, tool): &(String, Arc<dyn DynTool>)| {
        now.next().is_some_and(|(now, it)| now == name && Arc::ptr_eq(it, tool))
    };
    known.iter().all(is_same) && now.next().is_none()
}

/// Names of the tools that the conversation references.
fn referred(messages: &[Arc<Message>]) -> HashSet<String> {
    let blocks = messages.iter().flat_map(|message| &message.content);
    let results = blocks.filter_map(|block| match block {
        MessageBlock::ToolResult { content, .. } => Some(&content.0),
        _ => None,
    });
    let names = results.flatten().filter_map(|block| match block {
        Block::ToolReference { tool_name } => Some(tool_name.clone()),
        _ => None,
    });
    names.collect()
}
