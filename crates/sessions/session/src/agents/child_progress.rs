/// Progress of a sub-agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChildProgress {
    /// Current activity, as text.
    pub doing: String,
    /// Name of the tool called last.
    pub last_tool: String,
    /// Number of calls so far.
    pub tool_uses: u64,
    /// Number of tokens so far.
    pub tokens: u64,
    /// Duration of the run in milliseconds.
    pub duration_ms: u64,
    /// Summary written by the agent's model, if the host requested summaries.
    pub summary: Option<String>,
}
