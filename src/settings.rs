//! Settings of the service: the defaults in `config/monoceros.toml`, which is part of the binary,
//! overridden by a file, then by the environment, then by flags.
//!
//! # Invariants
//! * Every key has its default in that file and nowhere else; [`Settings`] has no `Default`.
//! * An unknown key is an error that names the key and its source.
//! * The message of an error is complete. An error has no source that would repeat it.

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
pub use self::edges::{ClientAuth, GrpcSettings, ReadSettings, RestSettings, TlsSettings};
pub use self::environment::ignored_variables;
use self::environment::{DISABLE_RESERVATION, disables, environment};
pub use self::items::{
    ApplicationSettings, AskSettings, DecisionSettings, EventSettings, HealthSettings,
    MetricSettings, NodeSettings,
};
#[cfg(feature = "kubernetes")]
pub(crate) use self::kubernetes::object_name;
pub use self::kubernetes::{KubernetesSettings, ScoreSettings, Victims};
pub use self::log::{LogFormat, LogSettings};
pub use self::quotas::QuotaSettings;
pub use self::session::{
    ItemsAndBytes, LimitSettings, OnStreamLoss, PolicyGroupConflict, RegistrationSettings,
    SessionSettings,
};
pub use self::traces::TraceSettings;
pub use self::users::UserSettings;
use crate::identity::Rule;
use crate::input::{self, InputError};

pub mod callback;
mod edges;
mod environment;
mod items;
mod kubernetes;
mod log;
mod quotas;
pub mod seconds;
mod session;
mod traces;
mod users;

/// The commented default file, as shipped.
pub const DEFAULTS: &str = include_str!("../config/monoceros.toml");

/// The settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file cannot be read.
    #[error("settings: {0}")]
    Unreadable(InputError),
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
    /// Whether that file, and those of the policy groups, are read again when they change, besides
    /// at SIGHUP. Default true.
    pub watch_queues: bool,
    /// Most placements per partition that wait for a predicate of a remote shim. Default 64. One
    /// keeps the order of placements exact; more hide the round trip.
    pub placements_in_flight: NonZeroUsize,
    /// Whether asks that fit no node reserve one. Default true; the variable `DISABLE_RESERVATION`
    /// sets it to false.
    pub reservations: bool,
    /// Minimum age of such an ask, in seconds. Default 2.
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
    /// Longest wait of such a request, in seconds. Default 60. An allocation that was kept for so
    /// long counts as started.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub start_retry_max: Duration,
    /// Microseconds that the scheduler's threads poll for messages before they sleep. Default 0, at
    /// most 10,000. Costs CPU, and saves a single ask the time to wake a thread.
    pub spin_us: u64,
}

impl SchedulerSettings {
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

    /// As [`Self::load`], with the values as text.
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
        // Each layer is checked on top of those below it, because the error of an unknown key does
        // not name its source.
        let mut layers = Config::builder().add_source(File::from_str(DEFAULTS, FileFormat::Toml));
        if let Some(path) = file {
            let text = input::read_text(path).map_err(SettingsError::Unreadable)?;
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
        settings.check().map_err(SettingsError::Contradictory)?;
        Ok((settings, values_of(&layers)))
    }

    /// Checks values against each other, and bounds that the types do not have.
    fn check(&self) -> Result<(), String> {
        let Self { grpc, rest, scheduler, session, users, traces, kubernetes, .. } = self;
        traces.check()?;
        kubernetes.check()?;
        for (key, timeout) in
            [("grpc.body_timeout", grpc.body_timeout), ("rest.body_timeout", rest.body_timeout)]
        {
            if timeout.is_zero() {
                return Err(format!("`{key}` is 0: nobody could send or take anything in time"));
            }
        }
        if users.lookup_timeout.is_zero() {
            return Err("`users.lookup_timeout` is 0: nobody could be looked up".to_owned());
        }
        if scheduler.reservation_share > 100 {
            let share = scheduler.reservation_share;
            return Err(format!(
                "`scheduler.reservation_share` ({share}) is more than 100 percent"
            ));
        }
        let (first, longest) = (scheduler.start_retry, scheduler.start_retry_max);
        if first.is_zero() {
            let why = "what cannot be started would be tried again at once, and without end";
            return Err(format!("`scheduler.start_retry` is 0: {why}"));
        }
        if longest < first {
            return Err(format!(
                "`scheduler.start_retry_max` ({longest:?}) is less than `scheduler.start_retry` \
                 ({first:?})"
            ));
        }
        if Duration::from_micros(scheduler.spin_us) > SPIN_MAX {
            // A longer spin is a core that is never idle.
            let (spin_us, most) = (scheduler.spin_us, SPIN_MAX.as_micros());
            return Err(format!("`scheduler.spin_us` ({spin_us}) is more than {most}"));
        }
        let keepalive = grpc.keepalive_interval().saturating_add(grpc.keepalive_timeout());
        let grace = session.delivery_grace;
        if !grace.is_zero() && grace <= keepalive {
            return Err(format!(
                "`session.delivery_grace` ({grace:?}) is not more than `grpc.keepalive_interval` and \
                 `grpc.keepalive_timeout` together ({keepalive:?}): what a lost connection took \
                 along would be forgotten before it is known to be lost (0 keeps nothing at all)"
            ));
        }
        Ok(())
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
    // The layers were built before, so this does not fail.
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs;

    use super::*;

    fn with_environment(pairs: &[(&str, &str)], flags: &Flags) -> Result<Settings, SettingsError> {
        let pairs: HashMap<String, String> =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let disable = pairs.get(DISABLE_RESERVATION).cloned();
        let environment = environment().source(Some(pairs));
        let loaded = Settings::load_with(None, environment, disable.as_deref(), flags);
        loaded.map(|(settings, _)| settings)
    }

    fn with_file(text: &str) -> Result<Settings, SettingsError> {
        let name = format!("monoceros-settings-{}-{:p}.toml", std::process::id(), text);
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).unwrap();
        let settings = Settings::load_with(
            Some(&path),
            environment().source(Some(HashMap::new())),
            None,
            &Flags::default(),
        );
        fs::remove_file(&path).unwrap();
        settings.map(|(settings, _)| settings)
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
        assert!(settings.scheduler.watch_queues);
        assert_eq!(settings.scheduler.placements_in_flight.get(), 64);
        assert_eq!(settings.scheduler.spin_us, 0);
        assert_eq!(settings.callback.predicates, callback::Asking::Auto);
        assert_eq!(settings.callback.predicate_timeout, Duration::from_secs(2));
        assert!(settings.callback.predicates_of.is_empty());
        assert_eq!(settings.callback.event_capacity, None);
        assert_eq!(settings.applications.max_ended, 10_000);
        assert!(!settings.applications.fail_after_execution_timeout);
        assert_eq!(settings.decisions.kept, 4_096);
        assert!(settings.metrics.legacy_queue_names);
        assert_eq!(settings.asks.max_repeat.get(), 10_000);
        assert_eq!(settings.limits.resource_names.get(), 1_024);
        assert_eq!((settings.quotas.partitions, settings.quotas.bytes), (64, 4 << 30));
        assert!(settings.asks.release_after_execution_timeout && !settings.nodes.reject_updates);
        assert!(settings.event.tracking_enabled);
        assert_eq!(settings.event.max_streams, 100);
        assert_eq!(settings.event.rest_response_size.get(), 10_000);
        assert_eq!(settings.health.interval(), Some(Duration::from_secs(30)));
        assert_eq!(settings.session.ingress().items.get(), 65_536);
        assert_eq!(settings.session.outbox().items.get(), 1_000_000);
        assert_eq!(settings.grpc.decoding_bytes_unbound(), 64 << 20);
        assert_eq!(settings.shutdown.grace(), Duration::from_secs(4));
        assert_eq!(settings.log.filter, "info,kube_client=off,kube_runtime=off");
    }

    #[test]
    fn a_key_or_the_variable_disables_reservations() {
        let made = |value: &[(&str, &str)]| {
            with_environment(value, &Flags::default())
                .map(|settings| settings.scheduler.reservations)
        };
        assert!(made(&[]).unwrap());
        assert!(made(&[("DISABLE_RESERVATION", "false")]).unwrap());
        assert!(!made(&[("DISABLE_RESERVATION", "true")]).unwrap());
        assert!(!made(&[("MONOCEROS__SCHEDULER__RESERVATIONS", "false")]).unwrap());
        let error = made(&[("DISABLE_RESERVATION", "perhaps")]).unwrap_err().to_string();
        assert!(error.contains("DISABLE_RESERVATION is `perhaps`"), "{error}");
        let share = |value: &str| {
            with_environment(
                &[("MONOCEROS__SCHEDULER__RESERVATION_SHARE", value)],
                &Flags::default(),
            )
            .map(|settings| settings.scheduler.reservation_share)
            .map_err(|error| error.to_string())
        };
        assert_eq!((share("0"), share("100")), (Ok(0), Ok(100)));
        let error = share("101").unwrap_err();
        assert!(error.contains("`scheduler.reservation_share` (101) is more than 100"), "{error}");
        let delay = with_file("[scheduler]\nreservation_delay = \"1m\"").unwrap();
        assert_eq!(delay.scheduler.reservation_delay, Duration::from_secs(60));
    }

    #[test]
    fn start_retries_have_lower_and_upper_bounds() {
        let scheduler = with_file("").unwrap().scheduler;
        let seconds = [scheduler.start_retry, scheduler.start_retry_max].map(|it| it.as_secs());
        assert_eq!(seconds, [1, 60]);
        let scheduler = with_file("[scheduler]\nstart_retry = \"500ms\"").unwrap().scheduler;
        assert_eq!(scheduler.start_retry, Duration::from_millis(500));
        for (file, fault) in [
            ("start_retry = 0", "`scheduler.start_retry` is 0"),
            (
                "start_retry = 90",
                "`scheduler.start_retry_max` (60s) is less than `scheduler.start_retry` (90s)",
            ),
        ] {
            let error = with_file(&format!("[scheduler]\n{file}")).unwrap_err().to_string();
            assert!(error.contains(fault), "{error}");
        }
    }

    #[test]
    fn threads_spin_for_ten_milliseconds_at_most() {
        let with = |value: &str| {
            with_environment(&[("MONOCEROS__SCHEDULER__SPIN_US", value)], &Flags::default())
                .map(|settings| settings.scheduler.spin_us)
                .map_err(|error| error.to_string())
        };
        assert_eq!((with("0"), with("100"), with("10000")), (Ok(0), Ok(100), Ok(10_000)));
        let error = with("10001").unwrap_err();
        assert!(error.contains("`scheduler.spin_us` (10001) is more than 10000"), "{error}");
        for value in ["-1", "a while"] {
            let error = with(value).unwrap_err();
            assert!(error.contains("scheduler.spin_us"), "{error}");
        }
    }

    #[test]
    fn lease_name_and_duration_are_checked() {
        let with = |line: &str| {
            with_file(&format!("[kubernetes]\n{line}")).map(drop).map_err(|error| error.to_string())
        };
        for good in ["lease = \"a.b-1\"", "namespace = \"x\"", "lease_duration = 3600"] {
            assert_eq!(with(good), Ok(()), "{good}");
        }
        for (bad, key) in [
            ("lease = \"\"", "kubernetes.lease"),
            ("lease = \"Not_A_Name\"", "kubernetes.lease"),
            ("lease = \"-a\"", "kubernetes.lease"),
            ("namespace = \"a..b\"", "kubernetes.namespace"),
            ("lease_duration = 3601", "kubernetes.lease_duration"),
            ("lease_duration = 1", "kubernetes.lease_duration"),
            ("scheduler_names = [\"\"]", "kubernetes.scheduler_names"),
        ] {
            let error = with(bad).expect_err(bad);
            assert!(error.contains(key), "{bad}: {error}");
        }
    }

    #[test]
    fn waits_for_pods_are_bounded() {
        for key in ["eviction_timeout", "volume_timeout"] {
            let with = |value: &str| with_file(&format!("[kubernetes]\n{key} = {value}"));
            assert!(with("604800").is_ok());
            let error = with("604801").unwrap_err().to_string();
            let expected = format!("`kubernetes.{key}` (604801s) is more than 604800s (7 days)");
            assert!(error.contains(&expected), "{error}");
            assert!(with("1e18").is_err());
        }
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
        assert!(error.contains("monoceros-settings-"), "the file is named: {error}");
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

    #[test]
    fn errors_state_value_and_expectation() {
        for (key, value, fragments) in [
            ("LOG__FORMAT", "xml", ["`xml`", "`text` or `json`", "log.format"]),
            ("GRPC__ADDRESS", "localhost:50051", ["`localhost:50051`", "IP:PORT", "grpc.address"]),
            ("REST__ADDRESS", "127.0.0.1:99999", ["`127.0.0.1:99999`", "IP:PORT", "rest.address"]),
            ("GRPC", "3", ["`3`", "MONOCEROS__GRPC__", "`grpc`"]),
            ("GRPC__TLS__CLIENT_AUTH", "yes", ["`yes`", "`optional`", "grpc.tls.client_auth"]),
            ("LOG__FILTER", "infoo", ["`infoo`", "`info`", "log.filter"]),
            ("LOG__FILTER", "", ["``", "`info`", "log.filter"]),
            ("LOG__FILTER", "info,monoceros=bug", ["`bug`", "`debug`", "log.filter"]),
        ] {
            let variables = [(&*format!("MONOCEROS__{key}"), value)];
            let error = with_environment(&variables, &Flags::default()).unwrap_err();
            assert!(std::error::Error::source(&error).is_none(), "it would be said again");
            for fragment in fragments {
                assert!(error.to_string().contains(fragment), "{fragment} in {error}");
            }
        }
    }

    #[test]
    fn contradictory_values_are_refused_with_both_keys() {
        let interval = ("MONOCEROS__GRPC__KEEPALIVE_INTERVAL", "5");
        let timeout = ("MONOCEROS__GRPC__KEEPALIVE_TIMEOUT", "5");
        let grace = |text| ("MONOCEROS__SESSION__DELIVERY_GRACE", text);
        for usable in [vec![grace("0")], vec![grace("41")], vec![grace("11"), interval, timeout]] {
            with_environment(&usable, &Flags::default()).unwrap();
        }
        let keepalive = ["session.delivery_grace", "grpc.keepalive_interval", "keepalive_timeout"];
        for (pairs, fragments) in
            [(vec![grace("40")], keepalive), (vec![grace("10"), interval, timeout], keepalive)]
        {
            let error = with_environment(&pairs, &Flags::default()).unwrap_err().to_string();
            for fragment in fragments {
                assert!(error.contains(fragment), "{fragment} in {error}");
            }
        }
    }

    #[test]
    fn rules_say_who_may_do_what() {
        let rules = "[identity]\ntokens = \"t\"\n[[identity.rules]]\ncertificate = \"cn=shim-a\"\n\
                     rm_ids = [\"a*\"]\n[[identity.rules]]\ntoken = \"ops\"\nadmin = true";
        let settings = with_file(rules).unwrap().identity;
        assert_eq!(settings.tokens, Some(PathBuf::from("t")));
        let holders: Vec<_> = settings.rules.iter().map(|rule| rule.holder().to_string()).collect();
        assert_eq!(holders, ["certificate `cn=shim-a`", "token `ops`"]);
        assert!(!settings.rules[0].admin() && settings.rules[1].admin());

        for (rule, fragment) in [
            ("certificate = \"shim-a\"\nadmin = true", "`shim-a`"),
            ("token = \"ops\"", "grants something"),
            ("token = \"ops\"\nrmids = [\"a\"]", "`rmids`"),
        ] {
            let error = with_file(&format!("[[identity.rules]]\n{rule}")).unwrap_err();
            assert!(error.to_string().contains(fragment), "{fragment}: {error}");
        }
    }
}
