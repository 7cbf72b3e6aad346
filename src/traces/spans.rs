//! The spans of one placement.
//!
//! ```text
//! placement            ├──────────────────────────────────────┤   the whole placement
//!   receive            ├───┤                                      from reading the request to its partition
//!   wait                   ├─────────────┤                        until its turn in the order of queues
//!   decide                               ├─────────┤              queues, quotas, choice of node
//!     node, predicate                        ├─────┤              the node, or the resource manager's answer
//!   tell                                           ├──────────┤   until the reply is sent
//! ```

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use monoceros_actors::{PlacementTrace, TRACEPARENT};
use opentelemetry::trace::{Span as _, SpanKind, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue, propagation::TextMapPropagator as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracer;

/// Emits the spans of a placement. `sent_ns` is `None` if no reply was sent.
pub(super) fn emit(tracer: &SdkTracer, trace: &PlacementTrace, sent_ns: Option<i64>) {
    let end_ns = sent_ns.unwrap_or(trace.decided_ns);
    let root = tracer
        .span_builder("placement")
        .with_kind(SpanKind::Server)
        .with_start_time(time(trace.received_ns))
        .with_attributes(attributes(trace, sent_ns.is_some()))
        .start_with_context(tracer, &parent(trace));
    let whole = Context::new().with_span(root);
    let part =
        |name: &'static str, within: &Context, from_ns: i64, to_ns: i64, more: Vec<KeyValue>| {
            let mut span = tracer
                .span_builder(name)
                .with_start_time(time(from_ns))
                .with_attributes(more)
                .start_with_context(tracer, within);
            let context = span.span_context().clone();
            span.end_with_timestamp(time(to_ns));
            Context::new().with_remote_span_context(context)
        };
    part("receive", &whole, trace.received_ns, trace.entered_ns, vec![]);
    part("wait", &whole, trace.entered_ns, trace.offered_ns, vec![]);
    let decide = part("decide", &whole, trace.offered_ns, trace.decided_ns, vec![]);
    let asked = if trace.is_asked_rm { "predicate" } else { "node" };
    let node = KeyValue::new("monoceros.node", trace.node.to_string());
    part(asked, &decide, trace.asked_ns, trace.decided_ns, vec![node]);
    if sent_ns.is_some() {
        part("tell", &whole, trace.decided_ns, end_ns, vec![]);
    }
    whole.span().end_with_timestamp(time(end_ns));
}

/// The parent named by the request's sender. Without one, the placement begins a new trace.
fn parent(trace: &PlacementTrace) -> Context {
    let Some(traceparent) = &trace.traceparent else { return Context::new() };
    let carrier = HashMap::from([(TRACEPARENT.to_owned(), traceparent.clone())]);
    TraceContextPropagator::new().extract_with_context(&Context::new(), &carrier)
}

fn attributes(trace: &PlacementTrace, is_sent: bool) -> Vec<KeyValue> {
    let texts = [
        ("monoceros.rm", trace.rm_id.to_string()),
        ("monoceros.partition", trace.partition.to_string()),
        ("monoceros.queue", trace.queue.to_string()),
        ("monoceros.application", trace.application.to_string()),
        ("monoceros.user", trace.user.to_string()),
        ("monoceros.allocation_key", trace.allocation_key.to_string()),
        ("monoceros.allocation_id", trace.allocation_id.to_string()),
        ("monoceros.node", trace.node.to_string()),
        // The name of the placement in logs.
        ("monoceros.placement", trace.placement.clone()),
    ];
    let mut all: Vec<_> = texts.into_iter().map(|(key, value)| KeyValue::new(key, value)).collect();
    all.push(KeyValue::new("monoceros.placeholder", trace.is_placeholder));
    all.push(KeyValue::new("monoceros.told", is_sent));
    all
}

fn time(ns: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(ns).unwrap_or(0))
}
