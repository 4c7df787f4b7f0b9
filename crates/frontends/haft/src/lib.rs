//! Haft for embedders: define a tool in ten lines, run an agent in ten more.
//!
//! A model asks for calls; Haft checks each one, asks whoever has to be asked,
//! runs it, and gives the model what came of it. This crate is the whole of that
//! for a program of your own:
//!
//! | you want | begin with | a program that does it |
//! |---|---|---|
//! | a tool of your own | [A tool](#a-tool), [`tool::Tool`] | `examples/word_count.rs` |
//! | an agent | [An agent](#an-agent), [`Agent`] | `examples/agent.rs` |
//! | to say who may do what | [Rules](#rules), [`AgentBuilder::allow`], [`AgentBuilder::ask`] | `examples/guarded.rs` |
//! | another model than those there are | [`model::Provider`] | `examples/own_provider.rs` |
//! | a face: an editor, a bot, a window | [`session::Session`] | `examples/own_face.rs` |
//! | to test all that without a key | [`model::ScriptedProvider`], the crate `haft-testkit` | `examples/tested.rs` |
//! | your tools in other agents | [`mcp::serve`] | [`mcp`] |
//!
//! `haft new tool NAME` writes a crate with a tool, its test and a server to
//! start from.
//!
//! # Features
//!
//! Without any, the crate has tools and what their calls pass through: enough for
//! [a tool](#a-tool), and quick to compile. Everything else is asked for:
//!
//! | feature | what it adds |
//! |---|---|
//! | `agent` | models, sessions and agents with the built-in tools: [`Agent`], [`model`], [`session`] |
//! | `mcp` | your tools for other agents: [`mcp::serve`]; needs `agent` |
//! | `web` | the built-in tools for web pages and searches; needs `agent` |
//! | `media` | pictures and PDFs in built-in tools; needs `agent` |
//! | `bedrock` | models behind Amazon Bedrock; needs `agent` |
//! | `vertex` | Google's own credentials for models behind Vertex AI; needs `agent` |
//! | `http-hooks` | hooks that are addresses, for [`Tools`]; agents have them |
//! | `full` | all of these but `vertex` |
//!
//! A build without a feature never does something else instead: what is missing does not
//! compile, is no tool that a model sees, or says that this build lacks it. A hook that
//! this build cannot run closes what it guards.
//!
//! # A tool
//!
//! ```
//! use haft::prelude::*;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Args {
//!     /// Whom to greet.
//!     name: String,
//! }
//!
//! # async fn run() -> Result<(), BuildError> {
//! let greet = tool("greet", "Greets somebody.", async |args: Args, _cx| {
//!     Ok(format!("hello {}", args.name).into())
//! });
//! let mut tools = Tools::new(vec![greet.read_only().build()])?;
//! let report = tools.call("greet", json!({"name": "you"})).await;
//! assert_eq!(report.content.to_text(), "hello you");
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(run()).unwrap();
//! ```
//!
//! # An agent
//!
//! With a key in the environment, the model is [`model_from_env`]:
//!
//! ```no_run
//! # use haft::prelude::*;
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let mut agent = Agent::builder(model_from_env()?).built_in_tools().build()?;
//! println!("{}", agent.run("What is in this directory?").await.text);
//! # Ok(())
//! # }
//! ```
//!
//! The model here is scripted, so that this page can be tested:
//!
//! ```
//! use haft::prelude::*;
//! use haft::model::ScriptedProvider;
//! use haft::types::{MessageBlock, ToolUse};
//!
//! # #[derive(Deserialize, JsonSchema)]
//! # struct Args { name: String }
//! # async fn run() -> Result<(), BuildError> {
//! let call = ToolUse { id: "1".into(), name: "greet".into(), input: json!({"name": "you"}) };
//! let model = ScriptedProvider::new([
//!     vec![MessageBlock::ToolUse(call)],
//!     vec![MessageBlock::Text { text: "Done.".into() }],
//! ]);
//! let greet = tool("greet", "Greets somebody.", async |args: Args, _cx| {
//!     Ok(format!("hello {}", args.name).into())
//! });
//! let mut agent = Agent::builder(model)
//!     .tool(greet.build())
//!     .ask(async |asked| match asked.tool.as_str() {
//!         "greet" => PermissionAnswer::allow(),
//!         _ => PermissionAnswer::deny("only greetings here"),
//!     })
//!     .hook(HookEvent::PreToolUse, "*", async |_call| HookReply::Pass)
//!     .max_turns(10)
//!     .build()?;
//!
//! let mut run = agent.start("Say hello.");
//! while let Some(event) = run.next().await {
//!     if let AgentEvent::CallFinished(call) = event {
//!         assert_eq!(call.report.content.to_text(), "hello you");
//!     }
//! }
//! let end = run.end().await;
//! assert_eq!((end.reason, end.text.as_str()), (EndReason::Completed, "Done."));
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(run()).unwrap();
//! ```
//!
//! # Rules
//!
//! What a call may do is decided before it runs, in this order: hooks, rules that
//! deny, rules that ask, the mode, rules that allow, and whoever
//! [`AgentBuilder::ask`] names. What nobody decided does not run, and the model is
//! told why.
//!
//! ```
//! use haft::prelude::*;
//! use haft::model::ScriptedProvider;
//! use haft::types::{MessageBlock, ToolUse};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! let call = |id: &str, command: &str| {
//!     let input = json!({"command": command});
//!     MessageBlock::ToolUse(ToolUse { id: id.into(), name: "Bash".into(), input })
//! };
//! let model = ScriptedProvider::new([
//!     vec![call("1", "mkdir kept"), call("2", "rm -r kept")],
//!     vec![MessageBlock::Text { text: "One of two.".into() }],
//! ]);
//! let mut agent = Agent::builder(model)
//!     .cwd(dir.path())
//!     .state_dir(dir.path().join(".state"))
//!     .built_in_tools()
//!     .allow("Bash(mkdir *)")
//!     .deny("Bash(rm *)")
//!     .build()?;
//! let end = agent.run("Tidy up.").await;
//! assert_eq!(end.denials.len(), 1);
//! assert!(dir.path().join("kept").is_dir());
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(run()).unwrap();
//! ```
//!
//! # The built-in tools
//!
//! [`AgentBuilder::built_in_tools`] adds what the program `haft` itself works
//! with: Read, Edit, Write, Bash, Grep and the others. Looking around in the directory needs no rule; changing it does.
//!
//! ```
//! use haft::prelude::*;
//! use haft::model::ScriptedProvider;
//! use haft::types::{MessageBlock, ToolUse};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! let input = json!({"file_path": "notes.txt", "content": "hello\n"});
//! let call = ToolUse { id: "1".into(), name: "Write".into(), input };
//! let model = ScriptedProvider::new([
//!     vec![MessageBlock::ToolUse(call)],
//!     vec![MessageBlock::Text { text: "Written.".into() }],
//! ]);
//! let mut agent = Agent::builder(model)
//!     .cwd(dir.path())
//!     .state_dir(dir.path().join(".state"))
//!     .built_in_tools()
//!     .allow("Edit(notes.txt)")
//!     .build()?;
//! let end = agent.run("Write a note.").await;
//! assert_eq!(end.text, "Written.");
//! assert_eq!(std::fs::read_to_string(dir.path().join("notes.txt"))?, "hello\n");
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(run()).unwrap();
//! ```
//!
//! **Does not know** terminals or flags, nor how a session is put together: a
//! builder makes a spec, and the engine does the rest. Settings files count only
//! where a program asks for them, but for the organisation's.
//!
//! **Invariant:** a call made here goes through the same eight stages as one a
//! model makes.
//!
//! **Invariant:** what nobody allowed and nobody was asked about does not run.

#![warn(missing_docs)]

#[cfg(feature = "agent")]
mod agent;
mod build_error;
mod local_calls;
#[cfg(feature = "mcp")]
pub mod mcp;
mod tool_set;

/// The programs of the README are compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../README.md")]
struct ProgramsOfTheReadme;

#[cfg(feature = "agent")]
pub use agent::{Agent, AgentBuilder, AgentRun, HookReply};
pub use build_error::BuildError;
#[cfg(feature = "agent")]
pub use haft_agent as engine;
pub use haft_config as config;
pub use haft_hooks as hooks;
#[cfg(feature = "agent")]
pub use haft_model as model;
pub use haft_permission as permission;
#[cfg(feature = "agent")]
pub use haft_session as session;
pub use haft_tool as tool;
pub use haft_tool_runtime as runtime;
pub use haft_types as types;
pub use tool_set::Tools;

/// Creates the provider that the process environment configures (`ANTHROPIC_API_KEY`, `OPENAI_API_KEY`
/// or another variable of `docs/reference/models.md`), with its key. Reads environment variables only and sends no
/// request.
///
/// # Errors
///
/// No variable names a provider or a key, or a value is invalid.
#[cfg(feature = "agent")]
pub fn model_from_env() -> Result<impl haft_model::Provider + 'static, haft_model::ModelError> {
    let env = |name: &str| std::env::var(name).ok();
    let choice = haft_model::ProviderChoice::from_env(&env, &haft_model::KeySettings::default())?;
    choice.build(haft_model::ProviderOptions::from_env(&env))
}

/// The names a program that defines tools or runs an agent usually needs.
pub mod prelude {
    #[cfg(feature = "agent")]
    pub use haft_agent::{AgentEvent, EndReason, TurnEnd};
    pub use haft_hooks::{HookCall, HookEvent};
    #[cfg(feature = "agent")]
    pub use haft_session::{Prompt, SessionEvent, SessionSpec};
    pub use haft_tool::{
        AccessSet, CallContext, Content, ErrorKind, Outcome, Rendered, Stage, Tool, ToolContext, ToolError,
        Traits, Verdict, erase, tool,
    };
    pub use haft_tool_runtime::{PermissionAnswer, PermissionQuestion};
    pub use schemars::{self, JsonSchema};
    pub use serde::{self, Deserialize, Serialize};
    pub use serde_json::json;

    #[cfg(feature = "mcp")]
    pub use crate::mcp::HttpOptions;
    #[cfg(feature = "agent")]
    pub use crate::{Agent, HookReply, model_from_env};
    pub use crate::{BuildError, Tools};
}
