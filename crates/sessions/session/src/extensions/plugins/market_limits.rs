//! Restrictions on marketplace sources: `strictKnownMarketplaces`, `allowedMarketplaces` and
//! `blockedMarketplaces`.

use regex::Regex;
use serde_json::Value;

use crate::environment::SessionEnvironment;

/// The restrictions in the settings.
pub(super) struct MarketplacePolicy {
    /// Allow lists, each with the message for other sources; all must match.
    only: Vec<(&'static str, Value)>,
    blocked: Value,
}

impl MarketplacePolicy {
    pub(super) fn from_settings(premises: &SessionEnvironment) -> Self {
        let loaded = premises.loaded();
        let setting = |name: &str| loaded.settings.get(name).map(|it| it.value);
        let lists = [
            ("`strictKnownMarketplaces` does not name its source", setting("strictKnownMarketplaces")),
            ("`allowedMarketplaces` does not name its source", setting("allowedMarketplaces")),
        ];
        Self {
            only: lists.into_iter().filter_map(|(refusal, list)| Some((refusal, list?))).collect(),
            blocked: setting("blockedMarketplaces").unwrap_or_default(),
        }
    }

    /// Checks whether a source may be used, or returns the reason why not. A list of an invalid type
    /// allows nothing.
    pub(super) fn check(&self, source: &Value) -> Result<(), &'static str> {
        if listed(&self.blocked).any(|entry| fits(entry, source)) {
            return Err("`blockedMarketplaces` names its source");
        }
        let is_missing = |(_, list): &&(_, Value)| !listed(list).any(|entry| fits(entry, source));
        match self.only.iter().find(is_missing) {
            Some((refusal, _)) => Err(refusal),
            None => Ok(()),
        }
    }
}

fn listed(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Whether an entry matches a source: all its fields are equal, or its pattern matches the host or the
/// path.
fn fits(entry: &Value, source: &Value) -> bool {
    let text = |value: &Value, name: &str| value[name].as_str().map(str::to_owned);
    let pattern_fits = |pattern: &str, text: Option<String>| {
        let (Ok(pattern), Some(text)) = (Regex::new(pattern), text) else { return false };
        pattern.is_match(&text)
    };
    match (entry["source"].as_str(), entry["hostPattern"].as_str(), entry["pathPattern"].as_str()) {
        (Some("hostPattern"), Some(pattern), _) => pattern_fits(pattern, host_of(source)),
        (Some("pathPattern"), _, Some(pattern)) => pattern_fits(pattern, text(source, "path")),
        (Some(_), _, _) => {
            let fields = entry.as_object().into_iter().flatten();
            fields.into_iter().all(|(name, value)| source.get(name) == Some(value))
        }
        (None, ..) => false,
    }
}

/// The host of a source's URL.
fn host_of(source: &Value) -> Option<String> {
    if source["source"] == "github" {
        return Some(String::from("github.com"));
    }
    let url = source["url"].as_str()?;
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.rsplit_once('@').filter(|(user, _)| !user.contains('/')).map_or(rest, |(_, rest)| rest);
    Some(rest.split(['/', ':']).next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sources_are_compared_with_lists() {
        let github = json!({"source": "github", "repo": "acme/tools"});
        let pinned = json!({"source": "github", "repo": "acme/tools", "ref": "v1"});
        let git = json!({"source": "git", "url": "git@code.acme.example:tools/market.git"});
        let url = json!({"source": "url", "url": "https://user@code.acme.example/m.json"});
        let disk = json!({"source": "directory", "path": "/opt/acme/market"});
        let host = json!({"source": "hostPattern", "hostPattern": r"^code\.acme\.example$"});
        let path = json!({"source": "pathPattern", "pathPattern": "^/opt/acme/"});
        let no_list = || None::<Value>;
        for (only, blocked, source, want) in [
            (no_list(), json!([]), &github, true),
            (no_list(), Value::Null, &Value::Null, true),
            (Some(json!([])), json!([]), &github, false),
            (Some(json!("all")), json!([]), &github, false),
            (Some(json!([github])), json!([]), &github, true),
            (Some(json!([github])), json!([]), &pinned, true),
            (Some(json!([pinned])), json!([]), &github, false),
            (Some(json!([github])), json!([]), &disk, false),
            (Some(json!([host])), json!([]), &git, true),
            (Some(json!([host])), json!([]), &url, true),
            (Some(json!([host])), json!([]), &github, false),
            (Some(json!([path])), json!([]), &disk, true),
            (Some(json!([path])), json!([]), &json!({"source": "directory", "path": "/tmp/x"}), false),
            (Some(json!([{"source": "pathPattern", "pathPattern": "("}])), json!([]), &disk, false),
            (Some(json!([{}])), json!([]), &github, false),
            (no_list(), json!([github]), &github, false),
            (no_list(), json!([github]), &pinned, false),
            (no_list(), json!([host]), &git, false),
            (Some(json!([github])), json!([github]), &github, false),
            (Some(json!([path])), json!([]), &Value::Null, false),
        ] {
            let lists = |lists: Vec<Value>| lists.into_iter().map(|list| ("no", list)).collect();
            let limits =
                MarketplacePolicy { only: lists(only.iter().cloned().collect()), blocked: blocked.clone() };
            assert_eq!(limits.check(source).is_ok(), want, "{only:?} {blocked} {source}");
            // A second list that allows everything here takes nothing back and adds nothing.
            let second = json!([{"source": source["source"]}]);
            let both = only.iter().cloned().chain([second]).collect();
            let limits = MarketplacePolicy { only: lists(both), blocked };
            assert_eq!(limits.check(source).is_ok(), want && source.is_object(), "{only:?} {source}");
        }
    }
}
