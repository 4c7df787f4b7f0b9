use std::path::{Path, PathBuf};

use haft_paths::{Located, PathProblem, locate};
use haft_tool::{Access, CallContext, DynCall, Grant, Reach, Verdict};

use crate::{
    Analysis, CommandPart, FileUseKind, Opinion, Policy, Through, matcher::PathUse, port::CommandPlace,
    rule::host_of,
};

/// Everything about a call that rules look at, found out once for all levels.
pub(crate) struct Facts<'a> {
    pub(crate) tool: &'a str,
    pub(crate) call: &'a dyn DynCall,
    pub(crate) cx: &'a CallContext,
    pub(crate) hook: &'a Opinion,
    pub(crate) verdict: Verdict,
    /// Whether the tool says what it touches.
    pub(crate) declared: bool,
    pub(crate) touches: Vec<Touch>,
}

/// One thing a call touches, looked up.
pub(crate) enum Touch {
    Path { asked: PathBuf, using: PathUse, located: Result<Located, PathProblem> },
    Command { line: String, parts: Vec<(CommandPart, Vec<FileSpot>)>, doubt: Option<String> },
    Fetch { address: String, host: Result<String, &'static str> },
    Named(String),
}

/// A file a command names, looked up.
pub(crate) struct FileSpot {
    pub(crate) using: PathUse,
    pub(crate) through: Through,
    pub(crate) located: Result<Located, PathProblem>,
}

impl<'a> Facts<'a> {
    pub(crate) fn gather(
        policy: &'a Policy,
        tool: &'a str,
        call: &'a dyn DynCall,
        cx: &'a CallContext,
        hook: &'a Opinion,
    ) -> Self {
        let (declared, accesses) = match call.reach(cx) {
            Reach::Undeclared => (false, Vec::new()),
            Reach::Declared(accesses) => (true, accesses),
        };
        let touches = accesses.into_iter().map(|access| touch(policy, access, cx)).collect();
        Self { tool, call, cx, hook, verdict: call.check_permissions(cx), declared, touches }
    }

    /// Where each declared path really is.
    pub(crate) fn grants(&self) -> Vec<Grant> {
        let grants = self.touches.iter().filter_map(|touch| match touch {
            Touch::Path { asked, located: Ok(located), .. } => {
                Some(Grant { asked: asked.clone(), real: located.real.clone() })
            }
            _ => None,
        });
        grants.collect()
    }

    /// Whether a command line is part of the call.
    pub(crate) fn runs_commands(&self) -> bool {
        self.touches.iter().any(|touch| matches!(touch, Touch::Command { .. }))
    }
}

fn touch(policy: &Policy, access: Access, cx: &CallContext) -> Touch {
    match access {
        Access::Read(asked) => path(policy, asked, PathUse::Read, cx),
        Access::Write(asked) => path(policy, asked, PathUse::Write, cx),
        Access::Fetch(address) => Touch::Fetch { host: host_of(&address), address },
        Access::Named(name) => Touch::Named(name),
        Access::Command(line) => command(policy, line, cx),
    }
}

fn path(policy: &Policy, asked: PathBuf, using: PathUse, cx: &CallContext) -> Touch {
    let located = locate(&asked, &cx.cwd, home(policy, cx));
    Touch::Path { asked, using, located }
}

fn command(policy: &Policy, line: String, cx: &CallContext) -> Touch {
    let anchors = policy.anchors(cx);
    let roots = anchors.root_paths();
    let home = home(policy, cx);
    let place = CommandPlace { cwd: &cx.cwd, home, roots: &roots };
    let Analysis { parts, doubt } = policy.commands().analyse(&line, &place);
    let spotted = parts.into_iter().map(|part| {
        let files = part.files.iter().map(|file| FileSpot {
            using: match file.kind {
                FileUseKind::Read => PathUse::Read,
                FileUseKind::Write => PathUse::Write,
            },
            through: file.through,
            located: locate(&file.path, &cx.cwd, home),
        });
        let files = files.collect();
        (part, files)
    });
    Touch::Command { parts: spotted.collect(), line, doubt }
}

fn home<'a>(policy: &'a Policy, cx: &'a CallContext) -> Option<&'a Path> {
    cx.home.as_deref().or_else(|| policy.home())
}
