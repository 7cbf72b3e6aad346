//! The shipped defaults, sources and their order, and checks of values.

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
        with_environment(value, &Flags::default()).map(|settings| settings.scheduler.reservations)
    };
    assert!(made(&[]).unwrap());
    assert!(made(&[("DISABLE_RESERVATION", "false")]).unwrap());
    assert!(!made(&[("DISABLE_RESERVATION", "true")]).unwrap());
    assert!(!made(&[("MONOCEROS__SCHEDULER__RESERVATIONS", "false")]).unwrap());
    let error = made(&[("DISABLE_RESERVATION", "perhaps")]).unwrap_err().to_string();
    assert!(error.contains("DISABLE_RESERVATION is `perhaps`"), "{error}");
    let share = |value: &str| {
        with_environment(&[("MONOCEROS__SCHEDULER__RESERVATION_SHARE", value)], &Flags::default())
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
fn the_interval_of_the_history_is_bounded() {
    let history = |key: &str, value: &str| {
        let key = format!("MONOCEROS__HISTORY__{key}");
        with_environment(&[(&key, value)], &Flags::default())
            .map(|settings| (settings.history.bytes, settings.history.interval.get()))
            .map_err(|error| error.to_string())
    };
    assert_eq!(history("INTERVAL", "3600"), Ok((64 << 20, 3_600)));
    assert_eq!(history("BYTES", "0"), Ok((0, 15)));
    let error = history("INTERVAL", "3601").unwrap_err();
    assert!(error.contains("`history.interval` (3601) is more than 3600 seconds"), "{error}");
    let error = history("INTERVAL", "0").unwrap_err();
    assert!(error.contains("history.interval"), "{error}");
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

#[test]
fn a_cluster_is_off_by_default_and_set_by_environment() {
    let settings = with_environment(&[], &Flags::default()).unwrap();
    assert!(!settings.cluster.is_on());
    assert_eq!(settings.cluster.lease, Duration::from_secs(5));
    assert_eq!((&*settings.cluster.name, settings.service.state_dir), ("monoceros", None));
    let variables = [
        ("MONOCEROS__CLUSTER__ENDPOINTS", "http://127.0.0.1:2379, http://etcd-1:2379/"),
        ("MONOCEROS__CLUSTER__ADVERTISE__GRPC", "m-1.members:50051"),
        ("MONOCEROS__SERVICE__STATE_DIR", "/var/lib/monoceros"),
    ];
    let settings = with_environment(&variables, &Flags::default()).unwrap();
    assert_eq!(settings.cluster.endpoints, ["http://127.0.0.1:2379", "http://etcd-1:2379/"]);
    assert_eq!(settings.cluster.advertise.grpc.as_deref(), Some("m-1.members:50051"));
    assert_eq!(settings.service.state_dir, Some(PathBuf::from("/var/lib/monoceros")));
}

#[test]
fn what_if_is_off_and_has_a_deadline() {
    let settings = with_file("").unwrap().whatif;
    assert_eq!((settings.enabled, settings.objects), (false, 1_000_000));
    assert_eq!(settings.deadline, Duration::from_secs(60));
    let settings = with_file("[whatif]\nenabled = true\ndeadline = \"5m\"\n").unwrap().whatif;
    assert_eq!((settings.enabled, settings.deadline), (true, Duration::from_secs(300)));
    let error = with_file("[whatif]\ndeadline = 0\n").unwrap_err().to_string();
    assert!(error.contains("`whatif.deadline` is 0"), "{error}");
}

#[test]
fn run_times_have_bounds() {
    let with = |lines: &str| {
        let read = with_file(&format!("[run_times]\n{lines}"));
        read.map(|it| it.run_times.of_scheduler()).map_err(|error| error.to_string())
    };
    let by_default = with("").unwrap().unwrap();
    let week = Duration::from_secs(7 * 24 * 3_600);
    assert_eq!((by_default.half_life, by_default.classes), (week, 10_000));
    let day = with("half_life = \"24h\"\nclasses = 1").unwrap().unwrap();
    assert_eq!((day.half_life, day.classes), (week / 7, 1));
    assert_eq!(with("enabled = false"), Ok(None));
    assert_eq!(with("classes = 0"), Ok(None));
    for (bad, fault) in [
        ("half_life = 1", "`run_times.half_life` (1s) is not between 3600s and 31536000s"),
        ("half_life = \"9000h\"", "`run_times.half_life` (32400000s) is not between 3600s and"),
        ("classes = 100_001", "`run_times.classes` (100001) is more than 100000"),
        ("class = 1", "`class`"),
    ] {
        let error = with(bad).expect_err(bad);
        assert!(error.contains(fault), "{bad}: {error}");
    }
}

#[test]
fn cluster_mistakes_are_named_by_their_keys() {
    let with = |lines: &str| {
        let file = format!("[cluster]\n{lines}");
        with_file(&file).map(drop).map_err(|error| error.to_string())
    };
    let tls = "endpoints = [\"https://e:2379\"]\n[cluster.tls]\nca = \"ca.pem\"";
    let members = "listen = \"0.0.0.0:1\"\nadvertise.internal = \"m-1:1\"\n[cluster.tls]\n\
                   ca = \"ca.pem\"\ncertificate = \"c\"\nkey = \"k\"\nnames = \"dns=m, cn=m\"";
    let long = format!("id = \"{}\"", "i".repeat(300));
    for good in [
        "lease = \"2s\"",
        members,
        "advertise.internal = \"localhost:1\"",
        "id = \"a\"",
        "endpoints = [\"http://[::1]:2379\"]",
        tls,
    ] {
        assert_eq!(with(good), Ok(()), "{good}");
    }
    for (bad, fault) in [
        ("arbiter = \"zookeeper\"", "`zookeeper` is not `none`, `etcd` or `kubernetes`"),
        ("lease = 1", "`cluster.lease` (1s) is not between 2s and 3600s"),
        ("lease = \"2h\"", "`cluster.lease` (7200s) is not between 2s and 3600s"),
        ("id = \"a b\"", "`cluster.id` (`a b`) is not 1 to 128 letters"),
        ("id = \"\"", "`cluster.id` (``) is not 1 to 128 letters"),
        (&*long, "iii…`) has 300 bytes: at most 128 are allowed"),
        ("endpoints = [\"etcd:2379\"]", "`etcd:2379` is neither http://HOST:PORT nor"),
        ("endpoints = [\"http://etcd\"]", "`http://etcd` is neither http://HOST:PORT nor"),
        ("endpoints = [\"https://e:1\"]", "`cluster.tls.ca` is not set, which `https://e:1` needs"),
        (
            "endpoints = [\"http://e:1\", \"https://f:1\"]",
            "`cluster.endpoints` has addresses with http and with https: all need the same",
        ),
        ("user = \"root\"", "`cluster.password_file` is not set, which `cluster.user` needs"),
        ("tls.key = \"k\"", "`cluster.tls.certificate` is not set, which `cluster.tls.key` needs"),
        ("advertise.rest = \"here\"", "`cluster.advertise.rest` (`here`) is no HOST:PORT"),
        ("advertise.internal = \"a\"", "`cluster.advertise.internal` (`a`) is no HOST:PORT"),
        (
            "advertise.grpc = \"m-1:0\"",
            "`cluster.advertise.grpc` (`m-1:0`) has port 0, to which nobody can connect",
        ),
        ("advertise.internal = \"m-1:00\"", "`cluster.advertise.internal` (`m-1:00`) has port 0"),
        ("listen = \"foo\"", "`foo` is not an IP:PORT"),
        ("listen = \"10.0.0.1:1\"", "`cluster.listen` (`10.0.0.1:1`) is no loopback address"),
        ("listen = \"0.0.0.0:1\"", "`cluster.advertise.internal` is not set: `cluster.listen`"),
        (
            "advertise.internal = \"m-1:1\"",
            "`cluster.advertise.internal` (`m-1:1`) is no loopback address",
        ),
        ("tls.names = [\"dns=m\"]", "`cluster.tls.ca` is not set, which `cluster.tls.names` needs"),
        ("tls.names = [\"m\"]", "`m` is not a name of a certificate"),
    ] {
        let error = with(bad).expect_err(bad);
        assert!(error.contains(fault), "{bad}: {error}");
    }
}

#[cfg(feature = "cluster")]
#[test]
fn a_member_needs_endpoints_and_an_address_for_others() {
    let with = |lines: &str| {
        with_file(&format!("{lines}\n[cluster]\narbiter = \"etcd\"")).unwrap_err().to_string()
    };
    let error = with("");
    assert!(error.contains("`cluster.endpoints` is not set, which the arbiter `etcd` needs"));
    assert!(!error.contains("advertise"), "{error}");
    let error = with("[grpc]\naddress = \"0.0.0.0:50051\"");
    let fault = "`cluster.advertise.grpc` is not set: `grpc.address` (0.0.0.0:50051) is no address";
    assert!(error.contains(fault), "{error}");
    let error = with_file("[cluster]\nname = \"A\"").unwrap_err().to_string();
    assert!(error.contains("`cluster.name`: `A` cannot name a cluster"), "{error}");
}

#[cfg(not(feature = "cluster"))]
#[test]
fn an_arbiter_that_was_not_built_in_is_refused() {
    let lines = "[cluster]\narbiter = \"etcd\"\nendpoints = [\"http://e:2379\"]";
    let error = with_file(lines).unwrap_err().to_string();
    assert!(error.contains("`cluster.arbiter` is `etcd`: this program was built without it"));
}
