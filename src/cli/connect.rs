//! The connection of a command to the admin and metrics services of a running scheduler.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status};

use super::output::WrongLine;
use crate::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use crate::grpc::stubs::v1::metrics_service_client::MetricsServiceClient;
use crate::input;
use crate::logging::clean;

/// Time limit for a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Largest answer in bytes: pages and trees of a large cluster.
const MESSAGE_BYTES: usize = 256 << 20;

/// Advice when no answer came.
const TLS_HINT: &str = "if the scheduler speaks TLS, give --ca, and only then; if it asks for client \
                        certificates, give --cert and --key";

/// Advice when something answered that may be no scheduler.
const ADDRESS_HINT: &str = "say where the gRPC port of the scheduler is with --grpc HOST:PORT or \
                            MONOCEROS_GRPC";

/// The end of the message about an answer that is neither HTTP/2 nor a part of TLS.
const NO_FRAME: &str = "frame with invalid size";

/// Default address of a scheduler.
const DEFAULT_GRPC: &str = "127.0.0.1:50051";

/// The variable with the address of the scheduler. A flag overrides it.
pub(crate) const GRPC_VARIABLE: &str = "MONOCEROS_GRPC";

const DEFAULT_PARTITION: &str = "default";

/// The flags of [`ConnectArgs`].
pub(super) const IDS: [&str; 7] = ["grpc", "rm", "partition", "token", "ca", "cert", "key"];

/// Where a scheduler is, how to speak to it, and what is meant there. The flags may stand anywhere
/// on the line, so clap cannot look whether they go together.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Which scheduler")]
pub(crate) struct ConnectArgs {
    /// Where the scheduler listens for gRPC [default: $MONOCEROS_GRPC, else 127.0.0.1:50051]
    #[arg(long, global = true, value_name = "HOST:PORT")]
    pub(super) grpc: Option<String>,
    /// The resource manager that is meant, where there are several
    #[arg(long, global = true, value_name = "ID")]
    pub(super) rm: Option<String>,
    /// The partition that is meant [default: default]
    #[arg(long, global = true, value_name = "NAME")]
    pub(super) partition: Option<String>,
    /// A file whose text is the bearer token to show
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) token: Option<PathBuf>,
    /// Speak TLS, and trust the certificates in this file (PEM)
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// The client certificate to show (PEM); needs --ca and --key
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) cert: Option<PathBuf>,
    /// Its private key (PEM); needs --cert
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) key: Option<PathBuf>,
}

impl ConnectArgs {
    /// Returns the names in [`IDS`] of the flags that were given.
    pub(super) fn given(&self) -> Vec<&'static str> {
        let Self { grpc, rm, partition, token, ca, cert, key } = self;
        let given = [
            grpc.is_some(),
            rm.is_some(),
            partition.is_some(),
            token.is_some(),
            ca.is_some(),
            cert.is_some(),
            key.is_some(),
        ];
        IDS.into_iter().zip(given).filter_map(|(id, is_given)| is_given.then_some(id)).collect()
    }

    /// Returns the selected resource manager. Empty: the only one.
    pub(super) fn rm(&self) -> String {
        self.rm.clone().unwrap_or_default()
    }

    pub(super) fn partition(&self) -> String {
        self.partition.clone().unwrap_or_else(|| DEFAULT_PARTITION.to_owned())
    }

    /// Returns the address, and the name of its source.
    fn address(&self) -> (String, &'static str) {
        let variable = || std::env::var(GRPC_VARIABLE).ok().filter(|it| !it.is_empty());
        match &self.grpc {
            // Browsers show addresses with this prefix.
            Some(address) => {
                (address.strip_prefix("http://").unwrap_or(address).to_owned(), "--grpc")
            }
            None => match variable() {
                Some(address) => (address, GRPC_VARIABLE),
                None => (DEFAULT_GRPC.to_owned(), "the default"),
            },
        }
    }

    /// Checks what clap cannot check.
    fn check(&self) -> anyhow::Result<()> {
        let wrong = |text: &str| Err(WrongLine(text.to_owned()).into());
        match (&self.ca, &self.cert, &self.key) {
            (_, Some(_), None) => wrong("--cert needs --key, the private key of it"),
            (_, None, Some(_)) => wrong("--key needs --cert, the certificate it is of"),
            (None, Some(_), Some(_)) => {
                wrong("--cert needs --ca: a certificate is shown inside TLS only")
            }
            _ => Ok(()),
        }
    }
}

/// Runs a command. Turns a refusal of the scheduler into an error with its reason.
pub(super) fn run<T>(
    args: &ConnectArgs,
    command: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(command).map_err(|error| match error.downcast::<Status>() {
        Ok(status) => refusal(args, &status),
        Err(other) => other,
    })
}

fn refusal(args: &ConnectArgs, status: &Status) -> anyhow::Error {
    // Only a status that was made on this side has a source.
    if let Some(error) = status.source() {
        let (address, said_by) = args.address();
        let cause = last_cause(error);
        let hint = no_answer_hint(args.ca.is_some(), &cause);
        return anyhow::anyhow!(
            "{address} ({said_by}) does not answer as a scheduler does: {cause}\n{hint}"
        );
    }
    let reason = status.metadata().get(crate::grpc::REASON_TRAILER);
    let reason = reason.and_then(|reason| reason.to_str().ok());
    let reason = reason.map_or_else(|| format!("{:?}", status.code()), str::to_owned);
    anyhow::anyhow!("{} [{}]", clean(status.message()), clean(&reason))
}

/// Returns the last message of a chain of causes: those before it say that something failed in
/// transport.
fn last_cause(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    clean(&last.to_string()).into_owned()
}

/// Returns what to do about an answer that is not one of a scheduler. Without TLS on this side, a
/// port that speaks TLS closes the connection, and another one answers in its own protocol.
fn no_answer_hint(has_tls: bool, cause: &str) -> String {
    if has_tls {
        TLS_HINT.to_owned()
    } else if cause.contains(NO_FRAME) {
        ADDRESS_HINT.to_owned()
    } else {
        format!("{ADDRESS_HINT}; if it speaks TLS there, give --ca")
    }
}

/// Adds the token to every call.
#[derive(Clone)]
pub(super) struct Bearer(Option<AsciiMetadataValue>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

/// A channel that identifies the caller.
pub(super) type AdminChannel = InterceptedService<Channel, Bearer>;

pub(super) async fn connect(args: &ConnectArgs) -> anyhow::Result<AdminChannel> {
    let (address, said_by) = args.address();
    let endpoint = endpoint(args, &address, said_by)?;
    if endpoint.uri().port().is_none() {
        anyhow::bail!("`{}` ({said_by}) is not HOST:PORT", clean(&address));
    }
    let token = authorization(args)?;
    let channel = endpoint.connect().await;
    let channel = channel.map_err(|error| unreachable(&address, said_by, &error.into()))?;
    Ok(InterceptedService::new(channel, Bearer(token)))
}

/// Describes a failed connection: what was tried, and what to do.
fn unreachable(address: &str, said_by: &str, error: &anyhow::Error) -> anyhow::Error {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
    match io.map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => anyhow::anyhow!(
            "nothing listens on {address} ({said_by}): start the scheduler, or say where it is with \
             --grpc HOST:PORT or {GRPC_VARIABLE}"
        ),
        // The handshake failed: rustls reports it as data that it cannot read.
        Some(io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => {
            anyhow::anyhow!("cannot connect to {address} ({said_by}): {error:#}\n{TLS_HINT}")
        }
        _ => anyhow::anyhow!(
            "cannot connect to {address} ({said_by}): {}\n{ADDRESS_HINT}",
            clean(&error.root_cause().to_string())
        ),
    }
}

/// Returns the endpoint of `address`, which `said_by` set.
pub(super) fn endpoint(
    args: &ConnectArgs,
    address: &str,
    said_by: &str,
) -> anyhow::Result<Endpoint> {
    args.check()?;
    let scheme = if args.ca.is_some() { "https" } else { "http" };
    let endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))
        .ok()
        .with_context(|| format!("`{}` ({said_by}) is not HOST:PORT", clean(address)))?
        .connect_timeout(PATIENCE)
        // A service that stands still accepts connections and calls, and answers neither.
        .http2_keep_alive_interval(PATIENCE / 2)
        .keep_alive_timeout(PATIENCE / 2)
        .keep_alive_while_idle(true);
    match tls(args)? {
        Some(tls) => endpoint.tls_config(tls).context("TLS"),
        None => Ok(endpoint),
    }
}

/// Returns the TLS that the flags ask for.
pub(super) fn tls(args: &ConnectArgs) -> anyhow::Result<Option<ClientTlsConfig>> {
    let Some(ca) = &args.ca else { return Ok(None) };
    let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem(ca)?));
    if let (Some(cert), Some(key)) = (&args.cert, &args.key) {
        tls = tls.identity(Identity::from_pem(pem(cert)?, pem(key)?));
    }
    Ok(Some(tls))
}

/// Returns the value of the `authorization` header.
pub(super) fn authorization(args: &ConnectArgs) -> anyhow::Result<Option<AsciiMetadataValue>> {
    args.token.as_deref().map(bearer).transpose()
}

pub(super) fn admin(connection: &AdminChannel) -> AdminServiceClient<AdminChannel> {
    AdminServiceClient::new(connection.clone()).max_decoding_message_size(MESSAGE_BYTES)
}

pub(super) fn metrics(connection: &AdminChannel) -> MetricsServiceClient<AdminChannel> {
    MetricsServiceClient::new(connection.clone()).max_decoding_message_size(MESSAGE_BYTES)
}

fn pem(path: &Path) -> anyhow::Result<String> {
    Ok(input::read_text(path)?)
}

fn bearer(path: &Path) -> anyhow::Result<AsciiMetadataValue> {
    let token = input::read_text(path)?;
    let mut value = AsciiMetadataValue::try_from(format!("Bearer {}", token.trim()))
        .with_context(|| format!("`{}` is not a token", path.display()))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_another_protocol_has_no_advice_about_tls() {
        let other = no_answer_hint(false, "connection error detected: frame with invalid size");
        assert_eq!(other, ADDRESS_HINT);
        let closed = no_answer_hint(false, "connection reset by peer");
        assert!(closed.starts_with(ADDRESS_HINT) && closed.ends_with("give --ca"), "{closed}");
        assert_eq!(no_answer_hint(true, "connection reset by peer"), TLS_HINT);
    }

    #[test]
    fn the_last_cause_of_a_failed_call_is_shown() {
        let inner = io::Error::other("the last");
        let outer = io::Error::other(anyhow::Error::new(inner).context("the first"));
        assert_eq!(last_cause(&outer), "the last");
    }

    #[test]
    fn an_unknown_host_has_advice() {
        let error = anyhow::Error::new(io::Error::other("no such host")).context("transport");
        let text = unreachable("nohost:1", "--grpc", &error).to_string();
        assert!(text.starts_with("cannot connect to nohost:1 (--grpc): no such host\n"), "{text}");
        assert!(text.ends_with(ADDRESS_HINT), "{text}");
    }
}
