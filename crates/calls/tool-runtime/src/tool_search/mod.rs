//! The search over deferred tools, and the tool that offers it to the model.

mod index;
mod synonyms;

use std::sync::{Arc, PoisonError, RwLock};

use haft_tool::{
    AccessSet, CallContext, Content, ContextChange, Exposure, Outcome, Tool, ToolContext, ToolError, Traits,
};
use haft_types::{Block, nearest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Pool;
pub(crate) use index::{ToolDocument, ToolIndex};

/// The current tool pool of a session. Clones share it.
#[derive(Clone)]
pub struct SharedPool(Arc<RwLock<Arc<Pool>>>);

impl SharedPool {
    /// Starts with this pool.
    pub fn new(pool: Pool) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(pool))))
    }

    /// Returns the pool to use for the next request.
    pub fn get(&self) -> Arc<Pool> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the pool. Calls made from the old pool are still looked up there.
    pub fn set(&self, pool: Pool) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pool);
    }
}

/// Finds tools that are not in your list yet and loads their schemas, so that you can call them.
/// `query` is either `select:Name,OtherName` to load tools whose names you know, or a few keywords;
/// a keyword with `+` in front must be part of the tool's name.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ToolSearchInput {
    /// `select:A,B` or keywords such as `+github create issue`.
    pub query: String,
    /// How many tools to load at most.
    #[serde(default = "five")]
    #[schemars(range(min = 1, max = 50))]
    pub max_results: u32,
}

fn five() -> u32 {
    5
}

/// The tools found, with their definitions.
#[derive(Debug, Serialize)]
pub struct ToolSearchOutput {
    query: String,
    matches: Vec<ToolMatch>,
    total_deferred_tools: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_found: Vec<String>,
    #[serde(skip)]
    suggestions: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ToolMatch {
    name: String,
    description: String,
    input_schema: Arc<Value>,
}

/// The tool with which the model finds and loads deferred tools.
pub struct ToolSearch {
    pool: SharedPool,
}

impl ToolSearch {
    /// Creates the tool for `pool`.
    pub fn new(pool: SharedPool) -> Self {
        Self { pool }
    }
}

impl Tool for ToolSearch {
    type Input = ToolSearchInput;
    type Output = ToolSearchOutput;
    type Progress = ();
    const NAME: &'static str = "ToolSearch";

    fn traits(&self) -> Traits {
        Traits {
            aliases: &["tool_search"],
            search_hint: "find and load deferred tools",
            exposure: Exposure::Always,
            ..Traits::default()
        }
    }

    fn is_read_only(&self, _input: &ToolSearchInput) -> bool {
        true
    }

    fn is_concurrency_safe(&self, _input: &ToolSearchInput) -> bool {
        true
    }

    fn reach(&self, _input: &ToolSearchInput, _cx: &CallContext) -> AccessSet {
        AccessSet::nothing()
    }

    async fn call(
        &self,
        input: ToolSearchInput,
        _cx: &ToolContext<()>,
    ) -> Result<Outcome<ToolSearchOutput>, ToolError> {
        let pool = self.pool.get();
        let most = usize::try_from(input.max_results).unwrap_or(usize::MAX);
        let (names, not_found) = match input.query.trim().strip_prefix("select:") {
            Some(list) => select(&pool, list),
            None => (pool.search(&input.query, most), Vec::new()),
        };
        let suggestions = not_found.iter().flat_map(|name| pool.meant(name));
        let output = ToolSearchOutput {
            suggestions: suggestions.collect(),
            total_deferred_tools: pool.deferred().count(),
            matches: names.iter().filter_map(|name| described(&pool, name)).collect(),
            query: input.query,
            not_found,
        };
        let mut outcome = Outcome::from(output);
        if !names.is_empty() {
            outcome = outcome.with_change(ContextChange::LoadTools(names));
        }
        Ok(outcome)
    }

    fn to_content(&self, output: &ToolSearchOutput) -> Content {
        let mut lines = Vec::new();
        if output.matches.is_empty() && output.not_found.is_empty() {
            lines.push(format!(
                "No deferred tool matches. There are {}; try other keywords, or fewer",
                output.total_deferred_tools
            ));
        }
        if !output.not_found.is_empty() {
            lines.push(format!("There is no tool named {}.", output.not_found.join(", ")));
            if !output.suggestions.is_empty() {
                lines.push(format!("Did you mean {}?", output.suggestions.join(" or ")));
            }
        }
        // Providers that support tool references expand them without invalidating their prompt cache;
        // for others they are converted to text.
        let found = output.matches.iter().map(|it| Block::ToolReference { tool_name: it.name.clone() });
        let words = (!lines.is_empty()).then(|| Block::text(lines.join("\n")));
        Content(found.chain(words).collect())
    }
}

/// Resolves a comma-separated list of tool names. Returns the wire names, and the names that do not
/// exist.
fn select(pool: &Pool, list: &str) -> (Vec<String>, Vec<String>) {
    let (mut names, mut not_found) = (Vec::new(), Vec::new());
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match pool.find(name) {
            Some(found) if !names.iter().any(|it| it == found.wire_name) => {
                names.push(found.wire_name.to_owned())
            }
            Some(_) => (),
            None => not_found.push(name.to_owned()),
        }
    }
    (names, not_found)
}

fn described(pool: &Pool, name: &str) -> Option<ToolMatch> {
    let spec = pool.get(name)?.spec();
    Some(ToolMatch {
        name: name.to_owned(),
        description: spec.description.clone(),
        input_schema: spec.input_schema.clone(),
    })
}

impl Pool {
    /// Returns up to three tools the model may have meant by a name that does not exist: first those
    /// with a similar spelling, then those that a search finds.
    pub(crate) fn meant(&self, name: &str) -> Vec<String> {
        const MOST: usize = 3;
        let mut meant: Vec<String> =
            nearest(name, self.names(), MOST).into_iter().map(str::to_owned).collect();
        let own = name.rsplit("__").next().unwrap_or(name);
        for found in self.search(own, MOST) {
            if meant.len() < MOST && !meant.contains(&found) {
                meant.push(found);
            }
        }
        meant
    }

    /// Returns the wire names of the deferred tools that match best, at most `most`. Words with a
    /// leading `+` must occur in the name.
    pub fn search(&self, query: &str, most: usize) -> Vec<String> {
        let (required, plain): (Vec<&str>, Vec<&str>) =
            query.split_whitespace().partition(|word| 1 < word.len() && word.starts_with('+'));
        let required: Vec<String> = required.iter().map(|word| word[1..].to_owned()).collect();
        let names: Vec<&str> = self.deferred().map(|(name, _)| name).collect();
        let found = self.search_index().search(&plain.join(" "), &required);
        // Tools whose server is gone are not worth loading.
        let there = found.into_iter().map(|at| names[at]).filter(|name| self.is_present(name));
        there.take(most).map(str::to_owned).collect()
    }
}
