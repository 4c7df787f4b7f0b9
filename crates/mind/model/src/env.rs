//! Which provider the environment asks for.

use std::time::Duration;

use haft_types::Variables;

use crate::{
    AnthropicLogin, ChatOptions, Common, FoundryLogin, HttpProvider, KeySource, ModelError, VertexLogin,
    VertexPlace, key::HELPER_TTL,
};

const ANTHROPIC: &str = "https://api.anthropic.com";
const OPENAI: &str = "https://api.openai.com/v1";

/// What settings say about providers besides the environment.
#[derive(Clone, Debug, Default)]
pub struct KeySettings {
    /// A command that prints the key (`apiKeyHelper`).
    pub helper: Option<String>,
    /// How long what it prints is used.
    pub helper_ttl: Option<Duration>,
    /// The variables the command sees, but for keys; those of this process when
    /// nobody says.
    pub variables: Option<Variables>,
}

/// A provider that can be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProviderChoice {
    /// Anthropic or a gateway.
    Anthropic {
        /// The address that paths are appended to.
        base_url: String,
        /// What a request proves itself with.
        login: AnthropicLogin,
    },
    /// Microsoft Foundry.
    Foundry {
        /// The address that paths are appended to.
        base_url: String,
        /// What a request proves itself with.
        login: FoundryLogin,
    },
    /// Google Vertex.
    Vertex {
        /// The project and region that answer.
        place: VertexPlace,
        /// What a request proves itself with.
        login: VertexLogin,
    },
    /// AWS Bedrock.
    #[cfg(feature = "bedrock")]
    Bedrock {
        /// The AWS region that answers.
        region: String,
        /// Another address than the region's.
        base_url: Option<String>,
        /// What a request proves itself with.
        login: crate::AwsLogin,
    },
    /// A server that speaks Chat Completions.
    OpenAiChat {
        /// The address that paths are appended to.
        base_url: String,
        /// Key, if it wants one.
        key: Option<KeySource>,
    },
    /// A server that speaks Responses.
    OpenAiResponses {
        /// The address that paths are appended to.
        base_url: String,
        /// Key, if it wants one.
        key: Option<KeySource>,
    },
}

impl ProviderChoice {
    /// Reads the environment through `env`. `CLAUDE_CODE_…` variables are
    /// honoured; `HAFT_…` ones of the same name win.
    pub fn from_env(env: &dyn Fn(&str) -> Option<String>, keys: &KeySettings) -> Result<Self, ModelError> {
        let vars = Vars(env);
        if vars.is_on("USE_BEDROCK") {
            return bedrock(&vars);
        }
        if vars.is_on("USE_VERTEX") {
            return vertex(&vars);
        }
        if vars.is_on("USE_FOUNDRY") {
            return foundry(&vars);
        }
        let has_anthropic = vars.get("ANTHROPIC_API_KEY").is_some()
            || vars.get("ANTHROPIC_AUTH_TOKEN").is_some()
            || vars.get("ANTHROPIC_BASE_URL").is_some()
            || keys.helper.is_some();
        let has_openai = vars.get("OPENAI_API_KEY").is_some() || vars.get("OPENAI_BASE_URL").is_some();
        if vars.is_on("USE_OPENAI") || (has_openai && !has_anthropic) {
            return openai(&vars);
        }
        Ok(anthropic(&vars, keys))
    }

    /// Makes the provider. Nothing is sent, and no key is asked for yet.
    pub fn build(self, common: Common) -> Result<HttpProvider, ModelError> {
        match self {
            Self::Anthropic { base_url, login } => HttpProvider::anthropic(&base_url, login, common),
            Self::Foundry { base_url, login } => HttpProvider::foundry(&base_url, login, common),
            Self::Vertex { place, login } => HttpProvider::vertex(place, login, common),
            #[cfg(feature = "bedrock")]
            Self::Bedrock { region, base_url, login } => {
                HttpProvider::bedrock(&region, base_url.as_deref(), login, common)
            }
            Self::OpenAiChat { base_url, key } => {
                HttpProvider::openai_chat(&base_url, key, ChatOptions::for_server(&base_url), common)
            }
            Self::OpenAiResponses { base_url, key } => HttpProvider::openai_responses(&base_url, key, common),
        }
    }
}

impl Common {
    /// The defaults with what the environment changes: retries, time limits,
    /// extra headers.
    pub fn from_env(env: &dyn Fn(&str) -> Option<String>) -> Self {
        let vars = Vars(env);
        let mut common = Self::default();
        let millis = |name: &str| vars.number(name).map(Duration::from_millis);
        if let Some(most) = vars.ours("MAX_RETRIES").and_then(|text| text.parse().ok()) {
            common.retry.most = most;
        }
        if let Some(limit) = millis("API_TIMEOUT_MS") {
            common.patience.first_byte = limit;
        }
        if let Some(limit) =
            millis("HAFT_STREAM_IDLE_TIMEOUT_MS").or_else(|| millis("CLAUDE_STREAM_IDLE_TIMEOUT_MS"))
        {
            common.patience.idle = limit;
            common.patience.idle_text = limit;
        }
        let headers = vars.get("ANTHROPIC_CUSTOM_HEADERS").unwrap_or_default();
        let pairs = headers.lines().filter_map(|line| line.split_once(':'));
        common.headers =
            pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect();
        common
    }
}

/// Looks up variables of the environment under both of their names.
struct Vars<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Vars<'_> {
    fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.trim().is_empty())
    }

    /// `HAFT_NAME`, or else `CLAUDE_CODE_NAME`.
    fn ours(&self, name: &str) -> Option<String> {
        self.get(&format!("HAFT_{name}")).or_else(|| self.get(&format!("CLAUDE_CODE_{name}")))
    }

    fn is_on(&self, name: &str) -> bool {
        self.ours(name)
            .is_some_and(|value| !matches!(value.to_ascii_lowercase().as_str(), "0" | "false" | "no" | "off"))
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.trim().parse().ok()
    }

    /// The first variable that is set, as a source of keys.
    fn key(&self, names: &[&str]) -> Option<KeySource> {
        names.iter().find_map(|name| self.get(name)).map(KeySource::value)
    }

    fn needed(&self, names: &[&str], what: &str) -> Result<String, ModelError> {
        let found = names.iter().find_map(|name| self.get(name));
        found.ok_or_else(|| ModelError::config(format!("{what} is not known: set {}", names.join(" or "))))
    }
}

fn anthropic(vars: &Vars<'_>, keys: &KeySettings) -> ProviderChoice {
    let own = vars.get("ANTHROPIC_BASE_URL");
    let helper = keys.helper.as_ref().map(|command| {
        let millis = vars.ours("API_KEY_HELPER_TTL_MS").and_then(|text| text.parse().ok());
        let ttl = millis.map(Duration::from_millis).or(keys.helper_ttl);
        let variables = keys.variables.clone().unwrap_or_else(Variables::of_process);
        KeySource::helper_of(command, ttl.unwrap_or(HELPER_TTL), variables)
    });
    let login = if let Some(token) = vars.key(&["ANTHROPIC_AUTH_TOKEN"]) {
        AnthropicLogin::Bearer(token)
    } else if let Some(key) = helper.or_else(|| vars.key(&["ANTHROPIC_API_KEY"])) {
        AnthropicLogin::ApiKey(key)
    } else if own.is_some() {
        AnthropicLogin::None
    } else {
        // Asking says what is missing.
        AnthropicLogin::ApiKey(KeySource::Env("ANTHROPIC_API_KEY".to_owned()))
    };
    ProviderChoice::Anthropic { base_url: own.unwrap_or_else(|| ANTHROPIC.to_owned()), login }
}

fn openai(vars: &Vars<'_>) -> Result<ProviderChoice, ModelError> {
    let own = vars.get("OPENAI_BASE_URL");
    let key = vars.key(&["OPENAI_API_KEY"]);
    if own.is_none() && key.is_none() {
        return Err(ModelError::config(
            "there is no key: set OPENAI_API_KEY, or OPENAI_BASE_URL to a server that needs none",
        ));
    }
    let base_url = own.unwrap_or_else(|| OPENAI.to_owned());
    match vars.get("HAFT_OPENAI_FORM").as_deref() {
        None | Some("chat") => Ok(ProviderChoice::OpenAiChat { base_url, key }),
        Some("responses") => Ok(ProviderChoice::OpenAiResponses { base_url, key }),
        Some(other) => {
            Err(ModelError::config(format!("HAFT_OPENAI_FORM is {other:?}; it can be chat or responses")))
        }
    }
}

fn foundry(vars: &Vars<'_>) -> Result<ProviderChoice, ModelError> {
    let base_url = match vars.get("ANTHROPIC_FOUNDRY_BASE_URL") {
        Some(base) => base,
        None => {
            let names = ["ANTHROPIC_FOUNDRY_RESOURCE", "ANTHROPIC_FOUNDRY_BASE_URL"];
            let resource = vars.needed(&names, "the Foundry resource")?;
            format!("https://{resource}.services.ai.azure.com/anthropic")
        }
    };
    let login = match vars.key(&["ANTHROPIC_FOUNDRY_AUTH_TOKEN"]) {
        Some(token) => FoundryLogin::Bearer(token),
        None => FoundryLogin::ApiKey(KeySource::Env("ANTHROPIC_FOUNDRY_API_KEY".to_owned())),
    };
    Ok(ProviderChoice::Foundry { base_url, login })
}

/// Application default credentials first, as Google's own libraries do, then
/// the account that is logged in.
#[cfg(not(feature = "vertex"))]
const GCLOUD: &str =
    "gcloud auth application-default print-access-token 2>/dev/null || gcloud auth print-access-token";

fn vertex(vars: &Vars<'_>) -> Result<ProviderChoice, ModelError> {
    let project = vars.needed(
        &["ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT"],
        "the Google project",
    )?;
    let region = vars.get("CLOUD_ML_REGION").unwrap_or_else(|| "global".to_owned());
    let place = VertexPlace { project, region, base_url: vars.get("ANTHROPIC_VERTEX_BASE_URL") };
    let login = match vars.key(&["ANTHROPIC_VERTEX_ACCESS_TOKEN"]) {
        _ if vars.is_on("SKIP_VERTEX_AUTH") => VertexLogin::None,
        Some(token) => VertexLogin::Token(token),
        #[cfg(feature = "vertex")]
        None => VertexLogin::Default,
        #[cfg(not(feature = "vertex"))]
        None => VertexLogin::Token(KeySource::helper(GCLOUD)),
    };
    Ok(ProviderChoice::Vertex { place, login })
}

#[cfg(feature = "bedrock")]
fn bedrock(vars: &Vars<'_>) -> Result<ProviderChoice, ModelError> {
    let region = vars.get("AWS_REGION").or_else(|| vars.get("AWS_DEFAULT_REGION"));
    let region = region.unwrap_or_else(|| "us-east-1".to_owned());
    let login = match vars.key(&["AWS_BEARER_TOKEN_BEDROCK"]) {
        _ if vars.is_on("SKIP_BEDROCK_AUTH") => crate::AwsLogin::None,
        Some(token) => crate::AwsLogin::Bearer(token),
        None => crate::AwsLogin::Default { profile: vars.get("AWS_PROFILE") },
    };
    Ok(ProviderChoice::Bedrock { region, base_url: vars.get("ANTHROPIC_BEDROCK_BASE_URL"), login })
}

#[cfg(not(feature = "bedrock"))]
fn bedrock(_: &Vars<'_>) -> Result<ProviderChoice, ModelError> {
    Err(ModelError::config("this build has no Bedrock: build it with the feature `bedrock`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(vars: &[(&str, &str)], keys: &KeySettings) -> String {
        let env =
            |name: &str| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        match ProviderChoice::from_env(&env, keys) {
            Ok(choice) => format!("{choice:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_environment_chooses() {
        let none = KeySettings::default();
        for (vars, want) in [
            (vec![], "Anthropic { base_url: \"https://api.anthropic.com\", login: ApiKey(Env"),
            (vec![("ANTHROPIC_API_KEY", "k")], "login: ApiKey(Value(Secret(…)))"),
            (vec![("ANTHROPIC_API_KEY", "k"), ("ANTHROPIC_AUTH_TOKEN", "t")], "login: Bearer"),
            (
                vec![("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")],
                "base_url: \"http://127.0.0.1:1\", login: None",
            ),
            (
                vec![("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")],
                "OpenAiChat { base_url: \"http://127.0.0.1:1/v1\", key: None",
            ),
            (
                vec![("OPENAI_API_KEY", "k"), ("HAFT_OPENAI_FORM", "responses")],
                "OpenAiResponses { base_url: \"https://api.openai.com/v1\"",
            ),
            (vec![("OPENAI_API_KEY", "k"), ("HAFT_OPENAI_FORM", "x")], "it can be chat or responses"),
            (vec![("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")], "Anthropic {"),
            (
                vec![("CLAUDE_CODE_USE_VERTEX", "1")],
                "the Google project is not known: set ANTHROPIC_VERTEX_PROJECT_ID",
            ),
            (
                vec![("CLAUDE_CODE_USE_VERTEX", "1"), ("ANTHROPIC_VERTEX_PROJECT_ID", "p")],
                "Vertex { place: VertexPlace { project: \"p\", region: \"global\"",
            ),
            (vec![("CLAUDE_CODE_USE_VERTEX", "1"), ("HAFT_USE_VERTEX", "0")], "Anthropic {"),
            (
                vec![("HAFT_USE_FOUNDRY", "true"), ("ANTHROPIC_FOUNDRY_RESOURCE", "r")],
                "https://r.services.ai.azure.com/anthropic",
            ),
        ] {
            let got = chosen(&vars, &none);
            assert!(got.contains(want), "{vars:?}: {got}");
        }
        let helper = KeySettings { helper: Some("print-key".to_owned()), helper_ttl: None, variables: None };
        assert!(chosen(&[("ANTHROPIC_API_KEY", "k")], &helper).contains("Helper"));
    }

    #[cfg(feature = "bedrock")]
    #[test]
    fn bedrock_is_chosen() {
        let none = KeySettings::default();
        let got = chosen(&[("CLAUDE_CODE_USE_BEDROCK", "1"), ("AWS_REGION", "eu-west-1")], &none);
        assert!(got.contains("Bedrock { region: \"eu-west-1\"") && got.contains("Default"), "{got}");
        let got = chosen(&[("CLAUDE_CODE_USE_BEDROCK", "1"), ("AWS_BEARER_TOKEN_BEDROCK", "t")], &none);
        assert!(got.contains("Bearer(Value(Secret(…)))"), "{got}");
    }

    #[test]
    fn limits_come_from_the_environment() {
        let env = |name: &str| match name {
            "CLAUDE_CODE_MAX_RETRIES" => Some("2".to_owned()),
            "API_TIMEOUT_MS" => Some("1000".to_owned()),
            "CLAUDE_STREAM_IDLE_TIMEOUT_MS" => Some("500".to_owned()),
            "ANTHROPIC_CUSTOM_HEADERS" => Some("X-A: 1\nX-B: two: three".to_owned()),
            _ => None,
        };
        let common = Common::from_env(&env);
        assert_eq!((common.retry.most, common.patience.first_byte), (2, Duration::from_secs(1)));
        assert_eq!(common.patience.idle_text, Duration::from_millis(500));
        assert_eq!(common.headers[1], ("X-B".to_owned(), "two: three".to_owned()));
    }
}
