//! The JSON bodies of OTLP.

use std::time::{SystemTime, UNIX_EPOCH};

use haft_agent::CacheMiss;
use serde_json::{Value, json};

use super::spans::{Span, SpanKind, SpannedRun};

pub(super) fn resource(service: &str) -> Value {
    json!({"attributes": attributes(&[
        ("service.name", json!(service)),
        ("service.version", json!(env!("CARGO_PKG_VERSION"))),
    ])})
}

fn scope() -> Value {
    json!({"name": "haft", "version": env!("CARGO_PKG_VERSION")})
}

pub(super) fn traces(resource: &Value, run: &SpannedRun) -> Value {
    let spans: Vec<Value> = run.spans.iter().map(|span| of_span(span, &run.trace)).collect();
    json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope(), "spans": spans}]}]})
}

fn of_span(span: &Span, trace: &str) -> Value {
    let mut all = attributes(&span.attributes);
    if let (Some(error), Value::Array(list)) = (&span.error, &mut all) {
        list.push(json!({"key": "error.type", "value": {"stringValue": error}}));
    }
    let mut out = json!({
        "traceId": trace, "spanId": span.id, "name": span.name,
        // Span kinds of OTLP: 3 is client, 1 is internal.
        "kind": if span.kind == SpanKind::Chat { 3 } else { 1 },
        "startTimeUnixNano": nanos(span.start), "endTimeUnixNano": nanos(span.end), "attributes": all,
        "status": match &span.error {
            Some(error) => json!({"code": 2, "message": error}),
            None => json!({"code": 1}),
        },
    });
    if let Some(parent) = &span.parent {
        out["parentSpanId"] = json!(parent);
    }
    out
}

/// Token usage and durations of a run, as histograms.
pub(super) fn metrics(resource: &Value, run: &SpannedRun) -> Value {
    let (mut tokens, mut durations) = (Vec::new(), Vec::new());
    for span in run.spans.iter().filter(|span| span.kind != SpanKind::Phase) {
        let seconds = span.end.duration_since(span.start).unwrap_or_default().as_secs_f64();
        let wanted =
            ["gen_ai.operation.name", "gen_ai.request.model", "gen_ai.tool.name", "gen_ai.provider.name"];
        let labels: Vec<(&'static str, Value)> =
            span.attributes.iter().filter(|(name, _)| wanted.contains(name)).cloned().collect();
        durations.push(point(&labels, seconds, span, &DURATIONS));
        if span.kind != SpanKind::Chat {
            continue;
        }
        for (kind, field) in
            [("input", "gen_ai.usage.input_tokens"), ("output", "gen_ai.usage.output_tokens")]
        {
            let count = span.attributes.iter().find(|(name, _)| *name == field);
            let count = count.and_then(|(_, value)| value.as_f64()).unwrap_or_default();
            let mut labels = labels.clone();
            labels.push(("gen_ai.token.type", json!(kind)));
            tokens.push(point(&labels, count, span, &TOKENS));
        }
    }
    let histogram = |name: &str, unit: &str, points: Vec<Value>| json!({"name": name, "unit": unit, "histogram": {"aggregationTemporality": 1, "dataPoints": points}});
    let list = [
        histogram("gen_ai.client.token.usage", "{token}", tokens),
        histogram("gen_ai.client.operation.duration", "s", durations),
    ];
    json!({"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"scope": scope(), "metrics": list}]}]})
}

/// Bucket bounds recommended by the conventions.
const DURATIONS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

fn point(labels: &[(&'static str, Value)], value: f64, span: &Span, bounds: &[f64; 14]) -> Value {
    let bucket = bounds.iter().position(|bound| value <= *bound).unwrap_or(bounds.len());
    let counts: Vec<String> = (0..=bounds.len()).map(|at| u8::from(at == bucket).to_string()).collect();
    json!({
        "attributes": attributes(labels), "startTimeUnixNano": nanos(span.start),
        "timeUnixNano": nanos(span.end), "count": "1", "sum": value, "bucketCounts": counts,
        "explicitBounds": bounds,
    })
}

/// Log records: one per call, per cache miss, and for the run.
pub(super) fn logs(resource: &Value, run: &SpannedRun) -> Value {
    let mut lines: Vec<Value> = run
        .spans
        .iter()
        .filter(|span| matches!(span.kind, SpanKind::Agent | SpanKind::Tool))
        .map(|span| {
            let name = if span.kind == SpanKind::Tool { "haft.tool_result" } else { "haft.run_end" };
            // Severity numbers of OTLP: 17 is error, 9 is info.
            json!({
                "timeUnixNano": nanos(span.end), "severityNumber": if span.error.is_some() { 17 } else { 9 },
                "eventName": name, "body": {"stringValue": span.name}, "traceId": run.trace, "spanId": span.id,
                "attributes": attributes(&span.attributes),
            })
        })
        .collect();
    lines.extend(run.busts.iter().map(|(at, bust)| lost_cache(*at, bust, run)));
    json!({"resourceLogs": [{"resource": resource, "scopeLogs": [{"scope": scope(), "logRecords": lines}]}]})
}

/// The log record of a prompt cache miss.
fn lost_cache(at: SystemTime, bust: &CacheMiss, run: &SpannedRun) -> Value {
    let facts = [
        ("gen_ai.conversation.id", json!(run.info.session)),
        ("haft.request", json!(bust.request)),
        ("haft.cache.cause", json!(bust.cause.word())),
        ("haft.cache.detail", json!(bust.detail)),
        ("haft.cache.tokens", json!(bust.tokens)),
    ];
    // Severity 13 is warning.
    json!({
        "timeUnixNano": nanos(at), "severityNumber": 13, "eventName": "haft.cache_bust",
        "body": {"stringValue": bust.detail}, "traceId": run.trace, "attributes": attributes(&facts),
    })
}

fn attributes(list: &[(&'static str, Value)]) -> Value {
    let one = |(name, value): &(&'static str, Value)| json!({"key": name, "value": any_value(value)});
    Value::Array(list.iter().map(one).collect())
}

fn any_value(value: &Value) -> Value {
    match value {
        Value::String(text) => json!({"stringValue": text}),
        Value::Bool(flag) => json!({"boolValue": flag}),
        // OTLP JSON encodes integers as strings.
        Value::Number(number) if number.is_f64() => json!({"doubleValue": number}),
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::Array(items) => {
            json!({"arrayValue": {"values": items.iter().map(any_value).collect::<Vec<_>>()}})
        }
        Value::Null | Value::Object(_) => json!({"stringValue": value.to_string()}),
    }
}

fn nanos(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}
