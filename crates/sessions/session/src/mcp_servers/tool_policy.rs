//! Permission policies of the embedding program for tools of its servers.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use haft_mcp_client::tool_name;
use haft_permission::{Behavior, RuleSource};
use serde_json::{Map, Value};

/// Behaviour and tool name of a rule.
pub(crate) type ToolRule = (Behavior, String);

/// Rules by server.
#[derive(Debug, Default)]
pub(crate) struct ToolPolicies(Mutex<BTreeMap<String, Vec<ToolRule>>>);

impl ToolPolicies {
    /// Source of these rules. Answers to prompts cannot remove them.
    pub(crate) fn origin() -> RuleSource {
        RuleSource::fixed("the tool policy of the program that opened the session")
    }

    fn by_server(&self) -> MutexGuard<'_, BTreeMap<String, Vec<ToolRule>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the rules of a server's configuration. Without policies nothing changes. Returns whether
    /// there were any.
    pub(crate) fn add(&self, server: &str, config: &Value) -> bool {
        let Some(rules) = rules(server, config) else { return false };
        let mut by_server = self.by_server();
        let known = by_server.entry(server.to_owned()).or_default();
        for rule in rules {
            if !known.contains(&rule) {
                known.push(rule);
            }
        }
        true
    }

    /// Replaces all rules by those of these configurations.
    pub(crate) fn replace(&self, configs: &Map<String, Value>) {
        self.by_server().clear();
        for (server, config) in configs {
            self.add(server, config);
        }
    }

    pub(crate) fn rules(&self) -> Vec<ToolRule> {
        self.by_server().values().flatten().cloned().collect()
    }
}

/// Parses `tools: [{name, permission_policy, org_max_permission}]`; `None` if it is not a list. Entries
/// without a name are skipped. Only remote servers can be allowed; an unknown policy means ask.
fn rules(server: &str, config: &Value) -> Option<Vec<ToolRule>> {
    let is_remote = config["type"] != "sdk" && config["url"].is_string();
    let mut rules = Vec::new();
    for entry in config["tools"].as_array()? {
        let Some(name) = entry["name"].as_str() else { continue };
        let rule = |behavior| (behavior, tool_name(server, name));
        let policy = entry.get("permission_policy").map(|it| it.as_str());
        rules.extend(match policy {
            None => None,
            Some(Some("always_allow")) => is_remote.then(|| rule(Behavior::Allow)),
            Some(Some("always_deny")) => Some(rule(Behavior::Deny)),
            Some(_) => Some(rule(Behavior::Ask)),
        });
        rules.extend(match entry["org_max_permission"].as_str().filter(|_| is_remote) {
            Some("ask") => Some(rule(Behavior::Ask)),
            Some("blocked") => Some(rule(Behavior::Deny)),
            _ => None,
        });
    }
    Some(rules)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(rules: Vec<ToolRule>) -> Vec<String> {
        rules.into_iter().map(|(behavior, tool)| format!("{behavior:?} {tool}")).collect()
    }

    #[test]
    fn tool_policies_of_hosts_become_rules_that_only_remote_servers_widen() {
        let tools = json!([
            {"name": "a", "permission_policy": "always_ask"},
            {"name": "b c", "permission_policy": "always_deny"},
            {"name": "d", "permission_policy": "always_allow"},
            {"name": "e", "permission_policy": "newer"},
            {"name": "f", "permission_policy": null},
            {"name": "g", "org_max_permission": "blocked"},
            {"name": "h", "permission_policy": "always_allow", "org_max_permission": "ask"},
            {"name": "i"},
            {"permission_policy": "always_deny"},
            "x",
        ]);
        let both = ["Ask mcp__s_t__a", "Deny mcp__s_t__b_c"];
        let asks = ["Ask mcp__s_t__e", "Ask mcp__s_t__f"];
        let remote = ["Deny mcp__s_t__g", "Allow mcp__s_t__h", "Ask mcp__s_t__h"];
        let of_sdk: Vec<&str> = both.into_iter().chain(asks).collect();
        let of_remote: Vec<&str> =
            both.into_iter().chain(["Allow mcp__s_t__d"]).chain(asks).chain(remote).collect();
        for (config, want) in [
            (json!({"type": "sdk", "tools": tools}), Some(of_sdk.clone())),
            (json!({"tools": tools}), Some(of_sdk.clone())),
            (json!({"type": "sdk", "url": "https://a", "tools": tools}), Some(of_sdk)),
            (json!({"type": "http", "url": "https://a", "tools": tools}), Some(of_remote)),
            (json!({"tools": {"name": "a"}}), None),
            (json!({}), None),
        ] {
            assert_eq!(
                rules("s t", &config).map(shown),
                want.map(|it| it.into_iter().map(str::to_owned).collect())
            );
        }
    }

    #[test]
    fn tool_policies_are_added_to_and_replaced_as_a_whole() {
        let policy =
            |tool: &str, policy: &str| json!({"tools": [{"name": tool, "permission_policy": policy}]});
        let policies = ToolPolicies::default();
        assert!(policies.add("s", &policy("a", "always_ask")));
        assert!(policies.add("s", &policy("b", "always_deny")));
        assert!(!policies.add("s", &json!({"type": "sdk"})));
        assert_eq!(shown(policies.rules()), ["Ask mcp__s__a", "Deny mcp__s__b"]);
        let configs = json!({"s": {"type": "sdk"}, "t": policy("c", "always_deny")});
        policies.replace(configs.as_object().into_iter().next().unwrap_or(&Map::new()));
        assert_eq!(shown(policies.rules()), ["Deny mcp__t__c"]);
    }
}
