//! Export to the collector by OTLP over gRPC. The span queue and the sending thread are those of
//! the OpenTelemetry SDK; this file configures target and limits, and reports failures.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use monoceros_actors::PlacementTrace;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{
    SpanExporter as OtlpExporter, WithExportConfig as _, WithTonicConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider, SpanData, SpanExporter,
};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tracing::{info, warn};

use super::{Counts, spans};
use crate::cli::BUILD;
use crate::settings::TraceSettings;

/// Most spans of one message.
const BATCH: usize = 512;

/// The connection to the collector.
#[derive(Debug)]
pub(super) struct Export {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

impl Export {
    pub(super) fn start(
        endpoint: &str,
        settings: &TraceSettings,
        counts: &Counts,
    ) -> anyhow::Result<Self> {
        let channel = channel(endpoint, settings.ca.as_deref(), settings.timeout)?;
        let inner = OtlpExporter::builder()
            .with_tonic()
            .with_channel(channel)
            .with_timeout(settings.timeout)
            .build()?;
        let (is_failing, endpoint) = (AtomicBool::new(false), endpoint.to_owned());
        let exporter = Watched { inner, endpoint, is_failing, counts: Arc::clone(counts) };
        let queue = settings.queue.get();
        let bounds = BatchConfigBuilder::default()
            .with_max_queue_size(queue)
            .with_max_export_batch_size(queue.min(BATCH))
            .with_scheduled_delay(settings.interval)
            .build();
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(bounds).build();
        let resource = Resource::builder()
            .with_service_name("monoceros")
            .with_attribute(KeyValue::new("service.version", BUILD.version))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_resource(resource)
            .build();
        let tracer = provider.tracer("monoceros");
        Ok(Self { provider, tracer })
    }

    /// Queues the spans of a placement; they are lost if the queue is full.
    pub(super) fn emit(&self, trace: &PlacementTrace, sent_ns: Option<i64>) {
        spans::emit(&self.tracer, trace, sent_ns);
    }

    /// Exports the remaining spans within `patience`. Blocks.
    pub(super) fn end(&self, patience: Duration) {
        if let Err(error) = self.provider.shutdown_with_timeout(patience) {
            warn!(%error, "the last traces were not exported");
        }
    }
}

/// A channel that connects on first use, and reconnects when needed.
fn channel(endpoint: &str, ca: Option<&Path>, timeout: Duration) -> anyhow::Result<Channel> {
    let mut to = Endpoint::from_shared(endpoint.to_owned())
        .with_context(|| format!("`traces.endpoint`: `{endpoint}`"))?
        .connect_timeout(timeout)
        .timeout(timeout);
    if let Some(ca) = ca {
        let read = std::fs::read(ca).with_context(|| format!("`traces.ca`: `{}`", ca.display()))?;
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read));
        to = to.tls_config(tls).context("`traces.ca`")?;
    }
    Ok(to.connect_lazy())
}

/// Exports and counts spans; logs once when exporting starts to fail, and once when it works again.
#[derive(Debug)]
struct Watched {
    inner: OtlpExporter,
    endpoint: String,
    is_failing: AtomicBool,
    counts: Counts,
}

impl SpanExporter for Watched {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len() as u64;
        let outcome = self.inner.export(batch).await;
        if let Some(counts) = self.counts.get() {
            counts.exported(spans, outcome.is_ok());
        }
        let was_failing = self.is_failing.swap(outcome.is_err(), Ordering::Relaxed);
        let endpoint = &*self.endpoint;
        match &outcome {
            Err(error) if !was_failing => {
                warn!(endpoint, %error, "traces cannot be exported, and are lost until they can");
            }
            Ok(()) if was_failing => info!(endpoint, "traces are exported again"),
            _ => {}
        }
        outcome
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}
