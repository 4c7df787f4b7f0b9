//! Local servers behind the walls that hold commands.

use haft_mcp_client::{Endpoint, ServerConfig};

use crate::{output::Failure, wiring::Setup};

impl Setup {
    /// Whether all local servers are to be held, not only those that say so.
    fn holds_servers(&self) -> bool {
        let wanted = self.store.current().settings.get("sandbox.mcpServers");
        wanted.is_some_and(|it| it.value == true)
    }

    /// Puts `haft sandbox run` before the command of every local server that is
    /// to be held. Where the walls cannot be had, that program refuses, and the
    /// server fails with its reason.
    pub(super) fn confine(&self, servers: &mut [ServerConfig]) -> Result<(), Failure> {
        let all = self.holds_servers();
        for server in servers {
            if let (Endpoint::Stdio(command), true) = (&mut server.endpoint, all || server.sandbox) {
                let own = std::env::current_exe()?.display().to_string();
                let program = std::mem::replace(&mut command.program, own);
                let before = self.confining(program);
                command.args.splice(0..0, before);
            }
        }
        Ok(())
    }

    /// The words before a server's own arguments. The project stays writable
    /// wherever in it the server starts, and the same settings say what else is.
    fn confining(&self, program: String) -> Vec<String> {
        let mut words = vec![String::from("sandbox"), String::from("run")];
        let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
        flag("--add-dir", self.cwd.display().to_string());
        if let Some(settings) = &self.options.settings {
            flag("--settings", settings.clone());
        }
        if let Some(sources) = &self.options.setting_sources {
            flag("--setting-sources", sources.clone());
        }
        words.extend([String::from("--"), program]);
        words
    }
}
