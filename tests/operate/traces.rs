//! Placements as traces of OpenTelemetry: spans that a collector receives, and the service without
//! a collector.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::harness::shim::{Shim, hello};
use crate::harness::{PATIENCE, Rm, Service, ask, node, old_ask};
use monoceros_proto::v1 as cb;

/// A collector that stores its spans.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for resource in request.into_inner().resource_spans {
            let named = resource
                .resource
                .unwrap()
                .attributes
                .into_iter()
                .find(|it| it.key == "service.name");
            let name = named.unwrap().value.unwrap().value;
            assert_eq!(name, Some(Value::StringValue("monoceros".to_owned())));
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.0.lock().unwrap().extend(spans);
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Starts to listen.
    async fn at(address: &str) -> (Self, SocketAddr) {
        let collector = Self::default();
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::builder().add_service(TraceServiceServer::new(collector.clone()));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        (collector, address)
    }

    /// Waits for this many spans, and returns them.
    async fn until(&self, spans: usize) -> Vec<Span> {
        let come = async {
            while self.0.lock().unwrap().len() < spans {
                sleep(Duration::from_millis(10)).await;
            }
        };
        let in_time = timeout(PATIENCE, come).await.is_ok();
        let found = self.0.lock().unwrap().clone();
        assert!(in_time, "{found:#?}");
        found
    }
}

/// A service that traces everything, with a short interval.
fn traced(address: SocketAddr, interval: &str) -> Service {
    let endpoint = format!("http://{address}");
    Service::start_with(&[
        ("TRACES__ENDPOINT", &endpoint),
        ("TRACES__RATIO", "1"),
        ("TRACES__INTERVAL", interval),
    ])
}

/// A resource manager with a node and an application.
async fn with_application(service: &Service) -> Rm {
    let rm = Rm::register(service, "rm").await.with_nodes(&["n1"]).await;
    rm.with_application("app", "root.a").await
}

/// Returns the names of spans and their parents. The root's parent is empty. All are of one trace.
fn tree(spans: &[Span]) -> Vec<(String, String)> {
    let names: BTreeMap<_, _> =
        spans.iter().map(|it| (it.span_id.clone(), it.name.clone())).collect();
    let parent = |span: &Span| names.get(&span.parent_span_id).cloned().unwrap_or_default();
    let mut tree: Vec<_> = spans.iter().map(|span| (parent(span), span.name.clone())).collect();
    tree.sort();
    assert!(spans.iter().all(|span| span.trace_id == spans[0].trace_id), "{spans:#?}");
    tree
}

/// Parses `name -> parent`.
fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(parent, name)| ((*parent).to_owned(), (*name).to_owned())).collect()
}

fn texts(span: &Span) -> BTreeMap<&str, String> {
    let text = |value: &Value| match value {
        Value::StringValue(text) => text.clone(),
        Value::BoolValue(truth) => truth.to_string(),
        other => panic!("{other:?}"),
    };
    let pair = |it: &'_ opentelemetry_proto::tonic::common::v1::KeyValue| {
        text(it.value.as_ref().unwrap().value.as_ref().unwrap())
    };
    span.attributes.iter().map(|it| (&*it.key, pair(it))).collect()
}

fn named<'s>(spans: &'s [Span], name: &str) -> &'s Span {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no `{name}`: {spans:#?}"))
}

#[tokio::test]
async fn a_placement_is_a_trace() {
    let (collector, address) = Collector::at("127.0.0.1:0").await;
    let service = traced(address, "0.05");
    let rm = with_application(&service).await;
    rm.send_allocations(vec![], vec![ask("app", "k")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
    let spans = collector.until(6).await;
    let expected = [
        ("", "placement"),
        ("decide", "node"),
        ("placement", "decide"),
        ("placement", "receive"),
        ("placement", "tell"),
        ("placement", "wait"),
    ];
    assert_eq!(tree(&spans), pairs(&expected));

    // Each part begins where the previous one ends, and together they cover the whole.
    let times = |name| {
        let span = named(&spans, name);
        (span.start_time_unix_nano, span.end_time_unix_nano)
    };
    let (whole, receive, wait) = (times("placement"), times("receive"), times("wait"));
    let (decide, node, tell) = (times("decide"), times("node"), times("tell"));
    assert_eq!((whole.0, receive.1, wait.1, decide.1), (receive.0, wait.0, decide.0, tell.0));
    assert_eq!(whole.1, tell.1);
    assert!(decide.0 <= node.0 && node.1 == decide.1, "{decide:?} {node:?}");
    assert!(
        whole.0 < whole.1
            && spans.iter().all(|it| it.start_time_unix_nano <= it.end_time_unix_nano)
    );

    let attributes = texts(named(&spans, "placement"));
    for (key, value) in [
        ("monoceros.rm", "rm"),
        ("monoceros.partition", "[rm]default"),
        ("monoceros.queue", "root.a"),
        ("monoceros.application", "app"),
        ("monoceros.user", "alice"),
        ("monoceros.allocation_key", "k"),
        ("monoceros.node", "n1"),
        ("monoceros.placeholder", "false"),
        ("monoceros.told", "true"),
    ] {
        assert_eq!(attributes.get(key).map(String::as_str), Some(value), "{key}");
    }
    let id = &attributes["monoceros.placement"];
    assert!(id.split('.').all(|part| part.parse::<u32>().is_ok()), "{id}");
    assert_eq!(texts(named(&spans, "node"))["monoceros.node"], "n1");
    service.until_counted("monoceros_traces_total{outcome=\"told\"}", 1).await;
    service.until_counted("monoceros_trace_spans_total{outcome=\"exported\"}", 6).await;
}

#[tokio::test]
async fn each_placement_continues_its_senders_trace() {
    let (collector, address) = Collector::at("127.0.0.1:0").await;
    let endpoint = format!("http://{address}");
    // No sampling by chance.
    let settings =
        [("TRACES__ENDPOINT", &*endpoint), ("TRACES__RATIO", "0"), ("TRACES__INTERVAL", "0.05")];
    let service = Service::start_with(&settings);
    let rm = with_application(&service).await;
    let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let tagged = |key: &str, n, flags: &str| {
        let mut ask = old_ask("app", key, n);
        ask.tags.insert("traceparent".to_owned(), format!("00-{trace}-{span}-{flags}"));
        ask
    };
    rm.send_allocations(
        vec![old_ask("app", "untagged", 1), tagged("unsampled", 1, "00"), tagged("k", 2, "01")],
        vec![],
        vec![],
    )
    .await;
    rm.until("placed", |seen| seen.new.len() == 4).await;
    let spans = collector.until(12).await;
    sleep(Duration::from_millis(200)).await;
    assert_eq!(collector.0.lock().unwrap().len(), 12, "nothing else was traced");
    let hex =
        |bytes: &[u8]| bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    assert!(spans.iter().all(|it| hex(&it.trace_id) == trace));
    let roots: Vec<_> = spans.iter().filter(|it| it.name == "placement").collect();
    assert_eq!(roots.len(), 2);
    for root in roots {
        assert_eq!(hex(&root.parent_span_id), span);
        assert_eq!(texts(root)["monoceros.allocation_key"], "k");
        let parts = spans.iter().filter(|it| it.parent_span_id == root.span_id);
        assert_eq!(parts.count(), 4);
    }
}

#[tokio::test]
async fn predicates_are_a_span() {
    let (collector, address) = Collector::at("127.0.0.1:0").await;
    let service = traced(address, "0.05");
    let rm = with_application(&service).await;
    let mut shim = Shim::attach(&service, hello("rm", &[cb::Capability::Predicates])).await;
    shim.welcome().await;
    rm.send_allocations(vec![], vec![ask("app", "k")], vec![]).await;
    let batch = shim.batch().await;
    shim.pass(&batch, |_| cb::Scope::Node).await;
    let spans = collector.until(6).await;
    let expected = [
        ("", "placement"),
        ("decide", "predicate"),
        ("placement", "decide"),
        ("placement", "receive"),
        ("placement", "tell"),
        ("placement", "wait"),
    ];
    assert_eq!(tree(&spans), pairs(&expected));
    let asked = named(&spans, "predicate");
    assert!(asked.start_time_unix_nano < asked.end_time_unix_nano);
}

#[tokio::test]
async fn a_missing_collector_costs_only_its_traces() {
    // A free port without a listener.
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let service = traced(address, "0.05");
    let rm = with_application(&service).await;
    rm.send_nodes(vec![node("large", 1_000_000, 1_000)]).await;
    let warning = "traces cannot be exported";
    for round in 0..5 {
        let asks = (0..2).map(|n| ask("app", &format!("k{round}-{n}"))).collect();
        rm.send_allocations(vec![], asks, vec![]).await;
        rm.until("placed", |seen| seen.new.len() == 2 * (round + 1)).await;
        service
            .until_counted(
                "monoceros_trace_spans_total{outcome=\"failed\"}",
                12 * (u64::try_from(round).unwrap() + 1),
            )
            .await;
    }
    service.until_logged(warning, 1).await;
    let (collector, _) = Collector::at(&address.to_string()).await;
    // The connection is retried with a later export.
    let again = async {
        let mut n = 0;
        while collector.0.lock().unwrap().is_empty() {
            rm.send_allocations(vec![], vec![ask("app", &format!("late-{n}"))], vec![]).await;
            let release = crate::harness::release("app", &format!("late-{n}"));
            rm.send_allocations(vec![], vec![], vec![release]).await;
            n += 1;
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, again).await.unwrap();
    service.until_logged("traces are exported again", 1).await;
    assert_eq!(service.log().matches(warning).count(), 1, "{}", service.log());
}

#[tokio::test]
async fn queued_spans_are_exported_before_the_end() {
    let (collector, address) = Collector::at("127.0.0.1:0").await;
    let mut service = traced(address, "1h");
    let rm = with_application(&service).await;
    rm.send_allocations(vec![], vec![ask("app", "k")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
    assert_eq!(collector.0.lock().unwrap().len(), 0);
    service.terminate();
    assert!(service.wait(PATIENCE).await.success());
    assert_eq!(collector.until(6).await.len(), 6);
}

#[tokio::test]
async fn nothing_is_connected_unless_a_setting_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    // The variable of other programs, which has no effect here.
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_monoceros"));
    command.args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint).env("MONOCEROS__TRACES__RATIO", "1");
    let service = Service::start_by(command);
    let rm = with_application(&service).await;
    rm.send_allocations(vec![], vec![ask("app", "k")], vec![]).await;
    rm.until("placed", |seen| seen.new.len() == 1).await;
    let connected = timeout(Duration::from_millis(300), listener.accept()).await;
    assert!(connected.is_err(), "{connected:?}");
    assert_eq!(service.counted("monoceros_traces_total{outcome=\"told\"}").await, 0);
}
