//! Which environment variables hold secrets: one list for commands, hooks, helpers, MCP servers, logs
//! and recordings.

use std::path::Path;

/// Variables with Haft's own keys.
const OWN: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_*_KEY",
    "ANTHROPIC_*_SECRET",
    "ANTHROPIC_*_TOKEN",
    "AWS_BEARER_TOKEN_BEDROCK",
    "CLAUDE_CODE_OAUTH_*",
    "CLAUDE_CODE_*_KEY",
    "CLAUDE_CODE_*_TOKEN",
    "HAFT_*_KEY",
    "HAFT_*_SECRET",
    "HAFT_*_TOKEN",
];

/// Key variables of other model providers; the key may be Haft's or the user's.
const PROVIDERS: &[&str] = &[
    "AZURE_OPENAI_API_KEY",
    "BRAVE_API_KEY",
    "EXA_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "KAGI_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "TAVILY_API_KEY",
];

/// Name patterns of credentials in general.
const CREDENTIALS: &[&str] = &[
    "*_ACCESS_KEY",
    "*_ACCESS_KEY_ID",
    "*_API_KEY",
    "*_APIKEY",
    "*_AUTH",
    "*_CREDENTIALS",
    "*_PASS",
    "*_PASSWORD",
    "*_PRIVATE_KEY",
    "*_SECRET",
    "*_SECRET_KEY",
    "*_TOKEN",
    "*_TOKEN_FILE",
    "DATABASE_URL",
    "SSH_AUTH_SOCK",
];

/// Whether the variable holds one of Haft's own keys. Child programs never inherit it.
pub fn is_own_secret(name: &str) -> bool {
    OWN.iter().any(|pattern| name_matches(pattern, name))
}

/// Whether the variable holds a key of a model or search service, Haft's own or not. Child programs
/// inherit it only if a setting says so.
pub fn is_provider_secret(name: &str) -> bool {
    is_own_secret(name) || PROVIDERS.contains(&name)
}

/// Whether the variable's name looks like a credential.
pub fn is_credential(name: &str) -> bool {
    is_provider_secret(name) || CREDENTIALS.iter().any(|pattern| name_matches(pattern, name))
}

/// Whether the name of a setting or variable, in any case style, suggests a secret value: `DB_PASSWORD`,
/// `clientSecret`, `api-key`.
pub fn is_secret_name(name: &str) -> bool {
    const WORDS: [&str; 13] = [
        "APIKEY",
        "AUTH",
        "CREDENTIAL",
        "CREDENTIALS",
        "KEY",
        "PASS",
        "PASSPHRASE",
        "PASSWD",
        "PASSWORD",
        "PWD",
        "SECRET",
        "SECRETS",
        "TOKEN",
    ];
    let mut words: Vec<String> = vec![String::new()];
    let mut before_is_lower = false;
    for letter in name.chars() {
        if !letter.is_alphanumeric() || (letter.is_uppercase() && before_is_lower) {
            words.push(String::new());
        }
        if letter.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_uppercase());
        }
        before_is_lower = letter.is_lowercase();
    }
    // `PWD` alone is the working directory; a public key is not secret.
    name != "PWD"
        && name != "OLDPWD"
        && !words.iter().any(|word| word == "PUBLIC")
        && words.iter().any(|word| WORDS.contains(&word.as_str()))
}

/// Whether a file of this name usually holds keys or passwords: `.env`, private keys, credentials of
/// package managers and cloud tools.
pub fn is_key_file(path: &Path) -> bool {
    const NAMES: [&str; 19] = [
        ".dockercfg",
        ".env",
        ".envrc",
        ".git-credentials",
        ".htpasswd",
        ".my.cnf",
        ".netrc",
        ".npmrc",
        ".pgpass",
        ".pypirc",
        ".yarnrc.yml",
        "credentials",
        "credentials.json",
        "credentials.toml",
        "id_dsa",
        "id_ecdsa",
        "id_ed25519",
        "id_rsa",
        "kubeconfig",
    ];
    const ENDINGS: [&str; 8] = [".env", ".jks", ".kdbx", ".key", ".keystore", ".p12", ".pem", ".pfx"];
    /// Suffixes of checked-in templates without secrets.
    const TEMPLATES: [&str; 5] = [".defaults", ".dist", ".example", ".sample", ".template"];
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let name = name.to_ascii_lowercase();
    if TEMPLATES.iter().any(|ending| name.ends_with(ending)) || name.ends_with(".pub") {
        return false;
    }
    let within = |dir: &str| path.parent().is_some_and(|parent| parent.ends_with(dir));
    NAMES.contains(&name.as_str())
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
        || name.starts_with(".env.")
        || name.starts_with("secrets.") && !name.ends_with(".rs") && !name.ends_with(".py")
        || name.starts_with("service-account") && name.ends_with(".json")
        || name == "config" && (within(".kube") || within(".aws"))
        || name == "config.json" && within(".docker")
}

/// Whether `name` matches `pattern`; `*` matches any text.
pub fn name_matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(start) else { return false };
    let parts: Vec<&str> = rest.split('*').collect();
    let Some((last, middle)) = parts.split_last() else { return true };
    for part in middle {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_variable_names_are_classified() {
        for (name, own, provider, credential, secret) in [
            ("ANTHROPIC_API_KEY", true, true, true, true),
            ("ANTHROPIC_FOUNDRY_API_KEY", true, true, true, true),
            ("CLAUDE_CODE_OAUTH_TOKEN", true, true, true, true),
            ("OPENAI_API_KEY", false, true, true, true),
            ("TAVILY_API_KEY", false, true, true, true),
            ("GH_TOKEN", false, false, true, true),
            ("DB_PASSWORD", false, false, true, true),
            ("SSH_AUTH_SOCK", false, false, true, true),
            ("clientSecret", false, false, false, true),
            ("api-key", false, false, false, true),
            ("PATH", false, false, false, false),
            ("PWD", false, false, false, false),
            ("PUBLIC_KEY", false, false, false, false),
            ("KEYBOARD", false, false, false, false),
            ("monkey", false, false, false, false),
        ] {
            let got =
                (is_own_secret(name), is_provider_secret(name), is_credential(name), is_secret_name(name));
            assert_eq!(got, (own, provider, credential, secret), "{name}");
        }
    }

    #[test]
    fn key_files_are_recognised_by_name() {
        for (path, want) in [
            (".env", true),
            ("a/.env.production", true),
            ("deploy/prod.env", true),
            ("/home/x/.ssh/id_ed25519", true),
            ("server.pem", true),
            (".npmrc", true),
            ("/home/x/.aws/credentials", true),
            ("/home/x/.kube/config", true),
            ("config/secrets.yml", true),
            (".env.example", false),
            ("id_ed25519.pub", false),
            ("src/config", false),
            ("src/secrets.rs", false),
            ("environment.ts", false),
            ("README.md", false),
        ] {
            assert_eq!(is_key_file(Path::new(path)), want, "{path}");
        }
    }
}
