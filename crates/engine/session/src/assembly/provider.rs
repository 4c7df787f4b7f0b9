//! Who answers: chosen by flags, settings and the environment.

use std::{sync::Arc, time::Duration};

use haft_model::{
    AnthropicLogin, Catalog, Common, ImageLimit, KeySettings, KeySource, MediaPort, Provider, ProviderChoice,
    ShrunkImage,
};
use haft_tools::read::MediaWork;
use tokio::runtime::RuntimeFlavor;

use super::{Setup, services::media_work};
use crate::{
    args::{ProviderName, RunArgs},
    output::Failure,
};

/// Somebody who answers, and where the key comes from.
pub(crate) struct Chosen {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) key_source: String,
}

impl Setup {
    /// The provider flags, settings and environment ask for. Nothing is sent.
    pub(crate) fn provider(&self, run: &RunArgs) -> Result<Chosen, Failure> {
        let env = |name: &str| self.variable(name, run);
        let helper = self.loaded.settings.get("apiKeyHelper");
        let keys = KeySettings {
            helper: helper.and_then(|it| it.value.as_str().map(str::to_owned)),
            helper_ttl: None::<Duration>,
        };
        let choice = ProviderChoice::from_env(&env, &keys).map_err(|err| err.to_string())?;
        if let ProviderChoice::Anthropic { login: AnthropicLogin::ApiKey(KeySource::Env(_)), .. } = choice {
            let help = "there is no key: set ANTHROPIC_API_KEY (or OPENAI_API_KEY, or choose with --provider), \
                        or ANTHROPIC_BASE_URL to a server that needs none; `haft demo` needs nothing";
            return Err(Failure::Message(help.to_owned()));
        }
        let key_source = key_source(&choice, &env, &keys);
        let catalog = self.catalog()?;
        let media: Arc<dyn MediaPort> = Arc::new(Shrinks(media_work()));
        let common = Common { catalog: Arc::clone(&catalog), media: Some(media), ..Common::from_env(&env) };
        let provider = choice.build(common).map_err(|err| err.to_string())?;
        Ok(Chosen { provider: Arc::new(provider), catalog, key_source })
    }

    /// The built-in list of models, with the person's own `models.json` on top.
    pub(crate) fn catalog(&self) -> Result<Arc<Catalog>, Failure> {
        let path = self.state_dir().join("models.json");
        match std::fs::read_to_string(&path) {
            Ok(text) => {
                let catalog = Catalog::built_in().with(&text);
                Ok(Arc::new(catalog.map_err(|err| format!("{}: {err}", path.display()))?))
            }
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => Ok(Catalog::built_in()),
            Err(err) => Err(Failure::Message(format!("{}: {err}", path.display()))),
        }
    }

    /// A variable as providers see it: flags first, then settings, then the
    /// environment.
    pub(crate) fn variable(&self, name: &str, run: &RunArgs) -> Option<String> {
        let flagged = run.provider.and_then(|provider| of_flag(provider, name));
        let base = || run.base_url.clone().filter(|_| is_base_url(name));
        let set = || {
            let found = self.loaded.settings.env.iter().rev().find(|(it, _)| it == name);
            found.map(|(_, value)| value.value.clone())
        };
        flagged.or_else(base).or_else(set).or_else(|| std::env::var(name).ok())
    }
}

/// Makes pictures smaller the way Read does: in a process with limits.
struct Shrinks(MediaWork);

impl MediaPort for Shrinks {
    fn shrink(&self, image: &[u8], limit: ImageLimit) -> Option<ShrunkImage> {
        let shrink = || self.0.shrink(image, limit.side, limit.bytes);
        // A large picture takes a second, and others want to go on meanwhile.
        let others = tokio::runtime::Handle::try_current().map(|it| it.runtime_flavor());
        let shrunk = match others {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(shrink),
            _ => shrink(),
        };
        shrunk.map(|(media_type, bytes)| ShrunkImage { media_type, bytes })
    }
}

/// What `--provider` means in variables.
fn of_flag(provider: ProviderName, name: &str) -> Option<String> {
    let on = match provider {
        ProviderName::Anthropic => "",
        ProviderName::Bedrock => "HAFT_USE_BEDROCK",
        ProviderName::Vertex => "HAFT_USE_VERTEX",
        ProviderName::Foundry => "HAFT_USE_FOUNDRY",
        ProviderName::Openai | ProviderName::OpenaiResponses => "HAFT_USE_OPENAI",
    };
    let form = |form: &str| Some(form.to_owned());
    match (name, provider) {
        ("HAFT_OPENAI_FORM", ProviderName::Openai) => form("chat"),
        ("HAFT_OPENAI_FORM", ProviderName::OpenaiResponses) => form("responses"),
        // A key of somebody else must not change who was named.
        ("OPENAI_API_KEY" | "OPENAI_BASE_URL", ProviderName::Anthropic) => form(""),
        (name, _) if name == on => form("1"),
        (name, _) if name.starts_with("HAFT_USE_") => form("0"),
        _ => None,
    }
}

fn is_base_url(name: &str) -> bool {
    matches!(
        name,
        "ANTHROPIC_BASE_URL"
            | "ANTHROPIC_BEDROCK_BASE_URL"
            | "ANTHROPIC_VERTEX_BASE_URL"
            | "ANTHROPIC_FOUNDRY_BASE_URL"
            | "OPENAI_BASE_URL"
    )
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
        ProviderChoice::OpenAiChat { .. } | ProviderChoice::OpenAiResponses { .. } => {
            named(&["OPENAI_API_KEY"])
        }
        ProviderChoice::Vertex { .. } => String::from("google"),
        _ => String::from("aws"),
    }
}
