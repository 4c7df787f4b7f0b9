//! AWS Signature Version 4, with credentials from the standard AWS sources.

use std::{fmt::Write as _, process::Stdio, sync::Arc};

use bytes::Bytes;
use reqsign_aws_v4::{Credential, DefaultCredentialProvider, RequestSigner, StaticCredentialProvider};
use reqsign_core::{CommandExecute, CommandOutput, Context, OsEnv, Signer};
use reqsign_file_read_tokio::TokioFileRead;
use reqsign_http_send_reqwest::ReqwestHttpSend;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use crate::{KeyHelper, ModelError, SecretString};

/// Authentication at AWS.
#[derive(Debug)]
pub enum AwsLogin {
    /// The standard credential chain: environment, profile, SSO, credential process, web identity,
    /// container and instance metadata.
    Default {
        /// Profile name; `None` for the default one.
        profile: Option<String>,
    },
    /// Fixed keys.
    Keys {
        /// Access key id.
        access_key: String,
        /// Secret access key.
        secret_key: SecretString,
        /// Session token, for temporary keys.
        session_token: Option<SecretString>,
    },
    /// A command that prints keys as JSON, like `aws sts`.
    Export(KeyHelper),
    /// A Bedrock API key, sent as a bearer token.
    Bearer(crate::KeySource),
    /// None, for gateways that sign requests themselves.
    None,
}

/// Signs requests to Bedrock.
pub(crate) struct AwsSigner {
    region: String,
    keys: AwsKeys,
    /// Signer of the chain or static keys, which caches credentials.
    signer: Mutex<Option<Arc<Signer<Credential>>>>,
}

/// Source of the keys.
pub(crate) enum AwsKeys {
    Chain { profile: Option<String> },
    Static { access_key: String, secret_key: SecretString, session_token: Option<SecretString> },
    Export(KeyHelper),
}

impl std::fmt::Debug for AwsSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AwsSigner").field("region", &self.region).finish_non_exhaustive()
    }
}

impl AwsSigner {
    pub(crate) fn new(region: &str, keys: AwsKeys) -> Self {
        Self { region: region.to_owned(), keys, signer: Mutex::new(None) }
    }

    /// Returns the current signer. The chain caches its credentials; an export command is cached by its
    /// own TTL.
    async fn signer(&self) -> Result<Arc<Signer<Credential>>, ModelError> {
        if let AwsKeys::Export(helper) = &self.keys {
            let keys = exported(helper.get().await?.expose())?;
            return Ok(Arc::new(self.build(&keys)));
        }
        let mut signer = self.signer.lock().await;
        Ok(Arc::clone(signer.get_or_insert_with(|| Arc::new(self.build(&self.keys)))))
    }

    /// Drops cached credentials after AWS rejected them. Returns whether a retry may get other ones:
    /// only with an export command, because the chain finds the same ones again unless they were
    /// renewed.
    pub(crate) async fn forget(&self) -> bool {
        *self.signer.lock().await = None;
        match &self.keys {
            AwsKeys::Export(helper) => helper.forget().await,
            AwsKeys::Chain { .. } | AwsKeys::Static { .. } => false,
        }
    }

    fn build(&self, keys: &AwsKeys) -> Signer<Credential> {
        let context = Context::new()
            .with_file_read(TokioFileRead)
            .with_http_send(ReqwestHttpSend::default())
            .with_command_execute(Processes)
            .with_env(OsEnv);
        let request = RequestSigner::new("bedrock", &self.region);
        match keys {
            AwsKeys::Chain { profile: None } | AwsKeys::Export(_) => {
                Signer::new(context, DefaultCredentialProvider::new(), request)
            }
            AwsKeys::Chain { profile: Some(profile) } => {
                let chain = DefaultCredentialProvider::builder().with_profile(profile.as_str()).build();
                Signer::new(context, chain, request)
            }
            AwsKeys::Static { access_key, secret_key, session_token } => {
                let keys = StaticCredentialProvider::new(access_key, secret_key.expose());
                let keys = match session_token {
                    Some(token) => keys.with_session_token(token.expose()),
                    None => keys,
                };
                Signer::new(context, keys, request)
            }
        }
    }

    /// Adds the signature headers to a request.
    pub(crate) async fn sign(
        &self,
        url: &str,
        body: &Bytes,
        headers: &mut HeaderMap,
    ) -> Result<(), ModelError> {
        let fail = |what: String| ModelError::Auth { message: format!("no AWS signature: {what}") };
        let signer = self.signer().await?;
        let hash = Sha256::digest(body).iter().fold(String::new(), |mut out, byte| {
            let _ = write!(out, "{byte:02x}");
            out
        });
        let request = http::Request::post(signed_url(url))
            .header("x-amz-content-sha256", hash)
            .body(())
            .map_err(|err| fail(err.to_string()))?;
        let (mut parts, ()) = request.into_parts();
        signer.sign(&mut parts, None).await.map_err(|err| {
            fail(format!(
                "{err}. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or run `aws sso login`."
            ))
        })?;
        for (name, value) in &parts.headers {
            // The HTTP client sets the host header itself, from the same URL.
            if name != http::header::HOST {
                let name = HeaderName::try_from(name.as_str()).map_err(|err| fail(err.to_string()))?;
                let mut value =
                    HeaderValue::from_bytes(value.as_bytes()).map_err(|err| fail(err.to_string()))?;
                value.set_sensitive(true);
                headers.insert(name, value);
            }
        }
        Ok(())
    }
}

/// Parses the output of an export command: JSON of `aws sts` or of a `credential_process`. Errors never
/// quote it.
fn exported(printed: &str) -> Result<AwsKeys, ModelError> {
    let fail = || ModelError::Auth {
        message: String::from(
            "awsCredentialExport did not print {\"Credentials\": {\"AccessKeyId\": …, \"SecretAccessKey\": …}}",
        ),
    };
    let printed: Value = serde_json::from_str(printed).map_err(|_| fail())?;
    let keys = printed.get("Credentials").unwrap_or(&printed);
    let text = |name: &str| keys[name].as_str().filter(|it| !it.is_empty());
    let (Some(access), Some(secret)) = (text("AccessKeyId"), text("SecretAccessKey")) else {
        return Err(fail());
    };
    Ok(AwsKeys::Static {
        access_key: access.to_owned(),
        secret_key: SecretString::new(secret),
        session_token: text("SessionToken").map(SecretString::new),
    })
}

/// Returns the URL to sign. The signer is made for S3, which uses paths unchanged; all other services
/// expect them percent-encoded once more.
fn signed_url(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let path = url[start..].find('/').map_or(url.len(), |at| start + at);
    let (base, path) = url.split_at(path);
    let mut out = base.to_owned();
    for byte in path.bytes() {
        if byte == b'%' {
            out.push_str("%25");
        } else {
            out.push(char::from(byte));
        }
    }
    out
}

/// Percent-encodes a model name as a path segment.
pub(crate) fn path_segment(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Runs `credential_process` commands of AWS profiles.
#[derive(Debug)]
struct Processes;

impl CommandExecute for Processes {
    async fn command_execute<'a>(
        &'a self,
        program: &'a str,
        args: &'a [&'a str],
    ) -> reqsign_core::Result<CommandOutput> {
        let output = tokio::process::Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .map_err(|err| {
                reqsign_core::Error::unexpected(format!("{program} could not be started: {err}"))
            })?;
        Ok(CommandOutput {
            status: output.status.code().unwrap_or(-1),
            stdout: output.stdout,
            stderr: output.stderr,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn export_output_is_parsed_or_error_hides_it() {
        let keys = r#"{"AccessKeyId": "AKID", "SecretAccessKey": "hush", "SessionToken": "t"}"#;
        for printed in [keys.to_owned(), format!("{{\n\"Credentials\": {keys}}}\n")] {
            let Ok(AwsKeys::Static { access_key, secret_key, session_token }) = exported(&printed) else {
                panic!("{printed}");
            };
            assert_eq!((access_key.as_str(), secret_key.expose()), ("AKID", "hush"));
            assert_eq!(session_token.unwrap().expose(), "t");
        }
        for printed in ["", "hush", r#"{"SecretAccessKey": "hush"}"#, r#"{"Credentials": "hush"}"#] {
            let error = exported(printed).err().unwrap().to_string();
            assert!(error.contains("awsCredentialExport") && !error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn bedrock_path_is_encoded_as_signed() {
        assert_eq!(path_segment("us.anthropic.claude-x-v1:0"), "us.anthropic.claude-x-v1:0");
        assert_eq!(
            path_segment("arn:aws:bedrock:us-east-1:1:inference-profile/x"),
            "arn:aws:bedrock:us-east-1:1:inference-profile%2Fx"
        );
        assert_eq!(signed_url("https://h/model/a%2Fb:0/invoke"), "https://h/model/a%252Fb:0/invoke");
        assert_eq!(signed_url("https://h"), "https://h");
    }
}
