//! A connection to the admin services of a running scheduler, for the commands that ask it for
//! something or steer it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status};

use crate::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use crate::grpc::stubs::v1::metrics_service_client::MetricsServiceClient;
use crate::input;
use crate::logging::clean;

/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pages and trees of a large cluster.
const MESSAGE_BYTES: usize = 256 << 20;

/// What may help where no answer came.
const TLS_HINT: &str = "if the scheduler speaks TLS, give --ca, and only then; if it asks for client \
                        certificates, give --cert and --key";

/// Where a scheduler is, how to speak to it, and what is meant there.
#[derive(Clone, Debug, Args)]
pub struct ConnectArgs {
    /// Where the scheduler listens for gRPC
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50051")]
    pub grpc: String,
    /// The resource manager that is meant, where there are several
    #[arg(long, value_name = "ID", default_value = "")]
    pub rm: String,
    /// The partition that is meant
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub partition: String,
    /// A file whose text is the bearer token to show
    #[arg(long, value_name = "FILE")]
    pub token: Option<PathBuf>,
    /// Speak TLS, and trust the certificates in this file (PEM)
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// The client certificate to show (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["ca", "key"])]
    pub cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
}

/// Runs a command to its end; what the scheduler refused is an error with its reason.
pub(crate) fn run<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(command).map_err(|error| match error.downcast::<Status>() {
        Ok(status) => refusal(&status),
        Err(other) => other,
    })
}

fn refusal(status: &Status) -> anyhow::Error {
    let reason = status.metadata().get(crate::grpc::REASON_TRAILER);
    let reason = reason.and_then(|reason| reason.to_str().ok());
    let reason = reason.map_or_else(|| format!("{:?}", status.code()), str::to_owned);
    let text = format!("{} [{}]", clean(status.message()), clean(&reason));
    // Only a status that was made on this side has an error behind it.
    match std::error::Error::source(status) {
        Some(error) => anyhow::anyhow!("{text}: {error}\n{TLS_HINT}"),
        None => anyhow::anyhow!(text),
    }
}

/// Shows the token with every call.
#[derive(Clone)]
pub(crate) struct Bearer(Option<AsciiMetadataValue>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

/// A channel to a scheduler that shows who calls.
pub(crate) type AdminChannel = InterceptedService<Channel, Bearer>;

/// Connects to the scheduler.
pub(crate) async fn connect(args: &ConnectArgs) -> anyhow::Result<AdminChannel> {
    let scheme = if args.ca.is_some() { "https" } else { "http" };
    let mut endpoint = Endpoint::from_shared(format!("{scheme}://{}", args.grpc))
        .with_context(|| format!("`{}` is not a HOST:PORT", args.grpc))?
        .connect_timeout(PATIENCE);
    if let Some(ca) = &args.ca {
        let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(bytes(ca)?));
        if let (Some(cert), Some(key)) = (&args.cert, &args.key) {
            tls = tls.identity(Identity::from_pem(bytes(cert)?, bytes(key)?));
        }
        endpoint = endpoint.tls_config(tls).context("TLS")?;
    }
    let token = args.token.as_deref().map(bearer).transpose()?;
    let channel = endpoint.connect().await;
    let channel = channel.map_err(|error| {
        let error = anyhow::Error::new(error);
        anyhow::anyhow!("cannot connect to {}: {error:#}\n{TLS_HINT}", args.grpc)
    })?;
    Ok(InterceptedService::new(channel, Bearer(token)))
}

/// The client of the admin service.
pub(crate) fn admin(connection: &AdminChannel) -> AdminServiceClient<AdminChannel> {
    AdminServiceClient::new(connection.clone()).max_decoding_message_size(MESSAGE_BYTES)
}

/// The client of the metrics service.
pub(crate) fn metrics(connection: &AdminChannel) -> MetricsServiceClient<AdminChannel> {
    MetricsServiceClient::new(connection.clone()).max_decoding_message_size(MESSAGE_BYTES)
}

fn bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))
}

fn bearer(path: &Path) -> anyhow::Result<AsciiMetadataValue> {
    let token = input::read_text(path)?;
    let mut value = AsciiMetadataValue::try_from(format!("Bearer {}", token.trim()))
        .with_context(|| format!("`{}` is not a token", path.display()))?;
    value.set_sensitive(true);
    Ok(value)
}
