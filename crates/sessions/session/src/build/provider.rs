//! Chooses the provider from flags, settings and environment.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use haft_media::MediaWork;
use haft_model::{
    AnthropicLogin, Catalog, ImageLimit, ImageShrinker, KeySettings, KeySource, LoginRenewal, Provider,
    ProviderChoice, ProviderOptions, ShrunkImage,
};
use tokio::runtime::RuntimeFlavor;

use super::services::media_work;
use crate::{ModelSpec, OpenError, ProviderSpec, environment::SessionEnvironment};

/// A provider, and where its key comes from.
pub(crate) struct ChosenProvider {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) key_source: String,
    /// Base URL of the provider if it offers web search; `None` otherwise.
    #[cfg_attr(not(feature = "web"), expect(dead_code, reason = "only the tools for the web ask it"))]
    pub(crate) searches_at: Option<String>,
    /// Vendor of the provider's models.
    pub(crate) vendor: ModelVendor,
}

/// Vendor of a provider's models, as far as it is known without a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ModelVendor {
    Anthropic,
    OpenAi,
    Gemini,
    /// Models of many vendors, named `vendor/model`.
    OpenRouter,
    /// Whatever is loaded into a local model server.
    ThisMachine,
}

impl ModelVendor {
    fn detect(choice: &ProviderChoice, env: &dyn Fn(&str) -> Option<String>) -> Self {
        match choice {
            ProviderChoice::Gemini { .. } => Self::Gemini,
            ProviderChoice::OpenRouter { .. } => Self::OpenRouter,
            ProviderChoice::OpenAiChat { .. } | ProviderChoice::OpenAiResponses { .. } => {
                if env("HAFT_LOCAL").is_some_and(|it| !it.trim().is_empty()) {
                    Self::ThisMachine
                } else {
                    Self::OpenAi
                }
            }
            _ => Self::Anthropic,
        }
    }

    /// The environment variable that names a model of this vendor.
    pub(crate) fn variable(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("ANTHROPIC_MODEL"),
            Self::OpenAi => Some("OPENAI_MODEL"),
            Self::Gemini => Some("GEMINI_MODEL"),
            Self::OpenRouter | Self::ThisMachine => None,
        }
    }

    /// Alias of the default model; the catalog resolves it to the newest model of the line. `None` for
    /// local servers.
    pub(crate) fn usual_model(self) -> Option<&'static str> {
        match self {
            Self::Anthropic => Some("opus"),
            Self::OpenAi => Some("gpt"),
            Self::Gemini => Some("gemini"),
            Self::OpenRouter => Some("openrouter/auto"),
            Self::ThisMachine => None,
        }
    }
}

impl ChosenProvider {
    /// Chooses the provider from spec, settings and variables. Sends no request.
    pub(crate) fn choose(premises: &SessionEnvironment, spec: &ModelSpec) -> Result<Self, OpenError> {
        let mut chosen = Self::named(premises, spec)?;
        if let Some(between) = &spec.between {
            chosen.provider = between(chosen.provider);
        }
        Ok(chosen)
    }

    fn named(premises: &SessionEnvironment, spec: &ModelSpec) -> Result<Self, OpenError> {
        let overrides = match &spec.provider {
            ProviderSpec::Given { provider, catalog } => {
                let catalog = match catalog {
                    Some(catalog) => Arc::clone(catalog),
                    None => premises.catalog()?,
                };
                let key_source = String::from("none");
                let (provider, vendor) = (Arc::clone(provider), ModelVendor::Anthropic);
                return Ok(Self { provider, catalog, key_source, searches_at: None, vendor });
            }
            ProviderSpec::FromVariables { overrides } => overrides,
        };
        let env = |name: &str| {
            let flagged = overrides.iter().find(|(it, _)| it == name).map(|(_, value)| value.clone());
            flagged.or_else(|| premises.variable(name))
        };
        let keys = KeySettings {
            helper: premises.string_setting("apiKeyHelper"),
            helper_ttl: None::<Duration>,
            variables: Some(premises.variables.clone()),
            stored: premises.stored_keys()?,
            aws_export: premises.string_setting("awsCredentialExport"),
        };
        let failed = |err: &dyn std::fmt::Display| OpenError::Start(err.to_string());
        let choice = ProviderChoice::from_env(&env, &keys).map_err(|err| failed(&err))?;
        if let ProviderChoice::Anthropic { login: AnthropicLogin::ApiKey(KeySource::Env(_)), .. } = choice {
            let help = "there is no key for a model. One of these helps:\n  \
                        haft login         keeps a key; or set ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY or OPENROUTER_API_KEY\n  \
                        haft models        shows servers on this machine: --provider ollama (or another) needs no key\n  \
                        ANTHROPIC_BASE_URL names a server that needs none\n  \
                        haft demo          shows a recorded model at work, without a key";
            return Err(OpenError::NoKey(help.to_owned()));
        }
        check_address(premises, overrides, &choice)?;
        let key_source = key_source(&choice, &env, &keys);
        let searches_at = searches_at(&choice, premises);
        let vendor = ModelVendor::detect(&choice, &env);
        let catalog = premises.catalog()?;
        let media: Arc<dyn ImageShrinker> =
            Arc::new(WorkerImageShrinker(media_work(premises.program.as_ref())));
        let renewal = renewal(premises, &choice);
        let catalog_of = Arc::clone(&catalog);
        let names = model_names(premises);
        let helper = premises.string_setting("proxyAuthHelper");
        let proxy_login = helper.map(|it| KeySource::helper_for(it, premises.variables.clone()));
        let common = ProviderOptions {
            catalog: catalog_of,
            media: Some(media),
            renewal,
            names,
            proxy_login,
            ..ProviderOptions::from_env(&env)
        };
        let provider = choice.build(common).map_err(|err| failed(&err))?;
        Ok(Self { provider: Arc::new(provider), catalog, key_source, searches_at, vendor })
    }
}

/// Variables with the base URL of a server with the Chat Completions API.
const OPENAI_ADDRESSES: [&str; 7] = [
    "OPENAI_BASE_URL",
    "OPENROUTER_BASE_URL",
    "HAFT_LOCAL_URL",
    "OLLAMA_HOST",
    "LMSTUDIO_BASE_URL",
    "VLLM_BASE_URL",
    "LLAMACPP_BASE_URL",
];

/// Fails if a base URL set by the project's own settings would receive a key, token or header from
/// elsewhere.
fn check_address(
    premises: &SessionEnvironment,
    overrides: &[(String, String)],
    choice: &ProviderChoice,
) -> Result<(), OpenError> {
    let is_flagged = |name: &str| overrides.iter().any(|(it, _)| it == name);
    let folder = |name: &str| premises.folder_variable(name).filter(|_| !is_flagged(name));
    let (addresses, keys): (&[&str], &[&str]) = match choice {
        ProviderChoice::Anthropic { .. } => {
            (&["ANTHROPIC_BASE_URL"], &["ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY"])
        }
        ProviderChoice::Foundry { .. } => (
            &["ANTHROPIC_FOUNDRY_BASE_URL", "ANTHROPIC_FOUNDRY_RESOURCE"],
            &["ANTHROPIC_FOUNDRY_AUTH_TOKEN", "ANTHROPIC_FOUNDRY_API_KEY"],
        ),
        ProviderChoice::OpenAiChat { .. }
        | ProviderChoice::OpenRouter { .. }
        | ProviderChoice::OpenAiResponses { .. } => {
            (&OPENAI_ADDRESSES, &["OPENAI_API_KEY", "OPENROUTER_API_KEY"])
        }
        ProviderChoice::Gemini { .. } => {
            (&["GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"], &["GEMINI_API_KEY", "GOOGLE_API_KEY"])
        }
        ProviderChoice::Vertex { .. } => (&["ANTHROPIC_VERTEX_BASE_URL"], &["ANTHROPIC_VERTEX_ACCESS_TOKEN"]),
        _ => (&["ANTHROPIC_BEDROCK_BASE_URL"], &["AWS_BEARER_TOKEN_BEDROCK"]),
    };
    let Some((address, file)) = addresses.iter().find_map(|name| Some((*name, folder(name)?))) else {
        return Ok(());
    };
    let is_foreign = |name: &&str| premises.variable(name).is_some() && folder(name).is_none();
    // Logins of Google and Amazon Cloud are the user's, not the project's.
    let logs_in = !matches!(
        choice,
        ProviderChoice::Anthropic { .. }
            | ProviderChoice::Foundry { .. }
            | ProviderChoice::OpenAiChat { .. }
            | ProviderChoice::OpenRouter { .. }
            | ProviderChoice::OpenAiResponses { .. }
            | ProviderChoice::Gemini { .. }
    );
    let helper = premises.is_foreign_setting("apiKeyHelper").then_some("apiKeyHelper");
    let login =
        (logs_in && !keys.iter().any(|name| folder(name).is_some())).then_some("the login of this machine");
    let headers = Some("ANTHROPIC_CUSTOM_HEADERS").filter(is_foreign);
    match keys.iter().copied().find(is_foreign).or(helper).or(headers).or(login) {
        None => Ok(()),
        Some(key) => Err(OpenError::Start(format!(
            "{address} comes from {file}, but {key} does not: a key is sent only where its owner wants it. \
             If that server may have it, set {address} yourself (environment, --base-url or ~/.haft/settings.json)"
        ))),
    }
}

/// Provider-specific model names (`modelOverrides`), by canonical name.
fn model_names(premises: &SessionEnvironment) -> BTreeMap<String, String> {
    let loaded = premises.loaded();
    let said = loaded.settings.get("modelOverrides");
    let entries = said.iter().filter_map(|it| it.value.as_object()).flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

/// The command that renews the provider's credentials, if the settings name one.
fn renewal(premises: &SessionEnvironment, choice: &ProviderChoice) -> Option<LoginRenewal> {
    let setting = match choice {
        ProviderChoice::Vertex { .. } => "gcpAuthRefresh",
        ProviderChoice::Anthropic { .. }
        | ProviderChoice::Foundry { .. }
        | ProviderChoice::OpenAiChat { .. }
        | ProviderChoice::OpenRouter { .. }
        | ProviderChoice::OpenAiResponses { .. }
        | ProviderChoice::Gemini { .. } => return None,
        _ => "awsAuthRefresh",
    };
    Some(LoginRenewal::new(premises.string_setting(setting)?, premises.variables.clone()))
}

/// Base URL of the web search: the vendor itself, or a gateway the user has declared to support it.
fn searches_at(choice: &ProviderChoice, premises: &SessionEnvironment) -> Option<String> {
    let ProviderChoice::Anthropic { base_url, .. } = choice else { return None };
    let own = url_host(base_url).is_some_and(|host| host == "api.anthropic.com");
    let said = premises.string_setting("web.searchProvider").is_some_and(|it| it == "model");
    (own || said).then(|| base_url.clone())
}

fn url_host(url: &str) -> Option<&str> {
    url.strip_prefix("https://")?.split(['/', ':']).next()
}

/// Downscales images in a separate process with resource limits.
struct WorkerImageShrinker(MediaWork);

impl ImageShrinker for WorkerImageShrinker {
    fn shrink(&self, image: &[u8], limit: ImageLimit) -> Option<ShrunkImage> {
        let shrink = || self.0.shrink(image, limit.side, limit.bytes);
        // A large image takes about a second; other tasks of the runtime continue meanwhile.
        let others = tokio::runtime::Handle::try_current().map(|it| it.runtime_flavor());
        let shrunk = match others {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(shrink),
            _ => shrink(),
        };
        shrunk.map(|(media_type, bytes)| ShrunkImage { media_type, bytes })
    }
}

fn key_source(choice: &ProviderChoice, env: &dyn Fn(&str) -> Option<String>, keys: &KeySettings) -> String {
    let is_set = |name: &&str| env(name).is_some_and(|value| !value.trim().is_empty());
    let named = |names: &[&str]| (*names.iter().find(|name| is_set(name)).unwrap_or(&"none")).to_owned();
    match choice {
        ProviderChoice::Anthropic { login: AnthropicLogin::ApiKey(KeySource::Helper(_)), .. }
            if keys.helper.is_some() =>
        {
            String::from("apiKeyHelper")
        }
        ProviderChoice::Anthropic { .. } => named(&["ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY"]),
        ProviderChoice::Foundry { .. } => {
            named(&["ANTHROPIC_FOUNDRY_AUTH_TOKEN", "ANTHROPIC_FOUNDRY_API_KEY"])
        }
        ProviderChoice::OpenAiChat { .. }
        | ProviderChoice::OpenRouter { .. }
        | ProviderChoice::OpenAiResponses { .. } => named(&["OPENAI_API_KEY", "OPENROUTER_API_KEY"]),
        ProviderChoice::Gemini { .. } => named(&["GEMINI_API_KEY", "GOOGLE_API_KEY"]),
        ProviderChoice::Vertex { .. } => String::from("google"),
        _ => String::from("aws"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_model_is_a_short_name_of_the_list() {
        let catalog = Catalog::built_in();
        for (vendor, begins) in [
            (ModelVendor::Anthropic, "claude-opus-"),
            (ModelVendor::OpenAi, "gpt-"),
            (ModelVendor::Gemini, "gemini-"),
        ] {
            let short = vendor.usual_model().unwrap_or_default();
            let model = catalog.resolve(short);
            assert!(model != short && model.starts_with(begins), "{vendor:?}: {short} is {model}");
        }
        assert_eq!(ModelVendor::OpenRouter.usual_model(), Some("openrouter/auto"));
        assert_eq!(ModelVendor::ThisMachine.usual_model(), None);
    }
}
