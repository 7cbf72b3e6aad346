//! Metrics of the process and of the build. The process of an embedder is not the scheduler's, so these
//! families are added on request, as by the service.

use prometheus::core::Collector;
use prometheus::{IntGauge, Opts, Registry};

use super::inventory::{Family, Maker};

/// The identity of a build.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// The version, such as `0.1.0`.
    pub version: &'static str,
    /// The beginning of the id of the commit, or `unknown`.
    pub commit: &'static str,
    /// System and processor, such as `x86_64-unknown-linux-gnu`.
    pub target: &'static str,
    /// The version of the compiler, such as `1.90.0`.
    pub rustc: &'static str,
}

const BUILD_INFO: &str = "monoceros_build_info";
const BUILD_HELP: &str = "Always 1; its labels say which build this is.";

/// The families of the collector for processes, which exists on Linux only: name, type, meaning.
const PROCESS: [(&str, &str, &str); 7] = [
    (
        "process_cpu_seconds_total",
        "counter",
        "Processor time of the process, user and system, in seconds.",
    ),
    ("process_max_fds", "gauge", "File descriptors that the process may have open."),
    ("process_open_fds", "gauge", "File descriptors that the process has open."),
    ("process_resident_memory_bytes", "gauge", "Memory of the process that is in RAM, in bytes."),
    (
        "process_start_time_seconds",
        "gauge",
        "When the process started, in seconds since the epoch.",
    ),
    ("process_threads", "gauge", "Threads of the process."),
    ("process_virtual_memory_bytes", "gauge", "Addresses that the process has in use, in bytes."),
];

/// Lists the families in the inventory: the documentation is made without a process that adds them.
pub(super) fn note(make: &mut Maker) {
    let labels = ["version", "commit", "target", "rustc"].map(|label| (label, vec![])).to_vec();
    make.list(Family { name: BUILD_INFO, kind: "gauge", labels, help: BUILD_HELP });
    for (name, kind, help) in PROCESS {
        make.list(Family { name, kind, labels: vec![], help });
    }
}

/// Adds the build and, on Linux, the process to the registry. A second call changes nothing.
pub(super) fn show(registry: &Registry, build: Build) {
    let Build { version, commit, target, rustc } = build;
    let options = Opts::new(BUILD_INFO, BUILD_HELP)
        .const_label("version", version)
        .const_label("commit", commit)
        .const_label("target", target)
        .const_label("rustc", rustc);
    let info = IntGauge::with_opts(options).expect("the names are valid");
    info.set(1);
    add(registry, Box::new(info));
    #[cfg(target_os = "linux")]
    add(registry, Box::new(prometheus::process_collector::ProcessCollector::for_self()));
}

fn add(registry: &Registry, collector: Box<dyn Collector>) {
    if let Err(error) = registry.register(collector) {
        tracing::debug!(%error, "the process is shown already");
    }
}
