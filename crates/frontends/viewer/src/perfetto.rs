//! Exports a session as a trace for Perfetto and Chrome.

use serde_json::{Value, json};

use crate::{
    log_index::LogIndex,
    row_content::RowContent,
    timeline::{spans, stages},
};

/// Returns the trace: a span for every call and each of its stages, in lanes.
pub fn trace(index: &LogIndex) -> Value {
    let mut events = vec![json!({
        "name": "process_name", "ph": "M", "pid": 1, "args": {"name": index.name()},
    })];
    for span in spans(index) {
        let call = span.call;
        let input = match index.content(call.row) {
            RowContent::Call(input) => input,
            _ => Value::Null,
        };
        let whole = json!({
            "name": call.tool, "cat": "call", "ph": "X", "pid": 1, "tid": span.lane, "ts": span.start,
            "dur": span.length, "args": {"id": call.id, "failed": call.failed, "input": input},
        });
        events.push(whole);
        let mut at = span.start;
        for (name, micros) in stages(&span.stages) {
            if 0 < micros {
                events.push(json!({
                    "name": name, "cat": "stage", "ph": "X", "pid": 1, "tid": span.lane, "ts": at, "dur": micros,
                }));
            }
            at = at.saturating_add_unsigned(micros);
        }
    }
    json!({"traceEvents": events, "displayTimeUnit": "ms"})
}
