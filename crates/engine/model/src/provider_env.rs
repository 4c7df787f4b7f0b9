//! Which provider the environment asks for.

use std::time::Duration;

use haft_types::EnvVars;

use crate::{
    AnthropicLogin, ChatOptions, FoundryLogin, HttpProvider, KeySource, ModelError, ProviderOptions,
    StoredKey, StoredKeys, VertexLocation, VertexLogin, api_key::HELPER_TTL,
};

const ANTHROPIC: &str = "https://api.anthropic.com";
const OPENAI: &str = "https://api.openai.com/v1";
const GEMINI: &str = "https://generativelanguage.googleapis.com";
const OPENROUTER: &str = "https://openrouter.ai/api/v1";

/// A server of models on this machine that speaks Chat Completions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LocalServer {
    /// How it is called on the command line.
    pub name: &'static str,
    /// The port it listens on when nobody says another.
    pub port: u16,
    /// The variable that says where it listens.
    pub variable: &'static str,
}

impl LocalServer {
    /// The servers people run.
    pub const ALL: [Self; 4] = [
        Self { name: "ollama", port: 11434, variable: "OLLAMA_HOST" },
        Self { name: "lmstudio", port: 1234, variable: "LMSTUDIO_BASE_URL" },
        Self { name: "vllm", port: 8000, variable: "VLLM_BASE_URL" },
        Self { name: "llamacpp", port: 8080, variable: "LLAMACPP_BASE_URL" },
    ];

    /// Where it listens, without a slash at the end: what its variable says
    /// (an address, `host:port` or a port), else its usual port of this machine.
    pub fn base_url(&self, env: &dyn Fn(&str) -> Option<String>) -> String {
        let said = env(self.variable).map(|it| it.trim().trim_end_matches('/').to_owned());
        let said = said.filter(|it| !it.is_empty());
        let root = match said {
            None => format!("http://127.0.0.1:{}", self.port),
            Some(url) if url.contains("://") => url,
            Some(port) if port.parse::<u16>().is_ok() => format!("http://127.0.0.1:{port}"),
            // What a server listens on everywhere is reached at this machine.
            Some(place) => {
                let place = place.replace("0.0.0.0", "127.0.0.1");
                let has_port = place.rsplit_once(':').is_some_and(|(_, it)| it.parse::<u16>().is_ok());
                if has_port { format!("http://{place}") } else { format!("http://{place}:{}", self.port) }
            }
        };
        root.strip_suffix("/v1").map(str::to_owned).unwrap_or(root)
    }

    /// The server of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|server| server.name == name)
    }
}

/// What settings say about providers besides the environment.
#[derive(Clone, Debug, Default)]
pub struct KeySettings {
    /// A command that prints the key (`apiKeyHelper`).
    pub helper: Option<String>,
    /// How long what it prints is used.
    pub helper_ttl: Option<Duration>,
    /// The variables the command sees, but for keys; those of this process when
    /// nobody says.
    pub variables: Option<EnvVars>,
    /// Keys that a login has kept.
    pub stored: StoredKeys,
    /// A command that prints AWS keys (`awsCredentialExport`).
    pub aws_export: Option<String>,
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
        place: VertexLocation,
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
        /// The kind of server, where one of local models was named.
        local: Option<LocalServer>,
    },
    /// A router of many providers, in the form of Chat Completions.
    OpenRouter {
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
    /// Google's Gemini API.
    Gemini {
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
        let vars = EnvLookup(env);
        if vars.is_on("USE_BEDROCK") {
            return bedrock(&vars, keys);
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
        if vars.is_on("USE_ANTHROPIC") {
            return Ok(anthropic(&vars, keys));
        }
        if let Some(name) = vars.get("HAFT_LOCAL") {
            return local(&vars, &name);
        }
        if vars.is_on("USE_OPENAI") {
            return openai(&vars, keys);
        }
        if vars.is_on("USE_GEMINI") {
            return gemini(&vars, keys);
        }
        if vars.is_on("USE_OPENROUTER") {
            return openrouter(&vars, keys);
        }
        let has = |names: &[&str]| names.iter().any(|name| vars.get(name).is_some());
        if has_anthropic {
            return Ok(anthropic(&vars, keys));
        }
        if has_openai {
            return openai(&vars, keys);
        }
        if has(&GEMINI_KEYS) || has(&GEMINI_ADDRESSES) {
            return gemini(&vars, keys);
        }
        if has(&["OPENROUTER_API_KEY"]) {
            return openrouter(&vars, keys);
        }
        match keys.stored.default.as_deref() {
            Some("openai") => openai(&vars, keys),
            Some("gemini") => gemini(&vars, keys),
            Some("openrouter") => openrouter(&vars, keys),
            _ => Ok(anthropic(&vars, keys)),
        }
    }

    /// Makes the provider. Nothing is sent, and no key is asked for yet.
    pub fn build(self, common: ProviderOptions) -> Result<HttpProvider, ModelError> {
        match self {
            Self::Anthropic { base_url, login } => HttpProvider::anthropic(&base_url, login, common),
            Self::Foundry { base_url, login } => HttpProvider::foundry(&base_url, login, common),
            Self::Vertex { place, login } => HttpProvider::vertex(place, login, common),
            #[cfg(feature = "bedrock")]
            Self::Bedrock { region, base_url, login } => {
                HttpProvider::bedrock(&region, base_url.as_deref(), login, common)
            }
            Self::OpenAiChat { base_url, key, local } => {
                let patience = if crate::endpoint::is_this_machine(&base_url) {
                    common.patience.of_this_machine()
                } else {
                    common.patience
                };
                let common = ProviderOptions { patience, local, ..common };
                HttpProvider::openai_chat(&base_url, key, ChatOptions::for_server(&base_url), common)
            }
            Self::OpenRouter { base_url, key } => {
                let options = ChatOptions { reasoning_object: true, ..ChatOptions::for_server(&base_url) };
                HttpProvider::openai_chat(&base_url, key, options, common)
            }
            Self::OpenAiResponses { base_url, key } => HttpProvider::openai_responses(&base_url, key, common),
            Self::Gemini { base_url, key } => HttpProvider::gemini(&base_url, key, common),
        }
    }
}

impl ProviderOptions {
    /// The defaults with what the environment changes: retries, time limits,
    /// extra headers.
    pub fn from_env(env: &dyn Fn(&str) -> Option<String>) -> Self {
        let vars = EnvLookup(env);
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
struct EnvLookup<'a>(&'a dyn Fn(&str) -> Option<String>);

impl EnvLookup<'_> {
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

    /// The command of `apiKeyHelper`.
    fn helper(&self, keys: &KeySettings) -> Option<KeySource> {
        let command = keys.helper.as_ref()?;
        let millis = self.ours("API_KEY_HELPER_TTL_MS").and_then(|text| text.parse().ok());
        let ttl = millis.map(Duration::from_millis).or(keys.helper_ttl);
        Some(KeySource::helper_of(command, ttl.unwrap_or(HELPER_TTL), self.variables(keys)))
    }

    fn variables(&self, keys: &KeySettings) -> EnvVars {
        keys.variables.clone().unwrap_or_else(EnvVars::of_process)
    }

    /// The key a login has kept for a provider.
    fn stored(&self, provider: &str, keys: &KeySettings) -> Option<KeySource> {
        Some(match keys.stored.get(provider)? {
            StoredKey::Key(key) => KeySource::value(key),
            StoredKey::Command(command) => KeySource::helper_of(command, HELPER_TTL, self.variables(keys)),
        })
    }

    /// A key for a provider that was named: a variable, the helper command, or
    /// what a login has kept. The last two go to the vendor only: another
    /// address gets what its own variable says.
    fn any_key(
        &self,
        names: &[&str],
        provider: &str,
        own: Option<&str>,
        keys: &KeySettings,
    ) -> Option<KeySource> {
        let at_vendor = |key: Option<KeySource>| key.filter(|_| own.is_none());
        self.key(names)
            .or_else(|| at_vendor(self.stored(provider, keys)))
            .or_else(|| at_vendor(self.helper(keys)))
    }

    fn needed(&self, names: &[&str], what: &str) -> Result<String, ModelError> {
        let found = names.iter().find_map(|name| self.get(name));
        found.ok_or_else(|| ModelError::config(format!("{what} is not known: set {}", names.join(" or "))))
    }
}

fn anthropic(vars: &EnvLookup<'_>, keys: &KeySettings) -> ProviderChoice {
    let own = vars.get("ANTHROPIC_BASE_URL");
    let helper = vars.helper(keys);
    let login = if let Some(token) = vars.key(&["ANTHROPIC_AUTH_TOKEN"]) {
        AnthropicLogin::Bearer(token)
    } else if let Some(key) = helper.or_else(|| vars.key(&["ANTHROPIC_API_KEY"])) {
        AnthropicLogin::ApiKey(key)
    } else if let Some(key) = vars.stored("anthropic", keys).filter(|_| own.is_none()) {
        // A key that was kept goes to the vendor and nowhere else.
        AnthropicLogin::ApiKey(key)
    } else if own.is_some() {
        AnthropicLogin::None
    } else {
        // Asking says what is missing.
        AnthropicLogin::ApiKey(KeySource::Env("ANTHROPIC_API_KEY".to_owned()))
    };
    ProviderChoice::Anthropic { base_url: own.unwrap_or_else(|| ANTHROPIC.to_owned()), login }
}

fn openai(vars: &EnvLookup<'_>, keys: &KeySettings) -> Result<ProviderChoice, ModelError> {
    let own = vars.get("OPENAI_BASE_URL");
    let key = vars.any_key(&["OPENAI_API_KEY"], "openai", own.as_deref(), keys);
    if own.is_none() && key.is_none() {
        return Err(ModelError::config(
            "there is no key: run `haft login openai`, set OPENAI_API_KEY, or OPENAI_BASE_URL to a server that needs none",
        ));
    }
    let base_url = own.unwrap_or_else(|| OPENAI.to_owned());
    match vars.get("HAFT_OPENAI_FORM").as_deref() {
        None | Some("chat") => Ok(ProviderChoice::OpenAiChat { base_url, key, local: None }),
        Some("responses") => Ok(ProviderChoice::OpenAiResponses { base_url, key }),
        Some(other) => {
            Err(ModelError::config(format!("HAFT_OPENAI_FORM is {other:?}; it can be chat or responses")))
        }
    }
}

/// Variables with a key of the Gemini API.
const GEMINI_KEYS: [&str; 2] = ["GEMINI_API_KEY", "GOOGLE_API_KEY"];
/// Variables with its address.
const GEMINI_ADDRESSES: [&str; 2] = ["GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"];

fn gemini(vars: &EnvLookup<'_>, keys: &KeySettings) -> Result<ProviderChoice, ModelError> {
    let own = GEMINI_ADDRESSES.iter().find_map(|name| vars.get(name));
    let key = vars.any_key(&GEMINI_KEYS, "gemini", own.as_deref(), keys);
    if own.is_none() && key.is_none() {
        return Err(ModelError::config(
            "there is no key: run `haft login gemini`, set GEMINI_API_KEY, or GEMINI_BASE_URL to a server that needs none",
        ));
    }
    Ok(ProviderChoice::Gemini { base_url: own.unwrap_or_else(|| GEMINI.to_owned()), key })
}

fn openrouter(vars: &EnvLookup<'_>, keys: &KeySettings) -> Result<ProviderChoice, ModelError> {
    let own = vars.get("OPENROUTER_BASE_URL");
    let key = vars.any_key(&["OPENROUTER_API_KEY"], "openrouter", own.as_deref(), keys);
    if own.is_none() && key.is_none() {
        return Err(ModelError::config(
            "there is no key: run `haft login openrouter`, or set OPENROUTER_API_KEY",
        ));
    }
    Ok(ProviderChoice::OpenRouter { base_url: own.unwrap_or_else(|| OPENROUTER.to_owned()), key })
}

/// A server on this machine. Keys of others do not go there.
fn local(vars: &EnvLookup<'_>, name: &str) -> Result<ProviderChoice, ModelError> {
    let Some(server) = LocalServer::named(name) else {
        let names = LocalServer::ALL.map(|server| server.name).join(", ");
        return Err(ModelError::config(format!("HAFT_LOCAL is {name:?}; it can be {names}")));
    };
    let root = vars.get("HAFT_LOCAL_URL").unwrap_or_else(|| server.base_url(vars.0));
    let root = root.trim_end_matches('/');
    let base_url = if root.ends_with("/v1") { root.to_owned() } else { format!("{root}/v1") };
    Ok(ProviderChoice::OpenAiChat { base_url, key: None, local: Some(server) })
}

fn foundry(vars: &EnvLookup<'_>) -> Result<ProviderChoice, ModelError> {
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

fn vertex(vars: &EnvLookup<'_>) -> Result<ProviderChoice, ModelError> {
    let project = vars.needed(
        &["ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT"],
        "the Google project",
    )?;
    let region = vars.get("CLOUD_ML_REGION").unwrap_or_else(|| "global".to_owned());
    let place = VertexLocation { project, region, base_url: vars.get("ANTHROPIC_VERTEX_BASE_URL") };
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
fn bedrock(vars: &EnvLookup<'_>, keys: &KeySettings) -> Result<ProviderChoice, ModelError> {
    let region = vars.get("AWS_REGION").or_else(|| vars.get("AWS_DEFAULT_REGION"));
    let region = region.unwrap_or_else(|| "us-east-1".to_owned());
    let login = match vars.key(&["AWS_BEARER_TOKEN_BEDROCK"]) {
        _ if vars.is_on("SKIP_BEDROCK_AUTH") => crate::AwsLogin::None,
        Some(token) => crate::AwsLogin::Bearer(token),
        None if let Some(command) = &keys.aws_export => {
            crate::AwsLogin::Export(crate::KeyHelper::new(command, HELPER_TTL, vars.variables(keys)))
        }
        None => crate::AwsLogin::Default { profile: vars.get("AWS_PROFILE") },
    };
    Ok(ProviderChoice::Bedrock { region, base_url: vars.get("ANTHROPIC_BEDROCK_BASE_URL"), login })
}

#[cfg(not(feature = "bedrock"))]
fn bedrock(_: &EnvLookup<'_>, _: &KeySettings) -> Result<ProviderChoice, ModelError> {
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
                "Vertex { place: VertexLocation { project: \"p\", region: \"global\"",
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
        let helper = KeySettings { helper: Some("print-key".to_owned()), ..KeySettings::default() };
        assert!(chosen(&[("ANTHROPIC_API_KEY", "k")], &helper).contains("Helper"));
        assert!(chosen(&[("HAFT_USE_OPENAI", "1")], &helper).contains("Helper"));
        // A helper's key goes to the vendor, not to an address somebody named.
        let elsewhere = [("HAFT_USE_OPENAI", "1"), ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")];
        assert!(chosen(&elsewhere, &helper).contains("key: None"));
    }

    #[test]
    fn what_people_have_is_chosen() {
        let none = KeySettings::default();
        let mut kept = KeySettings::default();
        kept.stored.put("anthropic", StoredKey::Key("k".to_owned()));
        kept.stored.put("gemini", StoredKey::Key("k".to_owned()));
        for (vars, keys, want) in [
            (vec![("GEMINI_API_KEY", "k")], &none, "Gemini { base_url: \"https://generativelanguage"),
            (
                vec![("GOOGLE_API_KEY", "k"), ("GEMINI_BASE_URL", "http://x")],
                &none,
                "Gemini { base_url: \"http://x\"",
            ),
            (vec![("GEMINI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k")], &none, "Anthropic {"),
            (vec![("HAFT_USE_GEMINI", "1")], &none, "set GEMINI_API_KEY"),
            (vec![("HAFT_USE_GEMINI", "1"), ("GEMINI_BASE_URL", "http://x")], &kept, "key: None"),
            (
                vec![("OPENROUTER_API_KEY", "k")],
                &none,
                "OpenRouter { base_url: \"https://openrouter.ai/api/v1\"",
            ),
            (
                vec![("HAFT_LOCAL", "ollama")],
                &none,
                "OpenAiChat { base_url: \"http://127.0.0.1:11434/v1\", key: None",
            ),
            (vec![("HAFT_LOCAL", "ollama"), ("OLLAMA_HOST", "0.0.0.0:9")], &none, "http://127.0.0.1:9/v1"),
            (vec![("HAFT_LOCAL", "vllm"), ("VLLM_BASE_URL", "http://h:1/v1/")], &none, "\"http://h:1/v1\""),
            (vec![("HAFT_LOCAL", "ollama"), ("HAFT_LOCAL_URL", "http://h:1")], &none, "\"http://h:1/v1\""),
            (vec![("HAFT_LOCAL", "toaster")], &none, "it can be ollama, lmstudio, vllm, llamacpp"),
            (vec![], &kept, "Gemini {"),
            (vec![("OPENAI_API_KEY", "k")], &kept, "OpenAiChat {"),
            (vec![("ANTHROPIC_BASE_URL", "http://x")], &kept, "login: None"),
        ] {
            let got = chosen(&vars, keys);
            assert!(got.contains(want), "{vars:?}: {got}");
        }
    }

    #[cfg(feature = "bedrock")]
    #[test]
    fn bedrock_is_chosen() {
        let none = KeySettings::default();
        let got = chosen(&[("CLAUDE_CODE_USE_BEDROCK", "1"), ("AWS_REGION", "eu-west-1")], &none);
        assert!(got.contains("Bedrock { region: \"eu-west-1\"") && got.contains("Default"), "{got}");
        let got = chosen(&[("CLAUDE_CODE_USE_BEDROCK", "1"), ("AWS_BEARER_TOKEN_BEDROCK", "t")], &none);
        assert!(got.contains("Bearer(Value(Secret(…)))"), "{got}");
        let export = KeySettings { aws_export: Some("print-keys".to_owned()), ..none };
        assert!(chosen(&[("CLAUDE_CODE_USE_BEDROCK", "1")], &export).contains("Export"));
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
        let common = ProviderOptions::from_env(&env);
        assert_eq!((common.retry.most, common.patience.first_byte), (2, Duration::from_secs(1)));
        assert_eq!(common.patience.idle_text, Duration::from_millis(500));
        assert_eq!(common.headers[1], ("X-B".to_owned(), "two: three".to_owned()));
    }
}
