//! Synonyms for the tool search. A short list of our own; a general thesaurus would be larger than the
//! program.

/// Groups of synonyms. A search for one word also finds the others of its group.
const GROUPS: &[&[&str]] = &[
    &["email", "mail", "gmail", "inbox", "smtp", "imap", "outlook"],
    &["message", "chat", "dm", "post", "slack", "sms", "notify"],
    &["weather", "forecast", "temperature", "climate", "meteo"],
    &["image", "picture", "photo", "img", "png", "jpeg", "screenshot", "graphic"],
    &["shrink", "resize", "scale", "compress", "downscale", "thumbnail", "smaller", "reduce"],
    &["calendar", "event", "meeting", "appointment", "agenda", "schedule"],
    &["schedule", "cron", "recurring", "timer", "remind", "reminder", "alarm", "later"],
    &["ticket", "issue", "bug", "task", "jira", "story"],
    &["pr", "pull", "merge", "review"],
    &["repo", "repository", "git", "github", "gitlab"],
    &["database", "db", "sql", "postgres", "mysql", "sqlite", "table"],
    &["delete", "remove", "erase", "drop", "destroy", "trash"],
    &["create", "add", "new", "make", "insert"],
    &["change", "edit", "update", "modify", "patch"],
    &["find", "search", "lookup", "query", "locate"],
    &["show", "get", "read", "view", "fetch", "display"],
    &["list", "all", "enumerate", "browse"],
    &["run", "execute", "invoke", "launch", "start"],
    &["stop", "cancel", "kill", "abort", "end", "terminate"],
    &["send", "submit", "deliver", "forward"],
    &["file", "document", "doc", "attachment"],
    &["folder", "directory", "dir", "path"],
    &["web", "url", "http", "page", "website", "link", "browser", "internet"],
    &["money", "price", "currency", "cost", "payment", "invoice", "exchange"],
    &["map", "location", "place", "address", "geocode", "route", "directions"],
    &["translate", "translation", "language"],
    &["person", "people", "user", "contact", "member"],
    &["note", "notebook", "memo", "page"],
    &["audio", "sound", "voice", "speech", "music"],
    &["video", "movie", "clip", "youtube"],
    &["deploy", "release", "publish", "ship"],
    &["log", "trace", "error", "exception", "crash"],
    &["chart", "plot", "graph", "diagram"],
    &["spreadsheet", "sheet", "excel", "csv"],
    &["secret", "password", "credential", "token", "key"],
    &["time", "date", "clock", "timezone"],
    &["ask", "question", "clarify"],
    &["todo", "task", "plan", "checklist"],
];

/// Returns the synonyms of a word, without duplicates.
pub(super) fn others(word: &str) -> Vec<&'static str> {
    let mut found: Vec<&'static str> = Vec::new();
    for group in GROUPS.iter().filter(|group| group.contains(&word)) {
        found.extend(group.iter().copied().filter(|it| *it != word));
    }
    found.sort_unstable();
    found.dedup();
    found
}
