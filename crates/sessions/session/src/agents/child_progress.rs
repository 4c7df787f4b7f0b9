/// How far an agent is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChildProgress {
    /// What it does right now, in words.
    pub doing: String,
    /// The tool it called last.
    pub last_tool: String,
    /// Calls so far.
    pub tool_uses: u64,
    /// Tokens so far.
    pub tokens: u64,
    /// How long it works.
    pub duration_ms: u64,
    /// What it does in words of its model, where a host wanted that.
    pub summary: Option<String>,
}
