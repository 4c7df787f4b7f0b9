//! Lists the agents of a session that can receive messages.

use std::sync::Arc;

use haft_tool::{AccessSet, CallContext, Content, Exposure, Outcome, Tool, ToolContext, ToolError, Traits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::send_message::{AgentMailer, ListedAgent};

/// Lists the agents of this session that can be reached with SendMessage, with what each does and
/// whether it works. There is no need to ask whether one is done: its report comes by itself.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub struct Input {
    /// Ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
}

/// Agents grouped by status.
#[derive(Clone, Debug)]
pub struct Output {
    own_name: String,
    agents: Vec<ListedAgent>,
}

impl Output {
    fn sections(&self) -> impl Iterator<Item = (&'static str, Vec<&ListedAgent>)> {
        let sections = ["running", "resumable", "stopped"]
            .map(|status| (status, self.agents.iter().filter(|it| it.status == status).collect::<Vec<_>>()));
        sections.into_iter().filter(|(_, rows)| !rows.is_empty())
    }

    fn listing(&self) -> String {
        let mut out = format!("You are {}.", self.own_name);
        if self.agents.is_empty() {
            out.push_str("\nThere are no other agents.");
        }
        for (status, rows) in self.sections() {
            out.push_str(&format!("\n{status}:"));
            for it in rows {
                let about = haft_types::text::one_line(&it.description, 100);
                out.push_str(&format!("\n- {} ({}, {}): {about}", it.name, it.kind, it.id));
            }
        }
        out
    }
}

impl Serialize for Output {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sections: Vec<Value> = self
            .sections()
            .map(|(kind, rows)| {
                let total = rows.len();
                let rows: Vec<Value> = rows
                    .into_iter()
                    .map(|it| json!({"name": it.name, "ref": it.id, "id": it.id, "type": it.kind, "status": it.status}))
                    .collect();
                json!({"kind": kind, "total": total, "rows": rows})
            })
            .collect();
        json!({"listing": self.listing(), "sections": sections, "notes": []}).serialize(serializer)
    }
}

pub struct ListAgents {
    post: Arc<dyn AgentMailer>,
}

impl ListAgents {
    pub fn new(post: Arc<dyn AgentMailer>) -> Self {
        Self { post }
    }
}

impl Tool for ListAgents {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "ListAgents";

    fn traits(&self) -> Traits {
        Traits { search_hint: "list agents running names", exposure: Exposure::Deferred, ..Traits::default() }
    }

    fn is_enabled(&self) -> bool {
        self.post.is_open()
    }

    fn is_read_only(&self, _input: &Input) -> bool {
        true
    }

    fn is_concurrency_safe(&self, _input: &Input) -> bool {
        true
    }

    fn reach(&self, _input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::nothing()
    }

    fn describe(&self, _input: &Input) -> String {
        String::from("List the agents of this session")
    }

    async fn call(&self, _input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let (own_name, agents) = self.post.list(cx);
        Ok(Output { own_name, agents }.into())
    }

    fn to_content(&self, output: &Output) -> Content {
        Content::text(output.listing())
    }
}
