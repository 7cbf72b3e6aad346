//! The Helm chart as a service for remote shims: templates and values match each other. With Helm,
//! the rendered chart is checked, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use monoceros::settings::{Flags, Settings};
use regex::Regex;
use serde_json::{Value, json};

use super::{at, printed, root, served, text, tool, yaml};
use crate::harness::{TempFile, run};

pub(super) const CHART: &str = "deploy/helm/monoceros";

/// Returns the templates by name.
fn templates() -> BTreeMap<String, String> {
    let files = fs::read_dir(root().join(CHART).join("templates")).unwrap().map(Result::unwrap);
    let read = |file: fs::DirEntry| {
        (file.file_name().into_string().unwrap(), fs::read_to_string(file.path()).unwrap())
    };
    files.map(read).collect()
}

fn values() -> Value {
    yaml(&text(&format!("{CHART}/values.yaml")))
}

#[test]
fn the_chart_has_the_version_of_the_program() {
    let chart = yaml(&text(&format!("{CHART}/Chart.yaml")));
    assert_eq!(at(&chart, "/version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(at(&chart, "/appVersion"), env!("CARGO_PKG_VERSION"));
}

#[test]
fn templates_and_values_match() {
    let values = values();
    let used = Regex::new(r"\.Values((?:\.\w+)+)").unwrap();
    let templates = templates();
    let used: BTreeSet<String> = templates
        .values()
        .flat_map(|text| used.captures_iter(text).map(|found| found[1].replace('.', "/")))
        .collect();
    for pointer in &used {
        assert!(values.pointer(pointer).is_some(), "`{pointer}` is not in values.yaml");
    }
    assert_eq!(unused("", &values, &used), [""; 0]);
}

/// Returns the unused values. A value that is passed on whole is not searched.
fn unused(pointer: &str, value: &Value, used: &BTreeSet<String>) -> Vec<String> {
    if used.contains(pointer) {
        return Vec::new();
    }
    match value.as_object().filter(|parts| !parts.is_empty()) {
        Some(parts) => {
            let parts = parts.iter();
            parts
                .flat_map(|(name, part)| unused(&format!("{pointer}/{name}"), part, used))
                .collect()
        }
        None => vec![pointer.to_owned()],
    }
}

#[test]
fn the_schema_knows_each_value_and_no_other() {
    let schema = yaml(&text(&format!("{CHART}/values.schema.json")));
    check_against(&schema, &values(), "values");
}

/// Checks that an object with a closed schema has exactly the schema's keys.
fn check_against(schema: &Value, value: &Value, name: &str) {
    if schema["additionalProperties"] != false || value == &serde_json::json!({}) {
        return;
    }
    let known = schema["properties"].as_object().unwrap();
    let value = value.as_object().unwrap_or_else(|| panic!("{name} is no object"));
    for (key, part) in value {
        let schema = known.get(key).unwrap_or_else(|| panic!("{name}.{key} is not in the schema"));
        check_against(schema, part, &format!("{name}.{key}"));
    }
    // `global` is for charts that contain this one.
    let missing: Vec<_> =
        known.keys().filter(|key| *key != "global" && !value.contains_key(*key)).collect();
    assert!(missing.is_empty(), "{name}: no default of {missing:?}");
}

#[test]
fn templates_are_well_formed() {
    let action = Regex::new(r"\{\{-?\s*(if|with|range|define|end|else)\b").unwrap();
    let named = |what: &str| Regex::new(&format!(r#"{what} "([\w.]+)""#)).unwrap();
    let (define, include) = (named("define"), named("include"));
    let templates = templates();
    let all: String = templates.values().map(String::as_str).collect();
    let parts = |of: &Regex| -> BTreeSet<String> {
        of.captures_iter(&all).map(|found| found[1].to_owned()).collect()
    };
    assert_eq!(parts(&include), parts(&define));
    for (name, text) in templates {
        assert_eq!(text.matches("{{").count(), text.matches("}}").count(), "{name}");
        let mut depth = 0;
        for found in action.captures_iter(&text) {
            match &found[1] {
                "end" => depth -= 1,
                "else" => assert!(depth > 0, "{name}"),
                _ => depth += 1,
            }
            assert!(depth >= 0, "{name}: an end too many");
        }
        assert_eq!(depth, 0, "{name}: an end is missing");
    }
}

#[test]
fn the_pod_matches_its_ports_and_files() {
    let address = at(&values(), "/bindAddress").to_owned();
    let workload = templates()["workload.yaml"].replace("{{ .Values.bindAddress }}", &address);
    let lines = workload.lines().map(|line| line.trim().trim_start_matches("- "));
    let lines: Vec<_> = lines.filter(|line| *line == "serve" || line.starts_with("--")).collect();
    let begin = lines.iter().position(|line| *line == "serve").unwrap();
    let arguments = lines[begin..].iter().copied();
    check_arguments(&arguments.collect::<Vec<_>>(), "0.0.0.0");
    let has_line = |line: &str| workload.lines().any(|found| found.trim() == line);
    for line in [
        "- name: grpc",
        "containerPort: 50051",
        "- name: http",
        "containerPort: 9080",
        "mountPath: /etc/monoceros",
        "runAsNonRoot: true",
        "readOnlyRootFilesystem: true",
        "enableServiceLinks: false",
        "type: Recreate",
    ] {
        assert!(has_line(line), "`{line}`");
    }
    for probe in ["startupProbe:", "readinessProbe:", "livenessProbe:"] {
        assert!(has_line(probe), "`{probe}`");
    }
    let monitor = &templates()["servicemonitor.yaml"];
    assert!(monitor.contains("path: /ws/v1/metrics"), "{monitor}");
}

fn check_arguments(arguments: &[&str], address: &str) {
    let args = served([&["monoceros"], arguments].concat());
    for (listens, port) in [(args.grpc, 50_051), (args.http, 9_080)] {
        let listens = listens.unwrap();
        assert_eq!(listens, format!("{address}:{port}"));
        assert!(listens.parse::<SocketAddr>().unwrap().ip().is_unspecified());
    }
    assert_eq!(args.config.unwrap().to_str(), Some("/etc/monoceros/monoceros.toml"));
    assert_eq!(args.queues.unwrap().to_str(), Some("/etc/monoceros/queues.yaml"));
}

#[test]
fn the_chart_settings_are_valid() {
    let settings = TempFile::new("chart.toml", at(&values(), "/settings"));
    let settings = Settings::load(Some(&settings.0), &Flags::default()).unwrap();
    let grace = values()["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(grace > settings.shutdown.grace, "a pod is killed after {grace} s");
}

pub(super) struct Rendered(Vec<Value>);

impl Rendered {
    /// Renders the chart with these values.
    pub(super) fn of(helm: &Command, values: &[&str]) -> Self {
        let mut command = template(helm);
        for value in values {
            command.args(["--set", value]);
        }
        Self::from(&*printed(&mut command))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Value> {
        self.0.iter()
    }

    /// Returns the only document of a kind.
    pub(super) fn one(&self, kind: &str) -> &Value {
        let mut all = self.0.iter().filter(|document| document["kind"] == kind);
        let first = all.next().unwrap_or_else(|| panic!("no {kind}"));
        assert!(all.next().is_none(), "one {kind}");
        first
    }

    /// Returns the document of a kind with this name.
    pub(super) fn named(&self, kind: &str, name: &str) -> &Value {
        let is_it = |it: &&Value| it["kind"] == kind && it["metadata"]["name"] == name;
        self.0.iter().find(is_it).unwrap_or_else(|| panic!("no {kind} {name}"))
    }

    pub(super) fn kinds(&self) -> BTreeSet<&str> {
        self.0.iter().map(|document| at(document, "/kind")).collect()
    }
}

impl From<&str> for Rendered {
    fn from(documents: &str) -> Self {
        Self(documents.split("\n---\n").map(yaml).collect())
    }
}

/// Runs `helm template` for a release `r` in the namespace `n`, without information about the
/// cluster.
pub(super) fn template(helm: &Command) -> Command {
    let mut command = Command::new(helm.get_program());
    // The default version, because Helm built from source assumes an old cluster.
    command.args(["template", "r", "--namespace=n", "--kube-version=1.33.0"]);
    command.arg(root().join(CHART));
    command
}

/// Whether a selector matches these labels.
pub(super) fn finds(selector: &Value, labels: &Value) -> bool {
    let selector = selector.as_object().unwrap();
    !selector.is_empty() && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// Returns the arguments of the pod's only container.
pub(super) fn arguments(pod: &Value) -> Vec<&str> {
    let arguments = pod["spec"]["containers"][0]["args"].as_array().unwrap().iter();
    arguments.map(|argument| argument.as_str().unwrap()).collect()
}

#[test]
fn helm_accepts_the_chart_and_its_values() {
    let Some(mut helm) = tool("helm") else { return };
    printed(helm.args(["lint", "--strict"]).arg(root().join(CHART)));
    for wrong in [
        "replicas=2",
        "kubernetes.replica=2",
        "kubernetes.replicas=0",
        "kubernetes.schedulerNames=null",
        "kubernetes.schedulerNames[0]=A'b",
        "kubernetes.trustUser=maybe",
        "kubernetes.priorityClass.value=2000000000",
        "kubernetes.namespacePolicy.apiVersion=v2",
        "image.digest=0123",
    ] {
        let refused = template(&helm).args(["--set", wrong]).output().unwrap();
        assert!(!refused.status.success(), "`{wrong}` is an error");
    }
}

#[test]
fn a_cluster_that_is_too_old_is_refused_with_a_sentence() {
    let Some(helm) = tool("helm") else { return };
    let on = |version: &str, set: &str| {
        let mut command = Command::new(helm.get_program());
        command.args(["template", "r", "--set", set, "--kube-version", version]);
        command.arg(root().join(CHART)).output().unwrap()
    };
    let refused = on("1.32.9", "kubernetes.enabled=true");
    let errors = String::from_utf8_lossy(&refused.stderr);
    let sentence =
        "kubernetes.enabled needs Kubernetes 1.33 or later, and this cluster has v1.32.9";
    assert!(!refused.status.success() && errors.contains(sentence), "{errors}");
    for (version, enabled) in [("1.32.9", false), ("1.33.0", true), ("1.34.1-eks-1", true)] {
        let taken = on(version, &format!("kubernetes.enabled={enabled}"));
        let errors = String::from_utf8_lossy(&taken.stderr);
        assert!(taken.status.success(), "{version}: {errors}");
    }
}

#[test]
fn the_image_is_named_by_tag_digest_or_version() {
    let Some(helm) = tool("helm") else { return };
    let image = |values: &[&str]| {
        let all = Rendered::of(&helm, values);
        at(&all.one("Deployment")["spec"], "/template/spec/containers/0/image").to_owned()
    };
    let repository = "image.repository=r.example/monoceros";
    let of_digest = format!("sha256:{}", "0".repeat(64));
    let digest = format!("image.digest={of_digest}");
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(image(&[repository]), format!("r.example/monoceros:{version}"));
    assert_eq!(image(&[repository, &digest]), format!("r.example/monoceros@{of_digest}"));
    assert_eq!(image(&[repository, &digest, "image.tag=mine"]), "r.example/monoceros:mine");
}

#[test]
fn the_chart_can_serve_remote_shims() {
    let Some(helm) = tool("helm") else { return };
    let service = "kubernetes.enabled=false";
    let plain = Rendered::of(&helm, &[service]);
    let kinds = ["ConfigMap", "Deployment", "Service", "ServiceAccount"];
    assert_eq!(plain.kinds(), BTreeSet::from(kinds));

    let queues = "partitions: [{name: default\\, queues: [{name: root}]}]";
    let all = Rendered::of(
        &helm,
        &[
            service,
            &format!("queues={queues}"),
            "serviceMonitor.enabled=true",
            "serviceMonitor.bearerTokenSecret.name=scrape",
            "podDisruptionBudget.enabled=true",
            "podLabels.team=a",
            "bindAddress=[::]",
            "env[0].name=RUST_BACKTRACE",
            "env[0].value=full",
            "tolerations[0].key=dedicated",
            // None of these remains.
            "kubernetes.trustUser=true",
            "kubernetes.namespacePolicy.create=true",
        ],
    );
    assert!(!all.kinds().iter().any(|kind| kind.contains("Policy") || kind.contains("Role")));
    let deployment = all.one("Deployment");
    assert_eq!(deployment["spec"]["replicas"], 1);
    assert_eq!(deployment["spec"]["strategy"], json!({"type": "Recreate"}));
    let pod = &deployment["spec"]["template"];
    let container = &pod["spec"]["containers"][0];
    check_arguments(&arguments(pod), "[::]");
    assert_eq!(container["env"], json!([{"name": "RUST_BACKTRACE", "value": "full"}]));
    assert_eq!(pod["spec"]["tolerations"][0]["key"], "dedicated");
    assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
    assert_eq!(all.one("ServiceAccount")["automountServiceAccountToken"], false);
    for nothing in ["affinity", "priorityClassName", "schedulerName"] {
        assert!(pod["spec"][nothing].is_null(), "{nothing}");
    }
    assert_eq!(pod["metadata"]["labels"]["team"], "a");
    assert!(pod["metadata"]["labels"]["monoceros.io/ignore-application"].is_null());
    check_ports(container, all.one("Service"));
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        assert_eq!(container[probe]["httpGet"]["path"], "/healthz");
    }

    // Objects have the labels by which they are selected.
    let (of_pod, budget) = (&pod["metadata"]["labels"], all.one("PodDisruptionBudget"));
    assert!(finds(&deployment["spec"]["selector"]["matchLabels"], of_pod));
    assert!(finds(&all.one("Service")["spec"]["selector"], of_pod));
    assert!(finds(&budget["spec"]["selector"]["matchLabels"], of_pod));
    assert_eq!(budget["spec"]["maxUnavailable"], 0);
    let monitor = &all.one("ServiceMonitor")["spec"];
    let of_service = &all.one("Service")["metadata"]["labels"];
    assert!(finds(&monitor["selector"]["matchLabels"], of_service));
    let endpoint = &monitor["endpoints"][0];
    assert_eq!(endpoint["path"], "/ws/v1/metrics");
    assert_eq!(endpoint["authorization"]["credentials"]["name"], "scrape");

    // The program can parse the files of the pod.
    let data = &all.one("ConfigMap")["data"];
    let settings = TempFile::new("rendered.toml", at(data, "/monoceros.toml"));
    Settings::load(Some(&settings.0), &Flags::default()).unwrap();
    check_queues(at(data, "/queues.yaml"));
}

/// Checks that each port of the Service and of a probe is one of the container.
pub(super) fn check_ports(container: &Value, service: &Value) {
    let ports = container["ports"].as_array().unwrap().iter();
    let named: Vec<_> = ports.map(|port| &port["name"]).collect();
    for port in service["spec"]["ports"].as_array().unwrap() {
        assert!(named.contains(&&port["targetPort"]), "{port}");
    }
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        assert!(named.contains(&&container[probe]["httpGet"]["port"]), "{probe}");
    }
}

/// Checks that the program accepts the queues.
pub(super) fn check_queues(queues: &str) {
    let queues = TempFile::new("rendered.yaml", queues);
    let (code, _, errors) = run(&["validate", queues.path()]);
    assert_eq!(code, Some(0), "{errors}");
}
