use crate::{Behavior, Names, rule::wildcard::Wildcard};

/// Which tools a rule is about.
#[derive(Clone, Debug)]
pub(crate) enum NamePattern {
    /// One tool.
    Exact(String),
    /// All tools of an MCP server.
    Server(String),
    /// All names that match.
    Glob(Wildcard),
}

impl NamePattern {
    /// Parses the tool name of a rule. An allow rule must not match names its author never saw, so
    /// wildcards are accepted only after a server's name.
    pub(crate) fn parse(name: &str, behavior: Behavior, names: &Names) -> Result<Self, &'static str> {
        let name = names.canonical(name);
        let server = name.strip_prefix("mcp__").map(|rest| rest.split_once("__").unwrap_or((rest, "*")));
        match server {
            Some((server, "*")) if !server.is_empty() && !server.contains('*') => {
                Ok(Self::Server(server.to_owned()))
            }
            _ if !name.contains('*') => Ok(Self::Exact(name.to_owned())),
            Some((server, _)) if !server.is_empty() && !server.contains('*') => {
                Ok(Self::Glob(Wildcard::new(name)))
            }
            _ if behavior == Behavior::Allow => {
                Err("an allow rule may use `*` in a tool name only after `mcp__<server>__`")
            }
            _ => Ok(Self::Glob(Wildcard::new(name))),
        }
    }

    /// The name, if only the tool of this name can match.
    pub(crate) fn only(&self) -> Option<&str> {
        match self {
            Self::Exact(name) if !name.starts_with("mcp__") => Some(name),
            Self::Exact(_) | Self::Server(_) | Self::Glob(_) => None,
        }
    }

    /// The name as a user would search for it.
    pub(crate) fn exact(&self) -> Option<&str> {
        match self {
            Self::Exact(name) => Some(name),
            Self::Server(_) | Self::Glob(_) => None,
        }
    }

    /// Whether a tool matches. If the name is ambiguous about its server (`a__b` or `a`), an allow rule
    /// uses only the registered meaning, a deny or ask rule any.
    pub(crate) fn matches(&self, tool: &str, behavior: Behavior, names: &Names) -> bool {
        let remote = names.remote(tool);
        match self {
            Self::Exact(name) => {
                let server = name.strip_prefix("mcp__");
                name == tool || remote.is_some_and(|remote| Some(&*remote.server) == server)
            }
            Self::Server(server) => {
                let by_text = is_tool_of(tool, server);
                match remote {
                    None => by_text,
                    Some(remote) => {
                        remote.server == *server
                            || by_text && (behavior != Behavior::Allow || wire(&remote.server) == *server)
                    }
                }
            }
            Self::Glob(glob) => {
                let original = remote.is_some_and(|remote| glob.matches(&remote.original));
                original || glob.matches(tool)
            }
        }
    }
}

fn is_tool_of(tool: &str, server: &str) -> bool {
    let rest = tool.strip_prefix("mcp__").and_then(|rest| rest.strip_prefix(server));
    rest.is_some_and(|rest| rest.starts_with("__"))
}

/// A server's name with only the characters that providers accept.
fn wire(server: &str) -> String {
    server.chars().map(|it| if it.is_ascii_alphanumeric() || it == '-' { it } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_pattern_matches_servers_and_tools() {
        let mut names = Names::built_in();
        names.add_remote("mcp__a__b__x", "a__b", "x");
        names.add_remote("mcp__my_server__t_u", "my.server", "t/u");
        let check = |pattern: &str, behavior: Behavior, tool: &str, want: bool| {
            let parsed = NamePattern::parse(pattern, behavior, &names).unwrap();
            assert_eq!(parsed.matches(tool, behavior, &names), want, "{pattern} {behavior:?} {tool}");
        };
        for behavior in [Behavior::Allow, Behavior::Deny] {
            check("Task", behavior, "Agent", true);
            check("Read", behavior, "ReadMcpResource", false);
            check("mcp__srv", behavior, "mcp__srv__any", true);
            check("mcp__srv__*", behavior, "mcp__srv__any", true);
            check("mcp__srv", behavior, "mcp__srv2__any", false);
            check("mcp__srv__get_*", behavior, "mcp__srv__get_x", true);
            check("mcp__srv__get_*", behavior, "mcp__srv__put_x", false);
            check("mcp__my.server", behavior, "mcp__my_server__t_u", true);
            check("mcp__my_server", behavior, "mcp__my_server__t_u", true);
            check("mcp__my.server__t/u", behavior, "mcp__my_server__t_u", true);
            check("mcp__my.server__t/*", behavior, "mcp__my_server__t_u", true);
            check("mcp__a__b", behavior, "mcp__a__b__x", true);
        }
        check("mcp__a", Behavior::Allow, "mcp__a__b__x", false);
        check("mcp__a", Behavior::Deny, "mcp__a__b__x", true);
        check("*", Behavior::Deny, "Anything", true);
        check("mcp__*", Behavior::Ask, "mcp__srv__any", true);
        check("mcp__*", Behavior::Ask, "Read", false);
        for glob in ["*", "mcp__*", "R*", "mcp__*__get"] {
            assert!(NamePattern::parse(glob, Behavior::Allow, &names).is_err(), "{glob}");
        }
    }
}
