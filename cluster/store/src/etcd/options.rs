//! Options of the store in etcd, and the files that they name.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::spawn_blocking;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// Largest file of a certificate, key or password.
const MAX_FILE: u64 = 1024 * 1024;

/// Addresses of etcd, and the means to reach it.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// Addresses: `http://host:port` or `https://host:port`.
    pub endpoints: Vec<String>,
    /// Certificates. Needed for `https`.
    pub tls: Option<TlsFiles>,
    /// User. `None`: a store without users, or one that takes the name in the certificate.
    pub user: Option<User>,
    /// Time after which a request has failed. A [`Driver`](crate::Driver) refuses one that is not
    /// shorter than the lease.
    pub timeout: Duration,
}

/// Files of certificates, in PEM. Each connection reads them again.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Certificates of the authorities that sign those of the servers.
    pub ca: PathBuf,
    /// Own certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Name that the servers' certificates have to prove. `None`: the host of the endpoint.
    pub server_name: Option<String>,
}

/// User of the store.
#[derive(Clone, Debug)]
pub struct User {
    /// Name.
    pub name: String,
    /// File with the password; one newline at its end is left out. Each login reads it again.
    pub password_file: PathBuf,
}

/// The option that cannot be used, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{1}")]
pub struct BadOptions(pub(super) &'static str, pub(super) String);

impl BadOptions {
    /// The option: `endpoints`, `tls` or `password_file`.
    pub fn option(&self) -> &'static str {
        self.0
    }
}

impl EtcdOptions {
    /// Options for endpoints without TLS and users, with requests of 1 s at most.
    pub fn new(endpoints: Vec<String>) -> Self {
        Self { endpoints, tls: None, user: None, timeout: Duration::from_secs(1) }
    }
}

/// Reads files on a thread on which that may take its time.
pub(super) async fn in_background<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    spawn_blocking(read).await.unwrap_or_else(|why| Err(why.to_string()))
}

pub(super) fn tls_config(tls: &TlsFiles) -> Result<ClientTlsConfig, String> {
    let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem(&tls.ca)?));
    if let Some((certificate, key)) = &tls.identity {
        config = config.identity(Identity::from_pem(pem(certificate)?, pem(key)?));
    }
    if let Some(name) = &tls.server_name {
        config = config.domain_name(name.clone());
    }
    Ok(config)
}

/// The password in a file, without a newline at its end.
pub(super) fn password(path: &Path) -> Result<String, String> {
    let found = read(path)?;
    let password = String::from_utf8(found).map_err(|_| "the password is not UTF-8".to_owned())?;
    Ok(password.strip_suffix('\n').unwrap_or(&password).to_owned())
}

/// The contents of a PEM file. Fails if there is no PEM in it, which the TLS library would ignore.
fn pem(path: &Path) -> Result<Vec<u8>, String> {
    let contents = read(path)?;
    let mark = b"-----BEGIN ";
    if contents.windows(mark.len()).any(|window| window == mark) {
        return Ok(contents);
    }
    Err(format!("`{}` has no certificate or key in PEM", path.display()))
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, String> {
    let named = |why: &dyn Display| format!("`{}` cannot be read: {why}", path.display());
    let found = std::fs::metadata(path).map_err(|why| named(&why))?;
    // A read of a pipe or device may never end.
    if !found.is_file() {
        return Err(named(&"it is no file"));
    }
    let size = found.len();
    if size > MAX_FILE {
        return Err(named(&format!("its {size} bytes are more than {MAX_FILE}")));
    }
    std::fs::read(path).map_err(|why| named(&why))
}
