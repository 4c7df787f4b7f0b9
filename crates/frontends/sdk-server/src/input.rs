//! Lines of the host, and the first request before a session is open.

use std::collections::VecDeque;

use haft_json_lines::{InputLine, read_lines};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use crate::InboundLine;

/// Lines of standard input.
pub struct HostInput {
    /// Lines that were read before the session was open.
    early: VecDeque<InputLine>,
    lines: mpsc::Receiver<InputLine>,
}

/// The `initialize` request of a host started with `--await-initialize`.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchRequest {
    /// Id to answer, also if no session can be opened.
    pub request_id: String,
    /// Fields the session is opened with.
    pub fields: LaunchFields,
}

/// Fields of `initialize` that only apply when a session is opened. They replace flags, which other
/// users of the machine could read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaunchFields {
    /// `settings`: the value of `--settings`.
    pub settings: Option<Value>,
    /// `managedSettings`: the value of `--managed-settings`.
    pub managed_settings: Option<Value>,
    /// `disallowedTools`: the value of `--disallowedTools`.
    pub disallowed_tools: Option<Value>,
    /// `mcpServers`: servers by name, as in `--mcp-config`.
    pub mcp_servers: Option<Value>,
}

impl HostInput {
    /// Starts a thread that reads standard input.
    pub fn start() -> Self {
        Self { early: VecDeque::new(), lines: read_lines() }
    }

    /// Waits for the next line; `None` at the end of input.
    pub(crate) async fn next(&mut self) -> Option<InputLine> {
        match self.early.pop_front() {
            Some(line) => Some(line),
            None => self.lines.recv().await,
        }
    }

    /// Waits for `initialize`. Returns `None` if the host starts with a prompt or closes its input. The
    /// lines stay available for the session.
    pub async fn launch_request(&mut self) -> Option<LaunchRequest> {
        loop {
            let line = self.lines.recv().await?;
            let heard = match &line {
                InputLine::Whole(line) => InboundLine::parse(line),
                InputLine::TooLong(_) => None,
            };
            self.early.push_back(line);
            match heard {
                Some(InboundLine::Control(control)) if control.request["subtype"] == "initialize" => {
                    let fields = LaunchFields::read(&|name| &control.request[name]);
                    return Some(LaunchRequest { request_id: control.request_id, fields });
                }
                // An invalid line ends the session once it is open.
                None | Some(InboundLine::User(_)) => return None,
                Some(_) => (),
            }
        }
    }
}

impl LaunchFields {
    pub(crate) fn read<'a>(field: &dyn Fn(&str) -> &'a Value) -> Self {
        let given = |name: &str| Some(field(name)).filter(|it| !it.is_null()).cloned();
        Self {
            settings: given("settings"),
            managed_settings: given("managedSettings"),
            disallowed_tools: given("disallowedTools"),
            mcp_servers: given("mcpServers"),
        }
    }

    /// For each field of a later request: whether it equals the value the session was opened with. A
    /// field of an invalid type counts as not applied.
    pub(crate) fn applied(&self, launched: &Self) -> Map<String, Value> {
        let all = [
            ("settings_applied", &self.settings, &launched.settings, Value::is_object as fn(&Value) -> bool),
            (
                "managed_settings_applied",
                &self.managed_settings,
                &launched.managed_settings,
                Value::is_object,
            ),
            (
                "disallowed_tools_applied",
                &self.disallowed_tools,
                &launched.disallowed_tools,
                is_list_of_texts,
            ),
            ("mcp_servers_applied", &self.mcp_servers, &launched.mcp_servers, Value::is_object),
        ];
        let given = all.into_iter().filter(|(_, sent, ..)| sent.is_some());
        given
            .map(|(name, sent, launched, fits)| {
                let applied = sent == launched && sent.as_ref().is_some_and(fits);
                (name.to_owned(), Value::Bool(applied))
            })
            .collect()
    }

    /// The settings, if they are an object.
    pub fn settings(&self) -> Option<&Map<String, Value>> {
        self.settings.as_ref()?.as_object()
    }

    /// The managed settings, if they are an object.
    pub fn managed_settings(&self) -> Option<&Map<String, Value>> {
        self.managed_settings.as_ref()?.as_object()
    }

    /// The deny rules; empty if they are not a list of strings.
    pub fn disallowed_tools(&self) -> Vec<String> {
        let list = self.disallowed_tools.as_ref().filter(|it| is_list_of_texts(it));
        let texts = list.and_then(Value::as_array).into_iter().flatten();
        texts.filter_map(|it| it.as_str().map(str::to_owned)).collect()
    }

    /// The servers, if they are an object.
    pub fn mcp_servers(&self) -> Option<&Map<String, Value>> {
        self.mcp_servers.as_ref()?.as_object()
    }
}

fn is_list_of_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.iter().all(Value::is_string))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use serde_json::json;

    use super::*;

    fn input(lines: &[Value]) -> HostInput {
        let (sender, receiver) = mpsc::channel(lines.len().max(1));
        for line in lines {
            sender.try_send(InputLine::Whole(line.to_string().into_bytes())).unwrap();
        }
        HostInput { early: VecDeque::new(), lines: receiver }
    }

    #[tokio::test]
    async fn launch_request_is_found_and_no_line_is_lost() {
        let user = json!({"type": "user", "message": {"role": "user", "content": "go"}});
        let alive = json!({"type": "keep_alive"});
        let begin = json!({"type": "control_request", "request_id": "r",
            "request": {"subtype": "initialize", "settings": {"model": "m"}, "mcpServers": null}});
        let fields = LaunchFields { settings: Some(json!({"model": "m"})), ..LaunchFields::default() };
        let found = LaunchRequest { request_id: String::from("r"), fields };
        for (lines, want) in [
            (vec![begin.clone(), user.clone()], Some(found.clone())),
            (vec![alive.clone(), begin.clone()], Some(found)),
            (vec![user, begin], None),
            (vec![alive], None),
            (vec![], None),
        ] {
            let mut input = input(&lines);
            assert_eq!(input.launch_request().await, want, "{lines:?}");
            for line in lines {
                let Some(InputLine::Whole(left)) = input.next().await else { panic!("{line} is lost") };
                assert_eq!(left, line.to_string().into_bytes());
            }
        }
    }

    #[test]
    fn applied_fields_are_those_of_the_launch_in_their_form() {
        let request = |value: &Value| LaunchFields::read(&|name| &value[name]);
        let all = json!({"settings": {"a": 1}, "managedSettings": {}, "disallowedTools": ["Bash"], "mcpServers": {}});
        let odd = json!({"settings": 7, "managedSettings": [], "disallowedTools": [1], "mcpServers": "x"});
        for (sent, launched, want) in [
            (&json!({}), &all, json!({})),
            (&all, &all, json!(true)),
            (&all, &json!({}), json!(false)),
            (&odd, &odd, json!(false)),
        ] {
            let applied = request(sent).applied(&request(launched));
            match want {
                Value::Bool(want) => {
                    assert_eq!(applied.len(), 4);
                    assert!(applied.values().all(|it| *it == want), "{sent} {applied:?}");
                }
                _ => assert!(applied.is_empty(), "{applied:?}"),
            }
        }
    }
}
