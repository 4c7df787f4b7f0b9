//! HTTP request handlers.

use std::{
    io,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Body,
    extract::{Path, Query, Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use futures_util::stream;
use haft_types::{Block, CallId, MediaSource};
use haft_workspace::{ChangeOrigin, Conflict, EntryId, UndoTarget, Workspace};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ViewerState, request_guard::guard, static_assets::asset};
use crate::{
    agent_list::ShownAgent,
    html::Html,
    journal_changes::{JournalChange, workspace},
    log_index::{IndexCursor, LogIndex},
    log_locations::LogLocation,
    log_search::search,
    log_summary::LogSummary,
    render::{
        RowForm, UndoOffer, agents, cost, dashboard, detail, facts, files, permissions, row, shown_picture,
        timeline, window,
    },
    row::RowKind,
    row_content::RowContent,
    timestamps::moment,
};

/// Maximum rows in a response.
const MAX_ROWS: usize = 200;

/// Rows shown from the end of a log that is not indexed yet.
const TAIL_ROWS: usize = 60;

/// Maximum logs whose summaries are read.
const MAX_LOGS: usize = 2_000;

/// Polling interval of a followed log.
const FOLLOW: Duration = Duration::from_millis(100);

/// Maximum bytes of a request body.
const MAX_BODY_BYTES: usize = 64 << 10;

type ViewState = State<Arc<ViewerState>>;

pub(super) fn router(shared: Arc<ViewerState>) -> Router {
    Router::new()
        .route("/api/sessions", get(sessions))
        .route("/api/dashboard", get(all_sessions))
        .route("/api/log/{key}", get(head))
        .route("/api/log/{key}/tail", get(tail))
        .route("/api/log/{key}/rows", get(rows))
        .route("/api/log/{key}/row/{number}", get(one_row))
        .route("/api/log/{key}/picture/{number}/{at}", get(picture))
        .route("/api/log/{key}/pane/{pane}", get(pane))
        .route("/api/log/{key}/search", get(find))
        .route("/api/log/{key}/follow", get(follow))
        .route("/api/log/{key}/undo/{entry}", get(undo_plan))
        .route("/api/log/{key}/undo", post(undo))
        .fallback(|request: Request| async move { asset(request.uri().path()) })
        .layer(axum::extract::DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), guard))
        .with_state(shared)
}

/// Runs blocking work on a blocking thread.
async fn waiting<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Response> {
    let done = tokio::task::spawn_blocking(work).await.map_err(io::Error::other).and_then(|it| it);
    done.map_err(|err| {
        let status = match err.kind() {
            io::ErrorKind::NotFound => StatusCode::NOT_FOUND,
            io::ErrorKind::InvalidInput => StatusCode::BAD_REQUEST,
            io::ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, err.to_string()).into_response()
    })
}

/// Updates the index of a log and calls `look` with it on a blocking thread.
async fn looking<T: Send + 'static>(
    shared: Arc<ViewerState>,
    key: String,
    look: impl FnOnce(&LogIndex, &ViewerState) -> T + Send + 'static,
) -> Result<T, Response> {
    waiting(move || {
        let index = shared.index(&key)?;
        extend(&index)?;
        let index = index.read().unwrap_or_else(PoisonError::into_inner);
        Ok(look(&index, &shared))
    })
    .await
}

fn extend(index: &RwLock<LogIndex>) -> io::Result<()> {
    index.write().unwrap_or_else(PoisonError::into_inner).extend()
}

fn html(out: Html) -> Response {
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], out.into_text()).into_response()
}

async fn sessions(State(shared): ViewState) -> Result<Response, Response> {
    waiting(move || {
        let logs = shared.places.all();
        let listed: Vec<Value> = logs.iter().take(MAX_LOGS).map(|it| listed(it, &shared)).collect();
        Ok(Json(json!({"sessions": listed})).into_response())
    })
    .await
}

/// Returns what is known about a log without reading all of it.
fn listed(place: &LogLocation, shared: &ViewerState) -> Value {
    let since = place.modified.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let project =
        place.path.parent().and_then(std::path::Path::file_name).unwrap_or_default().to_string_lossy();
    let own = shared.setting.state_dir.as_ref().is_some_and(|it| place.path.starts_with(it));
    json!({
        "key": place.key, "title": place.title, "project": project, "size": place.size, "own": own,
        "modified": u64::try_from(since.as_millis()).unwrap_or(0),
        "when": moment(i64::try_from(since.as_millis()).unwrap_or(0)),
    })
}

async fn all_sessions(State(shared): ViewState) -> Result<Response, Response> {
    waiting(move || {
        let kept = shared.cache_dir();
        let logs = shared.places.all().into_iter().take(MAX_LOGS).filter_map(|place| {
            let summary = LogSummary::load(&place, kept.as_deref(), &shared.catalog)?;
            Some((place, summary))
        });
        let logs: Vec<(LogLocation, LogSummary)> = logs.collect();
        let mut out = Html::default();
        dashboard(&mut out, &logs);
        Ok(html(out))
    })
    .await
}

async fn head(State(shared): ViewState, Path(key): Path<String>) -> Result<Response, Response> {
    looking(shared, key, |index, shared| {
        let mut out = Html::default();
        facts(&mut out, index);
        let told = json!({
            "title": index.name(), "rows": index.rows.len(), "facts": out.into_text(),
            "undo": shared.setting.allow_undo, "reading": index.reading, "changes": index.changed.len(),
        });
        Json(told).into_response()
    })
    .await
}

/// Returns the last rows of a log that takes long to read; for other logs, that they can be requested
/// normally.
async fn tail(State(shared): ViewState, Path(key): Path<String>) -> Result<Response, Response> {
    waiting(move || {
        let Some(end) = shared.tail(&key)? else { return Ok(Json(json!({"ready": true})).into_response()) };
        let mut out = Html::default();
        let first = end.rows.len().saturating_sub(TAIL_ROWS);
        (first..end.rows.len()).for_each(|number| row(&mut out, &end, number, RowForm::Folded));
        Ok(Json(json!({"ready": false, "rows": out.into_text()})).into_response())
    })
    .await
}

#[derive(Deserialize)]
struct RowRange {
    #[serde(default)]
    from: usize,
    #[serde(default)]
    count: usize,
}

async fn rows(
    State(shared): ViewState,
    Path(key): Path<String>,
    Query(range): Query<RowRange>,
) -> Result<Response, Response> {
    looking(shared, key, move |index, _| {
        let mut out = Html::default();
        let last = range.from.saturating_add(range.count.min(MAX_ROWS)).min(index.rows.len());
        (range.from..last).for_each(|number| row(&mut out, index, number, RowForm::Folded));
        html(out)
    })
    .await
}

async fn one_row(
    State(shared): ViewState,
    Path((key, number)): Path<(String, usize)>,
) -> Result<Response, Response> {
    looking(shared, key, move |index, _| {
        let mut out = Html::default();
        detail(&mut out, index, number, RowForm::Folded);
        html(out)
    })
    .await
}

async fn picture(
    State(shared): ViewState,
    Path((key, number, at)): Path<(String, usize, usize)>,
) -> Result<Response, Response> {
    looking(shared, key, move |index, _| {
        let found = picture_source(index, number, at).and_then(|source| match source {
            MediaSource::Base64 { media_type, data } => shown_picture(&media_type, &data),
            _ => None,
        });
        match found {
            Some((kind, bytes)) => {
                ([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], bytes).into_response()
            }
            None => StatusCode::NOT_FOUND.into_response(),
        }
    })
    .await
}

fn picture_source(index: &LogIndex, number: usize, at: usize) -> Option<MediaSource> {
    if let RowContent::Picture(source) = index.content(number) {
        return Some(source);
    }
    let RowKind::Call(call) = index.rows.get(number)?.kind else { return None };
    let result = index.result(index.calls.get(call as usize)?);
    match result.content?.0.into_iter().nth(at)? {
        Block::Image { source } => Some(source),
        _ => None,
    }
}

#[derive(Deserialize)]
struct PaneQuery {
    page: Option<usize>,
}

async fn pane(
    State(shared): ViewState,
    Path((key, pane)): Path<(String, String)>,
    Query(ask): Query<PaneQuery>,
) -> Result<Response, Response> {
    looking(shared, key, move |index, shared| {
        let mut out = Html::default();
        let setting = &shared.setting;
        let title = match pane.as_str() {
            "timeline" => "Timeline",
            "cost" => "Cost and cache",
            "window" => "What filled the window",
            "permission" => "Permission",
            "files" => "Files",
            "agents" => "Agents",
            _ => return StatusCode::NOT_FOUND.into_response(),
        };
        out.raw("<h2 class=\"hidden\">").raw(title).raw("</h2>");
        match pane.as_str() {
            "timeline" => timeline(&mut out, index, ask.page),
            "cost" => cost(&mut out, index),
            "window" => window(&mut out, index),
            "permission" => permissions(&mut out, index),
            "files" => {
                let offer = if setting.allow_undo { UndoOffer::Offered } else { UndoOffer::Told };
                files(&mut out, &JournalChange::all(index, setting.state_dir.as_deref()), offer);
            }
            _ => agents(&mut out, &ShownAgent::all(index, Some(&shared.places))),
        }
        html(out)
    })
    .await
}

#[derive(Deserialize)]
struct SearchQueryParams {
    #[serde(default)]
    q: String,
}

async fn find(
    State(shared): ViewState,
    Path(key): Path<String>,
    Query(words): Query<SearchQueryParams>,
) -> Result<Response, Response> {
    let found = looking(shared, key, move |index, _| search(index, &words.q, 200)).await?;
    let hits = found.map_err(|err| (StatusCode::INTERNAL_SERVER_ERROR, err.to_string()).into_response())?;
    let hits: Vec<Value> = hits.iter().map(|it| json!({"row": it.row, "excerpt": it.excerpt})).collect();
    Ok(Json(json!({"hits": hits})).into_response())
}

/// What a page has seen of a log, from earlier events.
#[derive(Deserialize)]
struct FollowQuery {
    reading: Option<u64>,
    changes: Option<usize>,
}

/// Streams changes of a log to a page as server-sent events.
async fn follow(
    State(shared): ViewState,
    Path(key): Path<String>,
    Query(ask): Query<FollowQuery>,
) -> Result<Response, Response> {
    let opening = Arc::clone(&shared);
    let named = key.clone();
    let index = waiting(move || opening.index(&named)).await?;
    let mut known = mark(&index);
    known.reading = ask.reading.unwrap_or(known.reading);
    known.changes = ask.changes.unwrap_or(known.changes);
    let follower = shared.follow();
    let stop = shared.stop.clone();
    let news = stream::unfold((index, follower, known, true), move |(index, follower, known, first)| {
        let stop = stop.clone();
        async move {
            let mut waited = 0_u32;
            loop {
                if first || mark(&index) != known {
                    let (line, known) = news_since(&index, known);
                    return Some((Ok::<_, io::Error>(line), (index, follower, known, false)));
                }
                tokio::select! {
                    () = stop.cancelled() => return None,
                    () = tokio::time::sleep(FOLLOW) => (),
                }
                let looked = Arc::clone(&index);
                tokio::task::spawn_blocking(move || extend(&looked)).await.ok()?.ok()?;
                waited += 1;
                // A closed page is only noticed when sending fails, so send something now and then.
                if 50 < waited && mark(&index) == known {
                    return Some((Ok(String::from(": still here\n\n")), (index, follower, known, false)));
                }
            }
        }
    });
    let kind = HeaderValue::from_static("text/event-stream");
    Ok(([(header::CONTENT_TYPE, kind)], Body::from_stream(news)).into_response())
}

fn mark(index: &RwLock<LogIndex>) -> IndexCursor {
    index.read().unwrap_or_else(PoisonError::into_inner).mark()
}

/// Returns the changes since a cursor, and the new cursor.
fn news_since(index: &RwLock<LogIndex>, known: IndexCursor) -> (String, IndexCursor) {
    let index = index.read().unwrap_or_else(PoisonError::into_inner);
    let now = index.mark();
    let news = json!({
        "rows": now.rows, "changed": index.changed_since(known), "reading": now.reading, "changes": now.changes,
    });
    (format!("data: {news}\n\n"), now)
}

#[derive(Deserialize)]
struct UndoQuery {
    entry: String,
}

/// Returns what undoing a change would do, without doing it.
async fn undo_plan(
    State(shared): ViewState,
    Path((key, entry)): Path<(String, String)>,
) -> Result<Response, Response> {
    if !shared.setting.allow_undo {
        return Err((StatusCode::FORBIDDEN, "started without --allow-undo").into_response());
    }
    let told = looking(shared, key, move |index, shared| {
        let (workspace, target) = undoable(index, shared, &entry)?;
        let plan = workspace.undo_plan(&target).map_err(|err| err.to_string())?;
        let steps: Vec<Value> = plan
            .steps
            .iter()
            .map(|it| json!({"path": it.path.to_string_lossy(), "what": it.what.words()}))
            .collect();
        Ok(json!({"steps": steps, "conflicts": conflicts(&plan.conflicts)}))
    })
    .await?;
    Ok(told_or_why(told))
}

/// Returns the session's workspace and the change to undo.
fn undoable(index: &LogIndex, shared: &ViewerState, entry: &str) -> Result<(Workspace, UndoTarget), String> {
    let dir = shared.setting.state_dir.as_deref();
    let known = JournalChange::all(index, dir);
    if !known.iter().any(|it| it.id == entry && it.can_undo) {
        return Err(String::from("this session has no such change in effect"));
    }
    let workspace = dir.and_then(|dir| workspace(index, dir)).ok_or("there is no record of changes")?;
    Ok((workspace, UndoTarget::Entry(EntryId::new(entry))))
}

fn conflicts(all: &[Conflict]) -> Vec<Value> {
    all.iter().map(|it| json!({"path": it.path.to_string_lossy(), "reason": it.reason})).collect()
}

fn told_or_why(told: Result<Value, String>) -> Response {
    match told {
        Ok(told) => Json(told).into_response(),
        Err(why) => (StatusCode::CONFLICT, why).into_response(),
    }
}

async fn undo(
    State(shared): ViewState,
    Path(key): Path<String>,
    Json(ask): Json<UndoQuery>,
) -> Result<Response, Response> {
    if !shared.setting.allow_undo {
        return Err((StatusCode::FORBIDDEN, "started without --allow-undo").into_response());
    }
    let told = looking(shared, key, move |index, shared| {
        let (workspace, target) = undoable(index, shared, &ask.entry)?;
        let origin = ChangeOrigin {
            session: None,
            turn: None,
            call: CallId::from(format!("view-{}", uuid::Uuid::new_v4().simple())),
            tool: String::from("undo"),
        };
        let report = workspace.undo(&target, &origin).map_err(|err| err.to_string())?;
        let conflicts = conflicts(&report.conflicts);
        let restored: Vec<_> = report.restored.iter().map(|it| it.to_string_lossy()).collect();
        Ok(json!({"restored": restored, "conflicts": conflicts, "commits": report.commits}))
    })
    .await?;
    Ok(told_or_why(told))
}
