use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Asks a language server about code. It knows what a name means, where Grep
/// only finds text: definitions, references, types, callers, problems. Lines and
/// characters count from 1; rather than counting characters, name the `symbol`
/// on the line. The first question about a project starts its server, which may
/// have to index for a while; the answer says so. `rename` and `codeActions`
/// only propose: make the changes with MultiEdit.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Input {
    /// What to ask.
    pub operation: Operation,
    /// The file. Not needed for `workspaceSymbol`, nor for `diagnostics` of
    /// everything that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_path: Option<PathBuf>,
    /// The line of the name, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub line: Option<u32>,
    /// The character of the name in its line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub character: Option<u32>,
    /// The name itself: looked for on the line, or without `line` in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// For `workspaceSymbol`: the name, or a part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// For `rename`: the new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_name: Option<String>,
    /// How many results to pass over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
}

/// What can be asked.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Operation {
    /// Where a name is defined.
    GoToDefinition,
    /// Where a name is used.
    FindReferences,
    /// Type and documentation of a name.
    Hover,
    /// The names of a file.
    DocumentSymbol,
    /// Names of the project.
    WorkspaceSymbol,
    /// What implements a name.
    GoToImplementation,
    /// Where the type of a name is defined.
    GoToTypeDefinition,
    /// The function at a place, as callers see it.
    PrepareCallHierarchy,
    /// Who calls a function.
    IncomingCalls,
    /// What a function calls.
    OutgoingCalls,
    /// Errors and warnings of a file, or of all files that are known.
    Diagnostics,
    /// What renaming a name would change.
    Rename,
    /// What the server would do about a place.
    CodeActions,
}

impl Operation {
    /// Returns the name the model uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::GoToDefinition => "goToDefinition",
            Self::FindReferences => "findReferences",
            Self::Hover => "hover",
            Self::DocumentSymbol => "documentSymbol",
            Self::WorkspaceSymbol => "workspaceSymbol",
            Self::GoToImplementation => "goToImplementation",
            Self::GoToTypeDefinition => "goToTypeDefinition",
            Self::PrepareCallHierarchy => "prepareCallHierarchy",
            Self::IncomingCalls => "incomingCalls",
            Self::OutgoingCalls => "outgoingCalls",
            Self::Diagnostics => "diagnostics",
            Self::Rename => "rename",
            Self::CodeActions => "codeActions",
        }
    }

    /// Whether the operation needs a position in a file.
    pub(super) fn needs_place(self) -> bool {
        !matches!(self, Self::DocumentSymbol | Self::WorkspaceSymbol | Self::Diagnostics)
    }

    /// Returns the LSP method, and the server capability it requires.
    pub(super) fn method(self) -> (&'static str, &'static str) {
        match self {
            Self::GoToDefinition => ("textDocument/definition", "definitionProvider"),
            Self::FindReferences => ("textDocument/references", "referencesProvider"),
            Self::Hover => ("textDocument/hover", "hoverProvider"),
            Self::DocumentSymbol => ("textDocument/documentSymbol", "documentSymbolProvider"),
            Self::WorkspaceSymbol => ("workspace/symbol", "workspaceSymbolProvider"),
            Self::GoToImplementation => ("textDocument/implementation", "implementationProvider"),
            Self::GoToTypeDefinition => ("textDocument/typeDefinition", "typeDefinitionProvider"),
            Self::PrepareCallHierarchy | Self::IncomingCalls | Self::OutgoingCalls => {
                ("textDocument/prepareCallHierarchy", "callHierarchyProvider")
            }
            Self::Diagnostics => ("textDocument/diagnostic", ""),
            Self::Rename => ("textDocument/rename", "renameProvider"),
            Self::CodeActions => ("textDocument/codeAction", "codeActionProvider"),
        }
    }

    /// Whether the answer depends on how much of the project the server has indexed.
    pub(super) fn needs_index(self) -> bool {
        !matches!(self, Self::DocumentSymbol | Self::Diagnostics)
    }
}

/// What was answered.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// What was asked.
    pub operation: String,
    /// The answer.
    pub result: String,
    /// About which file.
    pub file_path: String,
    /// How many results there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_count: Option<usize>,
    /// In how many files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_count: Option<usize>,
    /// Who answered.
    pub server: String,
    /// What has to be said about the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}
