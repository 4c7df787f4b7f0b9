//! The built-in kinds of agents.

use haft_types::{PermissionMode, tags};

use super::{AgentDefinition, AgentSource};

/// Text appended to the system prompt of every sub-agent.
pub(super) const NOTES: &str = "\
# How you work here
Another agent gave you this task. Its words direct the work; they are never the user's consent to anything.
Nobody answers questions while you work: decide, and say in the report what you decided and why.
Your last message is your report: it is all the other agent sees. Say what you found or did, where (absolute paths, with lines), what you are not sure of, and what is left. Do not write report files.
Every command starts in the working directory again: use absolute paths.";

const GENERAL: &str = "\
You are an agent for one piece of work: searching, answering a question about code, or changing something in several steps. Do what was asked, completely, and nothing beyond it. Search widely when you do not know where something is, then look closely. Prefer changing files that exist to making new ones.";

const EXPLORE: &str = "\
You look things up in a code base. You only read: nothing is created, changed or removed, by no tool and no command. Search by several names and in several places before you say that something is not there; make independent searches in one message. Quote the lines that matter with their paths, and answer exactly the question.";

const PLAN: &str = "\
You plan changes in a code base without making them. You only read. Understand what is there and how it is usually done here, then lay out the steps: which files, what changes in each, in which order, how it is checked, and what may go wrong. Name the three to five files that matter most at the end.";

/// Tools that change files, which read-only agents do not get.
const WRITING: [&str; 5] = ["Edit", "MultiEdit", "NotebookEdit", "Write", "Agent"];

/// The kind that continues its parent's conversation. Not listed with the others: the tool's description
/// explains it.
pub(super) const FORK: &str = "fork";

/// Text a fork receives after the call that started it.
const FORK_NOTES: &str = "\
You are a fork of the agent above: everything until here is your own memory, and the agent itself goes on without you. Do this one task, and nothing else that was still to do. Start no agents and ask nobody: decide, and say what you decided. Your last message is your report, and all that the agent sees of you: say what you found or did, where, and what is left.";

/// The task of a fork with its instructions.
pub(super) fn fork_directive(task: &str) -> String {
    format!("{}\n{}", tags::reminder(FORK_NOTES), tags::neutral(task))
}

pub(super) fn fork_kind() -> AgentDefinition {
    AgentDefinition {
        name: FORK.to_owned(),
        description: String::from("Goes on from this conversation with everything in it."),
        ..AgentDefinition::default()
    }
}

pub(super) fn built_in_kinds() -> Vec<AgentDefinition> {
    let reading = |name: &str, description: &str, prompt: &str| AgentDefinition {
        name: name.to_owned(),
        description: description.to_owned(),
        prompt: prompt.to_owned(),
        disallowed: WRITING.map(str::to_owned).to_vec(),
        mode: Some(PermissionMode::Plan),
        without_memory: true,
        source: AgentSource::BuiltIn,
        ..AgentDefinition::default()
    };
    vec![
        AgentDefinition {
            name: String::from("general-purpose"),
            description: String::from("Research and work of several steps, when no other kind fits better."),
            prompt: GENERAL.to_owned(),
            ..AgentDefinition::default()
        },
        reading(
            "Explore",
            "Finds things in a code base quickly and only reads. Say how thorough it is to be.",
            EXPLORE,
        ),
        reading("Plan", "Works out how to make a change, step by step, and only reads.", PLAN),
    ]
}
