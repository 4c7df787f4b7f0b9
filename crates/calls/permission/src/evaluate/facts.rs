use std::{
    cell::OnceCell,
    path::{Path, PathBuf},
};

use haft_paths::{PathError, ResolvedPath, locate};
use haft_tool::{Access, AccessSet, CallContext, CommandLine, DynCall, GrantedPath, Verdict};

use crate::{
    CommandAnalysis, CommandPart, FileMention, FileTarget, FileUse, FileUseKind, FileUseScope, HookOpinion,
    Policy,
    command_judge::CommandContext,
    glob_expansion::{PathShape, expand},
    path_matcher::PathUse,
    rule::host_of,
    same_file::{FileId, linked_id},
};

/// Everything about a call that rules look at, found out once for all levels.
pub(crate) struct CallSubject<'a> {
    pub(crate) tool: &'a str,
    pub(crate) call: &'a dyn DynCall,
    pub(crate) cx: &'a CallContext,
    pub(crate) hook: &'a HookOpinion,
    pub(crate) verdict: Verdict,
    /// Whether the tool says what it touches.
    pub(crate) declared: bool,
    pub(crate) touches: Vec<SubjectAccess>,
}

/// A path in both of its forms, and which file it is.
pub(crate) struct SubjectPath {
    pub(crate) located: ResolvedPath,
    /// Asked for only where a rule could be about another name of the file.
    id: OnceCell<Option<FileId>>,
}

impl SubjectPath {
    fn find(path: &Path, cx: &CallContext, home: Option<&Path>) -> Result<Self, PathError> {
        Ok(Self { located: locate(path, &cx.cwd, home)?, id: OnceCell::new() })
    }

    /// The identity of the file, if it has other names.
    pub(crate) fn linked_id(&self) -> Option<FileId> {
        *self.id.get_or_init(|| linked_id(&std::fs::symlink_metadata(&self.located.real).ok()?))
    }
}

/// One thing a call touches, looked up.
pub(crate) enum SubjectAccess {
    Path { asked: PathBuf, using: PathUse, spotted: Result<SubjectPath, PathError> },
    Command { line: CommandLine, parts: Vec<(CommandPart, Vec<SubjectFile>)>, doubt: Option<String> },
    Fetch { address: String, host: Result<String, &'static str> },
    Named(String),
}

/// A file a command names, looked up.
pub(crate) struct SubjectFile {
    pub(crate) using: PathUse,
    pub(crate) through: FileMention,
    pub(crate) reach: FileUseScope,
    pub(crate) what: FileKnowledge,
}

/// What is known about it.
pub(crate) enum FileKnowledge {
    /// This file.
    Spotted(Result<SubjectPath, PathError>),
    /// Whatever has this shape; what exists of it is spotted one by one.
    Shape(PathShape),
    /// Known only when it runs.
    Unknown(String),
}

impl<'a> CallSubject<'a> {
    pub(crate) fn gather(
        policy: &'a Policy,
        tool: &'a str,
        call: &'a dyn DynCall,
        cx: &'a CallContext,
        hook: &'a HookOpinion,
    ) -> Self {
        let (declared, accesses) = match call.reach(cx) {
            AccessSet::Undeclared => (false, Vec::new()),
            AccessSet::Declared(accesses) => (true, accesses),
        };
        let touches = accesses.into_iter().map(|access| touch(policy, access, cx)).collect();
        Self { tool, call, cx, hook, verdict: call.check_permissions(cx), declared, touches }
    }

    /// Where each declared path really is.
    pub(crate) fn grants(&self) -> Vec<GrantedPath> {
        let grant = |asked: &Path, spotted: &SubjectPath| GrantedPath {
            asked: asked.to_owned(),
            real: spotted.located.real.clone(),
        };
        let grants = self.touches.iter().flat_map(|touch| match touch {
            SubjectAccess::Path { asked, spotted: Ok(spotted), .. } => vec![grant(asked, spotted)],
            SubjectAccess::Command { parts, .. } => {
                let files = parts.iter().flat_map(|(_, files)| files);
                let named = files.filter(|it| it.through != FileMention::Mention);
                named
                    .filter_map(|file| match &file.what {
                        FileKnowledge::Spotted(Ok(spotted)) => Some(grant(&spotted.located.lexical, spotted)),
                        _ => None,
                    })
                    .collect()
            }
            _ => Vec::new(),
        });
        grants.collect()
    }

    /// Whether a command line is all of the call.
    pub(crate) fn is_one_line(&self) -> bool {
        matches!(&self.touches[..], [SubjectAccess::Command { .. }])
    }

    /// Whether a command line is part of the call.
    pub(crate) fn runs_commands(&self) -> bool {
        self.touches.iter().any(|touch| matches!(touch, SubjectAccess::Command { .. }))
    }
}

fn touch(policy: &Policy, access: Access, cx: &CallContext) -> SubjectAccess {
    match access {
        Access::Read(asked) => path(policy, asked, PathUse::Read, cx),
        Access::Write(asked) => path(policy, asked, PathUse::Write, cx),
        Access::Fetch(address) => SubjectAccess::Fetch { host: host_of(&address), address },
        Access::Named(name) => SubjectAccess::Named(name),
        Access::Command(line) => command(policy, line, cx),
    }
}

fn path(policy: &Policy, asked: PathBuf, using: PathUse, cx: &CallContext) -> SubjectAccess {
    let spotted = SubjectPath::find(&asked, cx, home(policy, cx));
    SubjectAccess::Path { asked, using, spotted }
}

fn command(policy: &Policy, line: CommandLine, cx: &CallContext) -> SubjectAccess {
    let anchors = policy.anchors(cx);
    let roots = anchors.root_paths();
    let home = home(policy, cx);
    let place = CommandContext { cwd: &cx.cwd, home, roots: &roots };
    let CommandAnalysis { parts, doubt } = policy.commands().analyse(&line, &place);
    let spotted = parts.into_iter().map(|part| {
        let files = part.files.iter().flat_map(|file| spots(file, cx, home)).collect();
        (part, files)
    });
    SubjectAccess::Command { parts: spotted.collect(), line, doubt }
}

/// Looks up a file a command names. A pattern stands for its directory, for
/// everything it finds, and for its shape.
fn spots(file: &FileUse, cx: &CallContext, home: Option<&Path>) -> Vec<SubjectFile> {
    let using = match file.kind {
        FileUseKind::Read => PathUse::Read,
        FileUseKind::Write => PathUse::Write,
    };
    let spot = |what| SubjectFile { using, through: file.through, reach: file.reach, what };
    let spotted = |path: &Path| spot(FileKnowledge::Spotted(SubjectPath::find(path, cx, home)));
    match &file.target {
        FileTarget::Path(path) => vec![spotted(path)],
        FileTarget::Unknown(text) => vec![spot(FileKnowledge::Unknown(text.clone()))],
        FileTarget::Pattern(pattern) => {
            let found = expand(pattern);
            let mut spots = vec![SubjectFile { using: PathUse::Read, ..spotted(&found.start) }];
            spots[0].reach = FileUseScope::Itself;
            spots.extend(found.found.iter().map(|path| spotted(path)));
            spots.push(spot(if found.cut {
                FileKnowledge::Unknown(pattern.display().to_string())
            } else {
                FileKnowledge::Shape(found.shape)
            }));
            spots
        }
    }
}

fn home<'a>(policy: &'a Policy, cx: &'a CallContext) -> Option<&'a Path> {
    cx.home.as_deref().or_else(|| policy.home())
}
