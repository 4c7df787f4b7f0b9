//! Who makes a call: what the client said about itself and what it wants to
//! hear while the call runs.

use haft_tool::ProgressEvent;
use haft_types::text;
use rmcp::{
    RoleServer,
    model::{ProgressNotificationParam, ProgressToken, ProtocolVersion, RequestMetaObject},
    service::{Peer, RequestContext},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::call_clients::DeclaredCapabilities;

/// Which era of the protocol a request belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ProtocolEra {
    /// With a session, in which the server may ask the client.
    Legacy,
    /// Every request stands for itself.
    Modern,
}

/// The client behind one request.
pub(super) struct McpCaller {
    pub(super) peer: Peer<RoleServer>,
    pub(super) protocol: ProtocolEra,
    pub(super) can: DeclaredCapabilities,
    /// Fires when the client takes its request back.
    pub(super) withdrawn: CancellationToken,
    token: Option<ProgressToken>,
    log_level: Option<String>,
    steps: f64,
}

impl McpCaller {
    pub(super) fn from_context(context: &RequestContext<RoleServer>) -> Self {
        let is_modern = context
            .protocol_version()
            .is_some_and(|it| ProtocolVersion::V_2026_07_28.as_str() <= it.as_str());
        let wanted = context.meta.0.get("io.modelcontextprotocol/logLevel").and_then(Value::as_str);
        let capabilities = context.client_capabilities().unwrap_or_default();
        let legacy = Self::legacy(
            context.peer.clone(),
            DeclaredCapabilities::from_capabilities(&capabilities),
            &context.meta,
            context.ct.clone(),
        );
        if is_modern {
            // Without a level in the request there are no log messages.
            Self { protocol: ProtocolEra::Modern, log_level: wanted.map(str::to_owned), ..legacy }
        } else {
            legacy
        }
    }

    /// A client whose session said what it can.
    pub(super) fn legacy(
        peer: Peer<RoleServer>,
        can: DeclaredCapabilities,
        meta: &RequestMetaObject,
        withdrawn: CancellationToken,
    ) -> Self {
        let token = meta.get_progress_token();
        let log_level = Some(String::from("debug"));
        Self { peer, protocol: ProtocolEra::Legacy, can, withdrawn, token, log_level, steps: 0.0 }
    }

    /// Passes progress on, if the client asked for it.
    pub(super) async fn progress(&mut self, event: ProgressEvent) {
        let Some(token) = self.token.clone() else { return };
        let data = &event.data;
        self.steps = data["progress"]
            .as_f64()
            .filter(|it| self.steps < *it || self.steps == 0.0)
            .unwrap_or(self.steps + 1.0);
        let mut note = ProgressNotificationParam::new(token, self.steps);
        note.total = data["total"].as_f64();
        note.message = Some(match data["message"].as_str() {
            Some(message) => text::one_line(message, 500),
            None => text::one_line(&data.to_string(), 500),
        });
        let _ = self.peer.notify_progress(note).await;
    }

    pub(super) async fn log(&mut self, level: &str, data: Value) {
        const LEVELS: [&str; 8] =
            ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
        let rank = |name: &str| LEVELS.iter().position(|it| *it == name);
        let wanted = self.log_level.as_deref().and_then(rank);
        if wanted.is_none_or(|wanted| rank(level) < Some(wanted)) {
            return;
        }
        let params = json!({"method": "notifications/message", "params": {"level": level, "data": data}});
        if let Ok(note) = serde_json::from_value(params) {
            let _ = self.peer.send_notification(note).await;
        }
    }
}
