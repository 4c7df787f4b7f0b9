//! Answers requests from servers. Every request gets an answer, because a server may block until it
//! does.

use serde_json::{Value, json};

use crate::{ServerPlan, uri_of};

/// JSON-RPC error code "method not found".
const NO_METHOD: i64 = -32601;

/// Returns the result, or an error code with a message. Servers cannot make Haft write or show anything.
pub(crate) fn answer(method: &str, params: &Value, plan: &ServerPlan) -> Result<Value, (i64, String)> {
    match method {
        "workspace/configuration" => {
            let items = params["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            let sections =
                items.iter().take(1_000).map(|item| section(&plan.settings, item["section"].as_str()));
            Ok(Value::Array(sections.collect()))
        }
        "workspace/workspaceFolders" => Ok(folders(plan)),
        "workspace/applyEdit" => {
            Ok(json!({"applied": false, "failureReason": "this client only shows edits"}))
        }
        "window/showDocument" => Ok(json!({"success": false})),
        "window/showMessageRequest"
        | "window/workDoneProgress/create"
        | "client/registerCapability"
        | "client/unregisterCapability"
        | "workspace/semanticTokens/refresh"
        | "workspace/inlayHint/refresh"
        | "workspace/inlineValue/refresh"
        | "workspace/codeLens/refresh"
        | "workspace/foldingRange/refresh"
        | "workspace/diagnostic/refresh" => Ok(Value::Null),
        other => Err((NO_METHOD, format!("{} is not known here", haft_types::text::one_line(other, 100)))),
    }
}

/// A section of the settings by its dotted name.
fn section(settings: &Value, name: Option<&str>) -> Value {
    let parts = name.unwrap_or_default().split('.').filter(|it| !it.is_empty());
    let whole = settings.get(name.unwrap_or_default());
    whole.cloned().unwrap_or_else(|| parts.fold(settings, |at, part| &at[part]).clone())
}

fn folders(plan: &ServerPlan) -> Value {
    let name = plan.root.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    json!([{"uri": uri_of(&plan.root), "name": name}])
}

/// Parameters of `initialize`.
pub(crate) fn initialize(plan: &ServerPlan) -> Value {
    let root = uri_of(&plan.root);
    let mut params = json!({
        // In a sandbox our process id is meaningless.
        "processId": null,
        "clientInfo": {"name": "haft", "version": env!("CARGO_PKG_VERSION")},
        "rootUri": root,
        "rootPath": plan.root.to_string_lossy(),
        "workspaceFolders": folders(plan),
        "capabilities": capabilities(),
    });
    if !plan.initialization_options.is_null() {
        params["initializationOptions"] = plan.initialization_options.clone();
    }
    params
}

fn capabilities() -> Value {
    let links = json!({"linkSupport": true});
    json!({
        "general": {"positionEncodings": ["utf-8", "utf-16"]},
        "window": {"workDoneProgress": true},
        "workspace": {
            "configuration": true,
            "workspaceFolders": true,
            "symbol": {},
            "diagnostics": {"refreshSupport": false},
            "workspaceEdit": {"documentChanges": true, "resourceOperations": ["create", "rename", "delete"]},
        },
        "textDocument": {
            "synchronization": {"didSave": true},
            "hover": {"contentFormat": ["markdown", "plaintext"]},
            "definition": links,
            "typeDefinition": links,
            "implementation": links,
            "references": {},
            "documentSymbol": {"hierarchicalDocumentSymbolSupport": true},
            "callHierarchy": {},
            "rename": {"prepareSupport": true},
            "codeAction": {
                "codeActionLiteralSupport": {"codeActionKind": {"valueSet":
                    ["", "quickfix", "refactor", "refactor.extract", "refactor.inline", "refactor.rewrite",
                     "source", "source.organizeImports", "source.fixAll"]}},
                "dataSupport": true,
                "resolveSupport": {"properties": ["edit"]},
                "disabledSupport": true,
                "isPreferredSupport": true,
            },
            "publishDiagnostics": {"versionSupport": true},
            "diagnostic": {},
        },
        "experimental": {"serverStatusNotification": true},
    })
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use super::*;

    #[test]
    fn server_request_always_gets_an_answer() {
        let plan = ServerPlan {
            name: String::from("x"),
            program: "/x".into(),
            args: Vec::new(),
            root: "/work".into(),
            language: String::from("x"),
            env: BTreeMap::new(),
            initialization_options: Value::Null,
            settings: json!({"python": {"analysis": {"mode": "strict"}}, "a.b": 1}),
            startup: Duration::ZERO,
            most_ends: 3,
        };
        let items = json!({"items": [{"section": "python.analysis"}, {"section": "a.b"}, {"section": "no.such"}, {}]});
        let got = answer("workspace/configuration", &items, &plan).unwrap();
        assert_eq!(got, json!([{"mode": "strict"}, 1, null, plan.settings]));
        assert_eq!(
            answer("workspace/workspaceFolders", &Value::Null, &plan).unwrap()[0]["uri"],
            "file:///work"
        );
        assert_eq!(answer("workspace/applyEdit", &Value::Null, &plan).unwrap()["applied"], false);
        assert_eq!(answer("client/registerCapability", &Value::Null, &plan), Ok(Value::Null));
        assert_eq!(answer("x/y", &Value::Null, &plan).unwrap_err().0, NO_METHOD);
    }
}
