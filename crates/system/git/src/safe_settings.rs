//! Git settings that do not influence which programs run.

/// Sections in which no key names a program, a file or a server that a read would contact.
const GIT_SECTIONS: &[&str] = &[
    "advice",
    "apply",
    "author",
    "blame",
    "branch",
    "color",
    "column",
    "commit",
    "committer",
    "credential",
    "fetch",
    "gc",
    "gitflow",
    "grep",
    "gui",
    "http",
    "index",
    "init",
    "maintenance",
    "merge",
    "pack",
    "protocol",
    "pull",
    "push",
    "rebase",
    "receive",
    "rerere",
    "sequence",
    "stash",
    "status",
    "submodule",
    "svn-remote",
    "tag",
    "transfer",
    "url",
    "user",
    "versionsort",
];

/// Harmless keys of other sections.
const GIT_KEYS: &[&str] = &[
    "core.abbrev",
    "core.autocrlf",
    "core.bare",
    "core.bigfilethreshold",
    "core.checkstat",
    "core.commentchar",
    "core.compression",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.logallrefupdates",
    "core.longpaths",
    "core.precomposeunicode",
    "core.protecthfs",
    "core.protectntfs",
    "core.quotepath",
    "core.repositoryformatversion",
    "core.safecrlf",
    "core.sharedrepository",
    "core.symlinks",
    "core.trustctime",
    "core.untrackedcache",
    "core.whitespace",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.multipackindex",
    "core.commitgraph",
    "diff.algorithm",
    "diff.colormoved",
    "diff.context",
    "diff.mnemonicprefix",
    "diff.noprefix",
    "diff.renamelimit",
    "diff.renames",
    "diff.statgraphwidth",
    "diff.submodule",
    "extensions.objectformat",
    "extensions.worktreeconfig",
    "extensions.refstorage",
    "extensions.relativeworktrees",
    "feature.manyfiles",
    "lfs.access",
    "lfs.activitytimeout",
    "lfs.allowincompletepush",
    "lfs.concurrenttransfers",
    "lfs.fetchexclude",
    "lfs.fetchinclude",
    "lfs.locksverify",
    "lfs.pushurl",
    "lfs.repositoryformatversion",
    "lfs.url",
    "log.abbrevcommit",
    "log.date",
    "log.decorate",
    "log.follow",
    "remote.fetch",
    "remote.prune",
    "remote.pushurl",
    "remote.tagopt",
    "remote.url",
    "remote.mirror",
    "remote.skipdefaultupdate",
];

/// Whether a setting neither names nor redirects a program. `section` and `name` (`section.key`) are in
/// lower case without the subsection.
pub fn is_ordinary_setting(section: &str, name: &str) -> bool {
    GIT_SECTIONS.contains(&section) || GIT_KEYS.contains(&name)
}

/// Like [`is_ordinary_setting`], for a whole key as git lists it.
pub(crate) fn is_ordinary_key(key: &[u8]) -> bool {
    let lower = String::from_utf8_lossy(key).to_ascii_lowercase();
    let (Some((section, _)), Some((before, variable))) = (lower.split_once('.'), lower.rsplit_once('.'))
    else {
        return false;
    };
    // `diff.x.command` names a program, `diff.context` does not.
    let nested = ["core", "diff", "log", "extensions", "feature", "merge"].contains(&section);
    let name = format!("{section}.{variable}");
    let place = matches!(name.as_str(), "core.worktree" | "core.hookspath");
    !(nested && before != section) && (place || is_ordinary_setting(section, &name))
}
