//! Settings of the service: the defaults in `config/monoceros.toml`, which is part of the binary,
//! overridden by a file, then by the environment, then by flags.
//!
//! # Invariants
//! * Every key has its default in that file and nowhere else; [`Settings`] has no `Default`.
//! * A key that is not known is an error that names it, wherever it comes from.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::{Config, Environment, File, FileFormat};
use serde::Deserialize;

/// The commented default file, as shipped.
pub const DEFAULTS: &str = include_str!("../config/monoceros.toml");

/// Environment variables that start with this and two underscores are settings.
const ENVIRONMENT_PREFIX: &str = "MONOCEROS";

/// The settings cannot be used. The text names the source or key at fault.
#[derive(Debug, thiserror::Error)]
#[error("settings: {0}")]
pub struct SettingsError(#[from] config::ConfigError);

/// All settings of `monoceros serve`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The gRPC edge.
    pub grpc: GrpcSettings,
    /// The REST edge.
    pub rest: RestSettings,
    /// The scheduler itself.
    pub scheduler: SchedulerSettings,
    /// What is kept for each registered resource manager.
    pub session: SessionSettings,
    /// The end of the service.
    pub shutdown: ShutdownSettings,
    /// The log.
    pub log: LogSettings,
}

/// Section `grpc`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrpcSettings {
    /// Where to listen; port 0 takes a free one. Default 127.0.0.1:50051.
    pub address: SocketAddr,
    /// Largest request message, in bytes; a larger one ends its stream. Default 64 MiB.
    pub max_recv_message_bytes: NonZeroUsize,
    /// Most items in one response message. More make fewer messages, which clients must hold whole.
    /// Default 1,000.
    pub send_chunk_items: NonZeroUsize,
    /// Most bytes in one response message, unless one item alone is larger. Default 2 MiB: half of
    /// what clients in Go and Python accept.
    pub send_chunk_bytes: NonZeroUsize,
    /// Seconds without traffic after which the peer is asked for a sign of life. Default 20.
    pub keepalive_interval: NonZeroU64,
    /// Seconds that the sign of life may take before the connection is closed. Default 20.
    pub keepalive_timeout: NonZeroU64,
    /// Most streams that are open on one connection at a time. Default 1,024.
    pub max_streams_per_connection: NonZeroU32,
}

/// Section `rest`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestSettings {
    /// Where to listen; port 0 takes a free one. Default 127.0.0.1:9080.
    pub address: SocketAddr,
}

/// Section `scheduler`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulerSettings {
    /// Queue configuration (YAML) of resource managers that bring none. Default: the built-in one.
    pub queues: Option<PathBuf>,
}

/// Section `session`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionSettings {
    /// Most items that wait for a resource manager, per kind of stream. Default 1,000,000. Larger
    /// outlives longer absences and holds more memory.
    pub outbox_items: NonZeroUsize,
    /// Most bytes (as encoded) that wait for it, per kind of stream. Default 256 MiB.
    pub outbox_bytes: NonZeroUsize,
}

/// Section `shutdown`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShutdownSettings {
    /// Seconds that streams and connections may take to end before they are cut. Default 4.
    pub grace: u64,
}

/// Section `log`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    /// What to log: a level, also per module. Default `info`.
    pub filter: String,
    /// How a record looks. Default `text`.
    pub format: LogFormat,
}

/// How a log record looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One line for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// What flags of the command line set; they override everything else.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `grpc.address`
    pub grpc: Option<String>,
    /// `rest.address`
    pub http: Option<String>,
    /// `scheduler.queues`
    pub queues: Option<PathBuf>,
}

impl Settings {
    /// Reads the settings: defaults, then `file`, then the process environment, then `flags`.
    pub fn load(file: Option<&Path>, flags: &Flags) -> Result<Self, SettingsError> {
        Self::load_with(file, environment(), flags)
    }

    fn load_with(
        file: Option<&Path>,
        environment: Environment,
        flags: &Flags,
    ) -> Result<Self, SettingsError> {
        let mut sources = Config::builder().add_source(File::from_str(DEFAULTS, FileFormat::Toml));
        if let Some(file) = file {
            sources = sources.add_source(File::from(file).format(FileFormat::Toml));
        }
        let queues = flags.queues.as_ref().map(|path| path.to_string_lossy().into_owned());
        let settings = sources
            .add_source(environment)
            .set_override_option("grpc.address", flags.grpc.clone())?
            .set_override_option("rest.address", flags.http.clone())?
            .set_override_option("scheduler.queues", queues)?
            .build()?;
        Ok(settings.try_deserialize()?)
    }
}

impl GrpcSettings {
    /// [`Self::keepalive_interval`] as a duration.
    pub fn keepalive_interval(&self) -> Duration {
        Duration::from_secs(self.keepalive_interval.get())
    }

    /// [`Self::keepalive_timeout`] as a duration.
    pub fn keepalive_timeout(&self) -> Duration {
        Duration::from_secs(self.keepalive_timeout.get())
    }
}

impl ShutdownSettings {
    /// [`Self::grace`] as a duration.
    pub fn grace(&self) -> Duration {
        Duration::from_secs(self.grace)
    }
}

fn environment() -> Environment {
    Environment::with_prefix(ENVIRONMENT_PREFIX)
        .prefix_separator("__")
        .separator("__")
        .try_parsing(true)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs;

    use super::*;

    fn with_environment(pairs: &[(&str, &str)], flags: &Flags) -> Result<Settings, SettingsError> {
        let pairs: HashMap<String, String> =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Settings::load_with(None, environment().source(Some(pairs)), flags)
    }

    fn with_file(text: &str) -> Result<Settings, SettingsError> {
        let name = format!("monoceros-settings-{}-{:p}.toml", std::process::id(), text);
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).unwrap();
        let settings = Settings::load_with(
            Some(&path),
            environment().source(Some(HashMap::new())),
            &Flags::default(),
        );
        fs::remove_file(&path).unwrap();
        settings
    }

    #[test]
    fn the_shipped_file_holds_every_default() {
        let settings = with_environment(&[], &Flags::default()).unwrap();
        assert_eq!(settings.grpc.address.to_string(), "127.0.0.1:50051");
        assert_eq!(settings.grpc.max_recv_message_bytes.get(), 64 << 20);
        assert_eq!(settings.grpc.send_chunk_items.get(), 1_000);
        assert_eq!(settings.grpc.keepalive_interval(), Duration::from_secs(20));
        assert_eq!(settings.rest.address.to_string(), "127.0.0.1:9080");
        assert_eq!(settings.scheduler.queues, None);
        assert_eq!(settings.shutdown.grace(), Duration::from_secs(4));
        assert_eq!(settings.log.filter, "info");
    }

    #[test]
    fn flags_override_the_environment_which_overrides_a_file() {
        let settings = with_file("[grpc]\nsend_chunk_items = 7").unwrap();
        assert_eq!(settings.grpc.send_chunk_items.get(), 7);
        assert_eq!(settings.grpc.address.port(), 50051, "other keys keep their defaults");

        let variables = [
            ("MONOCEROS__GRPC__ADDRESS", "127.0.0.1:1"),
            ("MONOCEROS__GRPC__SEND_CHUNK_ITEMS", "8"),
            ("MONOCEROS_OTHER", "not a setting"),
        ];
        let flags = Flags { grpc: Some("127.0.0.1:2".to_owned()), ..Flags::default() };
        let settings = with_environment(&variables, &flags).unwrap();
        assert_eq!(settings.grpc.send_chunk_items.get(), 8);
        assert_eq!(settings.grpc.address.port(), 2);
    }

    #[test]
    fn an_unknown_key_is_named() {
        let error = with_file("[grpc]\nadress = \"127.0.0.1:1\"").unwrap_err().to_string();
        assert!(error.contains("`adress`"), "{error}");
        let error = with_file("[grcp]\naddress = \"127.0.0.1:1\"").unwrap_err().to_string();
        assert!(error.contains("`grcp`"), "{error}");
        let error = with_environment(&[("MONOCEROS__LOG__LEVEL", "info")], &Flags::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains("`level`"), "{error}");
    }

    #[test]
    fn a_bad_value_is_named_by_its_key() {
        let flags = Flags { grpc: Some("nowhere".to_owned()), ..Flags::default() };
        let error = with_environment(&[], &flags).unwrap_err().to_string();
        assert!(error.contains("grpc.address"), "{error}");
        let error = with_file("[grpc]\nsend_chunk_items = 0").unwrap_err().to_string();
        assert!(error.contains("grpc.send_chunk_items"), "{error}");
    }
}
