//! The systemd unit: it starts a command of the program, with files of the package.

use std::fs;

use monoceros::settings::{Flags, Settings};

use super::{TempFolder, debian, served, text, tool};

const UNIT: &str = "deploy/systemd/monoceros.service";

fn values<'u>(unit: &'u str, key: &str) -> Vec<&'u str> {
    unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

#[test]
fn the_unit_starts_the_packaged_program() {
    let unit = text(UNIT);
    let [start] = values(&unit, "ExecStart")[..] else { panic!("one command") };
    let files = debian::installed();
    let command: Vec<_> = start.split(' ').collect();
    assert!(files.contains_key(command[0]), "{command:?}");
    let args = served(command);
    let (config, queues) = (args.config.unwrap(), args.queues.unwrap());
    assert_eq!(files[config.to_str().unwrap()], "config/monoceros.toml");
    assert_eq!(files[queues.to_str().unwrap()], "config/queues.yaml");
    assert!(args.grpc.is_none() && args.http.is_none(), "where it listens is a setting");
}

#[test]
fn the_unit_matches_the_service_behaviour() {
    let unit = text(UNIT);
    for (key, value) in [
        ("Type", "notify"),
        ("ExecReload", "/bin/kill -HUP $MAINPID"),
        ("Restart", "on-failure"),
        ("DynamicUser", "yes"),
    ] {
        assert_eq!(values(&unit, key), [value], "{key}");
    }
    let seconds = |key| values(&unit, key)[0].parse::<u64>().unwrap();
    // A front counts as stuck after five seconds. A shorter timeout would end a busy one.
    assert!(seconds("WatchdogSec") >= 10);
    let grace = Settings::load(None, &Flags::default()).unwrap().shutdown.grace;
    assert!(seconds("TimeoutStopSec") > grace);
}

#[test]
fn systemd_finds_no_fault_with_the_unit() {
    let Some(mut systemd) = tool("systemd-analyze") else { return };
    let folder = TempFolder::new("unit");
    let unit = text(UNIT).replace("/usr/bin/monoceros", env!("CARGO_BIN_EXE_monoceros"));
    let path = folder.0.join("monoceros.service");
    fs::write(&path, unit).unwrap();
    let output = systemd.arg("verify").arg(path).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    // The tool also prints messages about other units of the machine.
    assert!(!stderr.contains("monoceros.service"), "{stderr}");
}
