//! The Helm chart: its templates and its values fit each other, and what it starts is a command of the
//! program. Where there is Helm, what it makes of the chart is looked at, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use monoceros::settings::{Flags, Settings};
use regex::Regex;
use serde_json::Value;

use super::{at, printed, root, served, text, tool, yaml};
use crate::harness::{TempFile, run};

const CHART: &str = "deploy/helm/monoceros";

/// The templates by name.
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
fn each_value_is_used_by_a_template_and_each_template_uses_values_that_are_there() {
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
    let mut unused = Vec::new();
    for (name, value) in values.as_object().unwrap() {
        // What is handed on whole is not looked into.
        let whole = format!("/{name}");
        let parts = value.as_object().into_iter().flatten();
        let mut parts: Vec<_> = parts.map(|(part, _)| format!("{whole}/{part}")).collect();
        if parts.is_empty() || used.contains(&whole) {
            parts = vec![whole];
        }
        unused.extend(parts.into_iter().filter(|pointer| !used.contains(pointer)));
    }
    assert_eq!(unused, [""; 0]);
}

#[test]
fn the_schema_knows_each_value_and_no_other() {
    let schema = yaml(&text(&format!("{CHART}/values.schema.json")));
    check_against(&schema, &values(), "values");
}

/// Looks that an object whose schema is closed has the keys that the schema has.
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
fn each_block_of_a_template_ends_and_each_part_that_is_included_is_defined() {
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
fn the_pod_runs_the_service_where_its_ports_and_files_are() {
    let address = at(&values(), "/bindAddress").to_owned();
    let deployment = templates()["deployment.yaml"].replace("{{ .Values.bindAddress }}", &address);
    let lines = deployment.lines().map(|line| line.trim().trim_start_matches("- "));
    let arguments = lines.filter(|line| *line == "serve" || line.starts_with("--"));
    check_arguments(&arguments.collect::<Vec<_>>(), "0.0.0.0");
    let said = |line: &str| deployment.lines().any(|found| found.trim() == line);
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
        assert!(said(line), "`{line}`");
    }
    for probe in ["startupProbe:", "readinessProbe:", "livenessProbe:"] {
        assert!(said(probe), "`{probe}`");
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
fn the_settings_of_the_chart_are_those_of_the_service() {
    let settings = TempFile::new("chart.toml", at(&values(), "/settings"));
    let settings = Settings::load(Some(&settings.0), &Flags::default()).unwrap();
    let grace = values()["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(grace > settings.shutdown.grace, "a pod is killed after {grace} s");
}

/// What Helm makes of the chart with these settings, by kind.
fn rendered(helm: &str, settings: &[&str]) -> BTreeMap<String, Value> {
    let mut command = Command::new(helm);
    // As it is where nobody says: Helm built from source believes that clusters are old.
    command.args(["template", "r", "--kube-version=1.30.0"]).arg(root().join(CHART));
    for setting in settings {
        command.args(["--set", setting]);
    }
    let text = printed(&mut command);
    let documents = text.split("\n---\n").map(yaml);
    documents.map(|document| (at(&document, "/kind").to_owned(), document)).collect()
}

#[test]
fn helm_makes_of_the_chart_what_a_cluster_takes() {
    let Some(mut helm) = tool("helm") else { return };
    let program = helm.get_program().to_str().unwrap().to_owned();
    printed(helm.args(["lint", "--strict"]).arg(root().join(CHART)));

    let plain: Vec<_> = rendered(&program, &[]).into_keys().collect();
    assert_eq!(plain, ["ConfigMap", "Deployment", "Service", "ServiceAccount"]);

    let queues = "partitions: [{name: default\\, queues: [{name: root}]}]";
    let all = rendered(
        &program,
        &[
            &format!("queues={queues}"),
            "serviceMonitor.enabled=true",
            "serviceMonitor.bearerTokenSecret.name=scrape",
            "podDisruptionBudget.enabled=true",
            "podLabels.team=a",
            "bindAddress=[::]",
            "env[0].name=RUST_BACKTRACE",
            "env[0].value=1",
            "tolerations[0].key=dedicated",
        ],
    );
    let pod = &all["Deployment"]["spec"]["template"];
    let container = &pod["spec"]["containers"][0];
    let arguments = container["args"].as_array().unwrap().iter();
    let arguments: Vec<&str> = arguments.map(|argument| argument.as_str().unwrap()).collect();
    check_arguments(&arguments, "[::]");
    assert_eq!(container["env"][0]["name"], "RUST_BACKTRACE");
    assert_eq!(pod["spec"]["tolerations"][0]["key"], "dedicated");
    assert_eq!(pod["metadata"]["labels"]["team"], "a");
    let named: Vec<_> =
        container["ports"].as_array().unwrap().iter().map(|port| &port["name"]).collect();
    for port in all["Service"]["spec"]["ports"].as_array().unwrap() {
        assert!(named.contains(&&port["targetPort"]), "{port}");
    }
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        assert_eq!(container[probe]["httpGet"]["path"], "/healthz");
        assert!(named.contains(&&container[probe]["httpGet"]["port"]));
    }

    // Whoever is to be found by labels has them.
    let labels = |of: &Value| of.as_object().unwrap().clone();
    let of_pod = labels(&pod["metadata"]["labels"]);
    for selector in [
        &all["Deployment"]["spec"]["selector"]["matchLabels"],
        &all["Service"]["spec"]["selector"],
        &all["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
    ] {
        assert!(labels(selector).iter().all(|(key, value)| of_pod.get(key) == Some(value)));
    }
    let of_service = labels(&all["Service"]["metadata"]["labels"]);
    let monitored = labels(&all["ServiceMonitor"]["spec"]["selector"]["matchLabels"]);
    assert!(monitored.iter().all(|(key, value)| of_service.get(key) == Some(value)));
    let endpoint = &all["ServiceMonitor"]["spec"]["endpoints"][0];
    assert_eq!(endpoint["path"], "/ws/v1/metrics");
    assert_eq!(endpoint["authorization"]["credentials"]["name"], "scrape");

    // What the pod reads, the program can read.
    let data = &all["ConfigMap"]["data"];
    let settings = TempFile::new("rendered.toml", at(data, "/monoceros.toml"));
    Settings::load(Some(&settings.0), &Flags::default()).unwrap();
    let queues = TempFile::new("rendered.yaml", at(data, "/queues.yaml"));
    let (code, _, errors) = run(&["validate", queues.path()]);
    assert_eq!(code, Some(0), "{errors}");

    let mut command = Command::new(&program);
    command.args(["template", "r", "--kube-version=1.30.0", "--set", "replicas=2"]);
    let refused = command.arg(root().join(CHART)).output().unwrap();
    assert!(!refused.status.success(), "a value that is not known is an error");
}
