//! Who answers: chosen by flags, settings and the environment.

use std::{sync::Arc, time::Duration};

use haft_model::{
    AnthropicLogin, Catalog, Common, ImageLimit, KeySettings, KeySource, MediaPort, Provider, ProviderChoice,
    ShrunkImage,
};
use haft_tools::read::MediaWork;
use tokio::runtime::RuntimeFlavor;

use super::services::media_work;
use crate::{ModelSpec, OpenError, ProviderSpec, premises::Premises};

/// Somebody who answers, and where the key comes from.
pub(crate) struct ChosenProvider {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) key_source: String,
}

impl ChosenProvider {
    /// The provider that spec, settings and variables ask for. Nothing is sent.
    pub(crate) fn of(premises: &Premises, spec: &ModelSpec) -> Result<Self, OpenError> {
        let overrides = match &spec.provider {
            ProviderSpec::Given { provider, catalog } => {
                let catalog = match catalog {
                    Some(catalog) => Arc::clone(catalog),
                    None => premises.catalog()?,
                };
                let key_source = String::from("none");
                return Ok(Self { provider: Arc::clone(provider), catalog, key_source });
            }
            ProviderSpec::FromVariables { overrides } => overrides,
        };
        let env = |name: &str| {
            let flagged = overrides.iter().find(|(it, _)| it == name).map(|(_, value)| value.clone());
            flagged.or_else(|| premises.variable(name))
        };
        let keys =
            KeySettings { helper: premises.text_setting("apiKeyHelper"), helper_ttl: None::<Duration> };
        let failed = |err: &dyn std::fmt::Display| OpenError::Start(err.to_string());
        let choice = ProviderChoice::from_env(&env, &keys).map_err(|err| failed(&err))?;
        if let ProviderChoice::Anthropic { login: AnthropicLogin::ApiKey(KeySource::Env(_)), .. } = choice {
            let help = "there is no key: set ANTHROPIC_API_KEY (or OPENAI_API_KEY, or choose with --provider), \
                        or ANTHROPIC_BASE_URL to a server that needs none; `haft demo` needs nothing";
            return Err(OpenError::Start(help.to_owned()));
        }
        let key_source = key_source(&choice, &env, &keys);
        let catalog = premises.catalog()?;
        let media: Arc<dyn MediaPort> = Arc::new(ShrinksPictures(media_work(premises.program.as_ref())));
        let common = Common { catalog: Arc::clone(&catalog), media: Some(media), ..Common::from_env(&env) };
        let provider = choice.build(common).map_err(|err| failed(&err))?;
        Ok(Self { provider: Arc::new(provider), catalog, key_source })
    }
}

/// Makes pictures smaller the way Read does: in a process with limits.
struct ShrinksPictures(MediaWork);

impl MediaPort for ShrinksPictures {
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
