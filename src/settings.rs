//! Settings of the service: the defaults in `config/monoceros.toml`, which is part of the binary,
//! overridden by a file, then by the environment, then by flags.
//!
//! # Invariants
//! * Every key has its default in that file and nowhere else; [`Settings`] has no `Default`.
//! * An unknown key is an error that names the key and its source. All mistakes of a file are
//!   reported at once (`mistakes`).
//! * The message of an error is complete: the error has no `source()` that would repeat a part of
//!   it.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::builder::DefaultState;
use config::{
    Config, ConfigBuilder, ConfigError, Environment, File, FileFormat, Source as _, Value,
    ValueKind,
};
use monoceros_actors::{SPIN_MAX, SchedulerBuilder};
use serde::Deserialize;

pub use self::callback::CallbackSettings;
pub use self::cluster::{ArbiterKind, ClusterSettings, ClusterTlsSettings, ServiceSettings};
#[cfg(feature = "cluster")]
pub(crate) use self::cluster::{is_loopback, member_id};
pub use self::edges::{
    ClientAuth, GrpcSettings, ReadSettings, RestSettings, SnapshotSettings, TlsSettings,
};
pub use self::environment::ignored_variables;
use self::environment::{DISABLE_RESERVATION, disables, environment};
pub use self::items::{
    ApplicationSettings, AskSettings, DecisionSettings, EventSettings, HealthSettings,
    HistorySettings, MetricSettings, NodeSettings,
};
#[cfg(feature = "kubernetes")]
pub(crate) use self::kubernetes::object_name;
pub use self::kubernetes::{KubernetesSettings, ScoreSettings, Victims};
pub use self::log::{LogFormat, LogSettings};
pub use self::mistakes::all as mistakes_of;
pub use self::quotas::QuotaSettings;
pub use self::run_times::RunTimeSettings;
pub use self::session::{
    ItemsAndBytes, LimitSettings, OnStreamLoss, PolicyGroupConflict, RegistrationSettings,
    SessionSettings,
};
pub use self::traces::TraceSettings;
pub use self::users::UserSettings;
pub use self::whatif::WhatIfSettings;
use crate::identity::Rule;
use crate::input::{self, InputError};
use crate::validate::Fault;

pub mod callback;
mod cluster;
mod edges;
mod environment;
mod items;
mod kubernetes;
mod log;
mod mistakes;
mod quotas;
mod run_times;
pub mod seconds;
mod session;
#[cfg(test)]
mod tests;
mod traces;
mod users;
mod whatif;

/// The commented default file, as shipped.
pub const DEFAULTS: &str = include_str!("../config/monoceros.toml");

/// Largest pause between two samples of the history, in seconds.
const INTERVAL_MAX: u32 = 3_600;

/// Context of an error in a file that a setting names. The process ends as with a [`SettingsError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("settings")]
pub struct WrongSettings;

/// The settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file cannot be read.
    #[error("settings: {0}")]
    Unreadable(InputError),
    /// Keys or values of a file are wrong.
    #[error("settings: {}", listed(file, mistakes))]
    Mistakes {
        /// Path of the file.
        file: PathBuf,
        /// The mistakes by line, at least one.
        mistakes: Vec<Fault>,
    },
    /// A key or value is wrong.
    #[error("settings: {layer}: {error}")]
    Unusable {
        /// The source of the setting: a file, the environment or the command line.
        layer: String,
        /// The error, which names the key.
        error: ConfigError,
    },
    /// Two values contradict each other.
    #[error("settings: {0}")]
    Contradictory(String),
}

/// Formats the mistakes of a file, a line each.
fn listed(file: &Path, mistakes: &[Fault]) -> String {
    let file = file.display();
    match mistakes {
        [only] => format!("{file}: {}", only.text()),
        several => {
            let lines = several.iter().map(|mistake| format!("\n{file}: {}", mistake.text()));
            format!("{} mistakes{}", several.len(), lines.collect::<String>())
        }
    }
}

/// All settings of `monoceros serve`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The gRPC edge.
    pub grpc: GrpcSettings,
    /// The REST edge.
    pub rest: RestSettings,
    /// Reads over both edges.
    pub reads: ReadSettings,
    /// Snapshots of the state.
    pub snapshot: SnapshotSettings,
    /// Callback streams.
    pub callback: CallbackSettings,
    /// The scheduler itself.
    pub scheduler: SchedulerSettings,
    /// Sessions of resource managers.
    pub session: SessionSettings,
    /// Registration of resource managers.
    pub registration: RegistrationSettings,
    /// Limits of one message.
    pub limits: LimitSettings,
    /// Quotas of one resource manager.
    pub quotas: QuotaSettings,
    /// Applications.
    pub applications: ApplicationSettings,
    /// Records of decisions.
    pub decisions: DecisionSettings,
    /// Run times of allocations.
    pub run_times: RunTimeSettings,
    /// Questions of what would happen.
    pub whatif: WhatIfSettings,
    /// Metrics.
    pub metrics: MetricSettings,
    /// Asks.
    pub asks: AskSettings,
    /// Nodes.
    pub nodes: NodeSettings,
    /// Lookup of users.
    pub users: UserSettings,
    /// Events.
    pub event: EventSettings,
    /// Health checks.
    pub health: HealthSettings,
    /// Usage over time.
    pub history: HistorySettings,
    /// Tokens and access rules.
    pub identity: IdentitySettings,
    /// The end of the service.
    pub shutdown: ShutdownSettings,
    /// The log.
    pub log: LogSettings,
    /// Placements as traces of OpenTelemetry.
    pub traces: TraceSettings,
    /// `monoceros kubernetes`.
    pub kubernetes: KubernetesSettings,
    /// The process as a whole.
    #[serde(default)]
    pub service: ServiceSettings,
    /// Membership in a cluster of several processes.
    pub cluster: ClusterSettings,
}

/// Section `scheduler`.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `scheduler.KEY` or MONOCEROS__SCHEDULER__KEY)"
)]
pub struct SchedulerSettings {
    /// Queue configuration (YAML) of resource managers that bring none. Default: the built-in one.
    pub queues: Option<PathBuf>,
    /// Whether the file `queues` and the files of the policy groups are also read when they change,
    /// and not only at SIGHUP. Default true.
    pub watch_queues: bool,
    /// Most placements per partition that wait for a predicate of a remote shim. Default 64. With
    /// 1, the order of placements is exact; a larger number hides the round trip.
    pub placements_in_flight: NonZeroUsize,
    /// Whether an ask that fits on no node may reserve one. Default true; the variable
    /// `DISABLE_RESERVATION` sets it to false.
    pub reservations: bool,
    /// Minimum age of an ask that reserves a node, in seconds. Default 2.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub reservation_delay: Duration,
    /// Most of the capacity of open nodes that asks without a required node may reserve, in
    /// percent, at most 100. Default 20. Two nodes may be reserved in any case.
    pub reservation_share: u32,
    /// Seconds after which the reservation of an ask that does not fit its quotas is cancelled.
    /// Default an hour.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub reservation_wait_timeout: Duration,
    /// Seconds that a request waits after its allocation failed to start. Doubled with each further
    /// failure. Default 1; not 0.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub start_retry: Duration,
    /// Longest wait of a request after a failed start, in seconds. Default 60. An allocation that
    /// was kept for this time counts as started.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub start_retry_max: Duration,
    /// Microseconds that the scheduler's threads poll for messages before they sleep. Default 0, at
    /// most 10,000. Costs CPU, and saves a single ask the time to wake a thread.
    pub spin_us: u64,
}

impl SchedulerSettings {
    /// Returns the values out of their bounds.
    fn contradictions(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.reservation_share > 100 {
            let share = self.reservation_share;
            found.push(format!("`scheduler.reservation_share` ({share}) is more than 100 percent"));
        }
        let (first, longest) = (self.start_retry, self.start_retry_max);
        if first.is_zero() {
            let why = "what cannot be started would be tried again at once, and without end";
            found.push(format!("`scheduler.start_retry` is 0: {why}"));
        }
        if longest < first {
            found.push(format!(
                "`scheduler.start_retry_max` ({longest:?}) is less than `scheduler.start_retry` \
                 ({first:?})"
            ));
        }
        if Duration::from_micros(self.spin_us) > SPIN_MAX {
            // With a longer spin, a core would never be idle.
            let (spin_us, most) = (self.spin_us, SPIN_MAX.as_micros());
            found.push(format!("`scheduler.spin_us` ({spin_us}) is more than {most}"));
        }
        found
    }

    /// Applies the settings of reservations, starts and threads.
    pub fn apply(&self, builder: SchedulerBuilder) -> SchedulerBuilder {
        builder
            .spin(Duration::from_micros(self.spin_us))
            .reservation_delay(self.reservations.then_some(self.reservation_delay))
            .reservation_share(self.reservation_share)
            .reservation_wait_timeout(self.reservation_wait_timeout)
            .start_retry(self.start_retry, self.start_retry_max)
    }
}

/// Section `identity`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `identity.KEY` or MONOCEROS__IDENTITY__KEY)"
)]
pub struct IdentitySettings {
    /// File of bearer tokens, one `name:token` per line, read again when it changes. Default: no
    /// tokens.
    pub tokens: Option<PathBuf>,
    /// Access rules. Default: none, and everybody may do everything.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

/// Section `shutdown`.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `shutdown.KEY` or MONOCEROS__SHUTDOWN__KEY)"
)]
pub struct ShutdownSettings {
    /// Seconds for streams and connections to end before they are cut. Default 4.
    pub grace: u64,
}

/// Settings of command line flags, which override everything else.
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
        Self::load_with_values(file, flags).map(|(settings, _)| settings)
    }

    /// Loads the settings, and returns the values as text, too.
    pub fn load_with_values(
        file: Option<&Path>,
        flags: &Flags,
    ) -> Result<(Self, Values), SettingsError> {
        let disable = std::env::var(DISABLE_RESERVATION).ok();
        let (mut settings, values) =
            Self::load_with(file, environment(), disable.as_deref(), flags)?;
        settings.log.follow(std::env::var(log::RUST_LOG).ok().as_deref(), &environment())?;
        Ok((settings, values))
    }

    fn load_with(
        file: Option<&Path>,
        environment: Environment,
        disable_reservation: Option<&str>,
        flags: &Flags,
    ) -> Result<(Self, Values), SettingsError> {
        // Each layer is checked together with the layers below it, because the error of an unknown
        // key does not name its source.
        let mut layers = Config::builder().add_source(File::from_str(DEFAULTS, FileFormat::Toml));
        if let Some(path) = file {
            let text = input::read_text(path).map_err(SettingsError::Unreadable)?;
            let mistakes = mistakes::of_values(&text);
            if !mistakes.is_empty() {
                return Err(SettingsError::Mistakes { file: path.to_owned(), mistakes });
            }
            layers = layers.add_source(File::from_str(&text, FileFormat::Toml));
            settings_of(&layers, &format!("`{}`", path.display()))?;
        }
        layers = layers.add_source(environment);
        if disables(disable_reservation).map_err(SettingsError::Contradictory)? {
            let layer = "[scheduler]\nreservations = false";
            layers = layers.add_source(File::from_str(layer, FileFormat::Toml));
        }
        settings_of(&layers, "environment")?;
        let queues = flags.queues.as_ref().map(|path| path.to_string_lossy().into_owned());
        for (key, value) in [
            ("grpc.address", flags.grpc.clone()),
            ("rest.address", flags.http.clone()),
            ("scheduler.queues", queues),
        ] {
            layers = layers.set_override_option(key, value).expect("the key is a path of names");
        }
        let settings = settings_of(&layers, "command line")?;
        // Checked last: a later layer may correct the values of an earlier one.
        let contradictions = settings.contradictions();
        if !contradictions.is_empty() {
            return Err(SettingsError::Contradictory(contradictions.join("\nsettings: ")));
        }
        Ok((settings, values_of(&layers)))
    }

    /// Returns the values that contradict each other or exceed bounds that the types do not have.
    pub(crate) fn contradictions(&self) -> Vec<String> {
        let Self { grpc, rest, users, traces, kubernetes, history, .. } = self;
        let mut found = Vec::new();
        found.extend(traces.check().err());
        found.extend(kubernetes.check().err());
        for (key, timeout) in
            [("grpc.body_timeout", grpc.body_timeout), ("rest.body_timeout", rest.body_timeout)]
        {
            if timeout.is_zero() {
                found.push(format!("`{key}` is 0: nobody could send or take anything in time"));
            }
        }
        if history.interval.get() > INTERVAL_MAX {
            let interval = history.interval;
            found.push(format!(
                "`history.interval` ({interval}) is more than {INTERVAL_MAX} seconds"
            ));
        }
        if users.lookup_timeout.is_zero() {
            found.push("`users.lookup_timeout` is 0: nobody could be looked up".to_owned());
        }
        found.extend(self.scheduler.contradictions());
        found.extend(self.run_times.contradictions());
        found.extend(self.whatif.contradictions());
        found.extend(self.cluster.contradictions(grpc.address, rest.address));
        let keepalive = grpc.keepalive_interval().saturating_add(grpc.keepalive_timeout());
        let grace = self.session.delivery_grace;
        if !grace.is_zero() && grace <= keepalive {
            found.push(format!(
                "`session.delivery_grace` ({grace:?}) is not more than `grpc.keepalive_interval` and \
                 `grpc.keepalive_timeout` together ({keepalive:?}): what a lost connection took \
                 along would be forgotten before it is known to be lost (0 keeps nothing at all)"
            ));
        }
        found
    }
}

impl ShutdownSettings {
    /// Returns [`Self::grace`] as a duration.
    pub fn grace(&self) -> Duration {
        Duration::from_secs(self.grace)
    }
}

/// All settings as text, by their full keys.
pub type Values = BTreeMap<String, String>;

fn values_of(layers: &ConfigBuilder<DefaultState>) -> Values {
    fn enter(value: Value, key: String, values: &mut Values) {
        match value.kind {
            ValueKind::Table(table) => {
                for (name, value) in table {
                    enter(value, format!("{key}.{name}"), values);
                }
            }
            kind => {
                values.insert(key, kind.to_string());
            }
        }
    }
    let mut values = Values::new();
    // The same layers were built before, so this does not fail.
    let built = layers.build_cloned().and_then(|config| config.collect()).unwrap_or_default();
    for (key, value) in built {
        enter(value, key, &mut values);
    }
    values
}

/// Deserializes `layers`. An error names `layer`, the last of them.
fn settings_of(
    layers: &ConfigBuilder<DefaultState>,
    layer: &str,
) -> Result<Settings, SettingsError> {
    let built = layers.build_cloned().and_then(Config::try_deserialize);
    built.map_err(|error| SettingsError::Unusable {
        layer: layer.to_owned(),
        error: match error {
            // The error names the layer already.
            ConfigError::Type { unexpected, expected, key, .. } => {
                ConfigError::Type { origin: None, unexpected, expected, key }
            }
            other => other,
        },
    })
}
