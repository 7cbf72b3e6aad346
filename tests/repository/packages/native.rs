//! The chart as the scheduler of a cluster, and the plain manifests, which equal the chart with its
//! defaults. They are committed, so they can be checked without Helm.

use std::process::Command;

use expect_test::expect_file;
use monoceros::settings::{Flags, Settings};
use serde_json::{Value, json};

use super::chart::{CHART, Rendered, arguments, check_ports, check_queues, finds, template};
use super::{at, printed, root, skipped, text, tool, yaml};
use crate::harness::{TempFile, run};

/// The head of the manifests. `kubectl apply` does not create the namespace by itself.
const HEAD: &str = "\
# `monoceros kubernetes` for a cluster: the Helm chart with its defaults, for `kubectl apply --filename`. The image
# has to be where the cluster looks (docs/install.md). It is made from the chart, by this command:
#   MONOCEROS_TOOLS=install UPDATE_EXPECT=1 cargo test --test repository packages::native
apiVersion: v1
kind: Namespace
metadata:
  name: monoceros
";

/// Returns the plain manifests.
fn manifests() -> Rendered {
    Rendered::from(&*text("deploy/kubernetes/monoceros.yaml"))
}

#[test]
fn the_manifests_are_the_chart_with_its_defaults() {
    let Some(helm) = tool("helm") else { return };
    let mut command = Command::new(helm.get_program());
    command.args(["template", "monoceros", "--namespace=monoceros", "--kube-version=1.33.0"]);
    let chart = printed(command.arg(root().join(CHART)));
    expect_file!["../../../deploy/kubernetes/monoceros.yaml"].assert_eq(&format!("{HEAD}{chart}"));
}

#[test]
fn everything_is_in_the_namespace_that_is_made() {
    let manifests = manifests();
    let namespace = at(manifests.one("Namespace"), "/metadata/name");
    for document in manifests.all() {
        let kind = at(document, "/kind");
        let is_of_the_cluster =
            matches!(kind, "ClusterRole" | "ClusterRoleBinding" | "Namespace" | "PriorityClass");
        let found = document["metadata"]["namespace"].as_str();
        assert_eq!(found, (!is_of_the_cluster).then_some(namespace), "{kind}");
    }
}

#[test]
fn two_replicas_are_started_one_of_which_schedules() {
    let manifests = manifests();
    let deployment = &manifests.one("Deployment")["spec"];
    assert_eq!(deployment["replicas"], 2);
    // A new pod is ready before an old one ends: readiness needs the cluster, not the lease.
    let gently =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}});
    assert_eq!(deployment["strategy"], gently);
    let pod = &deployment["template"];
    check_pod(pod);
    let arguments = arguments(pod);
    assert_eq!(
        arguments,
        [
            "kubernetes",
            "--config=/etc/monoceros/monoceros.toml",
            "--lease=monoceros",
            "--scheduler-name=monoceros",
            "--grpc=0.0.0.0:50051",
            "--http=0.0.0.0:9080",
        ]
    );
    check_accepted(&arguments);
    let data = &manifests.one("ConfigMap")["data"];
    assert_eq!(pod["spec"]["volumes"][0]["configMap"]["name"], "monoceros");
    let settings = TempFile::new("native.toml", at(data, "/monoceros.toml"));
    let settings = Settings::load(Some(&settings.0), &Flags::default()).unwrap();
    assert_eq!(settings.kubernetes.scheduler_names, ["monoceros"]);
    assert!(!settings.kubernetes.trust_user);
    // The process releases its lease, and its edges have their grace period.
    let grace = pod["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(grace > settings.shutdown.grace + 4, "{grace}");

    let budget = &manifests.one("PodDisruptionBudget")["spec"];
    assert_eq!(budget["maxUnavailable"], 1, "no node is kept from being drained");
    assert!(finds(&budget["selector"]["matchLabels"], &pod["metadata"]["labels"]));
    assert!(finds(&deployment["selector"]["matchLabels"], &pod["metadata"]["labels"]));
    for term in pod["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        .as_array()
        .unwrap()
    {
        let selector = &term["podAffinityTerm"]["labelSelector"]["matchLabels"];
        assert!(finds(selector, &pod["metadata"]["labels"]), "{term}");
    }
}

/// Checks that every pod of the scheduler has the required fields, whatever the values are.
fn check_pod(pod: &Value) {
    let spec = &pod["spec"];
    assert_eq!(spec["schedulerName"], "default-scheduler", "it cannot schedule itself");
    assert_eq!(pod["metadata"]["labels"]["monoceros.io/ignore-application"], "true");
    assert_eq!(spec["automountServiceAccountToken"], true);
    assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
    let container = &spec["containers"][0];
    for (place, probe) in ["/healthz", "/readyz", "/healthz"].into_iter().zip([
        "startupProbe",
        "readinessProbe",
        "livenessProbe",
    ]) {
        assert_eq!(container[probe]["httpGet"]["path"], place, "{probe}");
    }
    for (name, field) in [("POD_NAME", "metadata.name"), ("POD_NAMESPACE", "metadata.namespace")] {
        let value = json!({"fieldRef": {"fieldPath": field}});
        let variable = json!({"name": name, "valueFrom": value});
        assert!(container["env"].as_array().unwrap().contains(&variable), "{name}");
        if cfg!(feature = "kubernetes") {
            let source = text("src/cli/kubernetes.rs");
            assert!(source.contains(&format!("const {name}: &str = \"{name}\";")), "{name}");
        }
    }
}

/// Checks that the command line accepts these arguments.
fn check_accepted(arguments: &[&str]) {
    if !cfg!(feature = "kubernetes") {
        return skipped("this program has no feature `kubernetes`, so its arguments are not tried");
    }
    // A mistake before `--help` is an error.
    let (code, _, errors) = run(&[arguments, &["--help"]].concat());
    assert_eq!(code, Some(0), "{arguments:?}: {errors}");
    let (code, ..) = run(&[arguments, &["--nothing", "--help"]].concat());
    assert_eq!(code, Some(2), "an argument that is not known");
}

#[test]
fn the_service_leads_to_the_replica_that_schedules() {
    let manifests = manifests();
    let service = manifests.one("Service");
    let pod = &manifests.one("Deployment")["spec"]["template"];
    let leader = "monoceros.io/leader";
    #[cfg(feature = "kubernetes")]
    assert_eq!(leader, monoceros_kubernetes::connect::LEADER);
    let labels = &pod["metadata"]["labels"];
    assert!(labels[leader].is_null(), "no pod has it from the beginning");
    assert!(!finds(&service["spec"]["selector"], labels));
    let mut leading = labels.clone();
    leading[leader] = json!("true");
    assert!(finds(&service["spec"]["selector"], &leading));
    check_ports(&pod["spec"]["containers"][0], service);
}

#[test]
fn the_pod_account_has_the_documented_rights() {
    let manifests = manifests();
    let pod = &manifests.one("Deployment")["spec"]["template"];
    check_rights(&manifests, pod, "monoceros");
}

/// Checks that the pod's account has the rights of the file, including its lease.
fn check_rights(manifests: &Rendered, pod: &Value, namespace: &str) {
    let arguments = arguments(pod);
    let lease = arguments.iter().find_map(|it| it.strip_prefix("--lease=")).unwrap();
    let rules = yaml(&text(&format!("{CHART}/files/rules.yaml")).replace("LEASE", lease));
    for (kind, rules) in [("ClusterRole", &rules["cluster"]), ("Role", &rules["own"])] {
        let role = manifests.one(kind);
        assert_eq!(&role["rules"], rules, "{kind}");
        let binding = manifests.one(&format!("{kind}Binding"));
        assert_eq!(binding["roleRef"]["kind"], kind);
        assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
        let account = pod["spec"]["serviceAccountName"].as_str().unwrap();
        let who = json!([{"kind": "ServiceAccount", "name": account, "namespace": namespace}]);
        assert_eq!(binding["subjects"], who);
    }
}

#[test]
fn the_scheduler_has_a_priority_of_its_own() {
    let manifests = manifests();
    let class = manifests.one("PriorityClass");
    let pod = &manifests.one("Deployment")["spec"]["template"]["spec"];
    assert_eq!(pod["priorityClassName"], class["metadata"]["name"]);
    assert_eq!(class["value"], 1_000_000_000, "the most that is not the system's");
    assert_eq!(class["globalDefault"], false);
}

#[test]
fn values_for_a_cluster_are_heeded() {
    let Some(helm) = tool("helm") else { return };
    let queues = "partitions: [{name: default\\, queues: [{name: root}]}]";
    let all = Rendered::of(
        &helm,
        &[
            &format!("queues={queues}"),
            "kubernetes.replicas=3",
            "kubernetes.schedulerNames={monoceros,yunikorn}",
            "kubernetes.priorityClass.create=false",
            "serviceAccount.create=false",
            "serviceAccount.name=other",
            "serviceMonitor.enabled=true",
            "env[0].name=RUST_BACKTRACE",
            "env[0].value=full",
            "affinity.nodeAffinity.x=1",
            "probes.scheme=HTTPS",
        ],
    );
    let kinds = all.kinds();
    assert!(!kinds.contains("PriorityClass") && !kinds.contains("ServiceAccount"), "{kinds:?}");
    assert!(!kinds.iter().any(|kind| kind.contains("Policy")), "{kinds:?}");
    let deployment = &all.one("Deployment")["spec"];
    assert_eq!(deployment["replicas"], 3);
    let pod = &deployment["template"];
    check_pod(pod);
    check_rights(&all, pod, "n");
    let arguments = arguments(pod);
    check_accepted(&arguments);
    let names = arguments.iter().filter_map(|it| it.strip_prefix("--scheduler-name="));
    assert_eq!(names.collect::<Vec<_>>(), ["monoceros", "yunikorn"]);
    assert!(!arguments.iter().any(|it| it.starts_with("--queues")), "a ConfigMap has them");
    let map = all.named("ConfigMap", "monoceros-configs");
    check_queues(at(map, "/data/queues.yaml"));
    assert!(all.named("ConfigMap", "r-monoceros")["data"]["queues.yaml"].is_null());
    let container = &pod["spec"]["containers"][0];
    let variables = container["env"].as_array().unwrap();
    assert!(variables.contains(&json!({"name": "RUST_BACKTRACE", "value": "full"})));
    assert_eq!(container["readinessProbe"]["httpGet"]["scheme"], "HTTPS");
    assert!(pod["spec"]["priorityClassName"].is_null());
    assert_eq!(pod["spec"]["affinity"], json!({"nodeAffinity": {"x": 1}}));

    // The standby replica is scraped, too.
    let monitor = &all.one("PodMonitor")["spec"];
    assert!(finds(&monitor["selector"]["matchLabels"], &pod["metadata"]["labels"]));
    let endpoint = &monitor["podMetricsEndpoints"][0];
    assert_eq!(endpoint["path"], "/ws/v1/metrics");
    assert_eq!(endpoint["port"], container["ports"][1]["name"]);
}

/// Returns the file of policies with placeholders replaced.
fn policy(name: &str, words: &[(&str, &str)]) -> Value {
    let mut file = text(&format!("{CHART}/files/admission.yaml"));
    for (word, means) in words {
        assert!(file.contains(word), "`{word}`");
        file = file.replace(word, means);
    }
    yaml(&file)[name].clone()
}

#[test]
fn trusted_users_need_the_policy() {
    let Some(helm) = tool("helm") else { return };
    let trusts = |all: &Rendered| {
        let pod = &all.one("Deployment")["spec"]["template"]["spec"];
        let variables = pod["containers"][0]["env"].as_array().unwrap();
        let name = "MONOCEROS__KUBERNETES__TRUST_USER";
        let found = variables.iter().find(|variable| variable["name"] == name).unwrap();
        found["value"].as_str().unwrap().to_owned()
    };
    assert_eq!(trusts(&Rendered::of(&helm, &[])), "false");
    let (count, trusted) = ("kubernetes.trustUser=true", "kubernetes.userPolicy.trusted={a:b,c<d}");
    let all = Rendered::of(&helm, &[count, trusted]);
    assert_eq!(trusts(&all), "true");
    let kind = "ValidatingAdmissionPolicy";
    let file = policy("user", &[("TRUSTED", r#"["a:b","c\u003cd"]"#)]);
    assert_eq!(all.one(kind)["spec"], file);
    let binding = all.one(&format!("{kind}Binding"));
    assert_eq!(binding["spec"]["policyName"], all.one(kind)["metadata"]["name"]);
    assert_eq!(binding["spec"]["validationActions"], json!(["Deny"]));

    let own = Rendered::of(&helm, &[count, "kubernetes.userPolicy.create=false"]);
    assert_eq!(trusts(&own), "true");
    assert!(!own.kinds().contains(kind), "there is a guard of their own");
}

#[test]
fn labelled_namespaces_get_the_scheduler() {
    let Some(helm) = tool("helm") else { return };
    let create = "kubernetes.namespacePolicy.create=true";
    let group = "admissionregistration.k8s.io";
    let mut unable = template(&helm);
    let output = unable.args(["--set", create]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("no MutatingAdmissionPolicy"));

    for version in ["v1", "v1beta1"] {
        let setting = format!("kubernetes.namespacePolicy.apiVersion={version}");
        let more = ["kubernetes.namespacePolicy.label=x/y", "kubernetes.schedulerNames={a,b}"];
        let all = Rendered::of(&helm, &[&[create, &setting], &more[..]].concat());
        let kind = "MutatingAdmissionPolicy";
        let (found, binding) = (all.one(kind), all.one(&format!("{kind}Binding")));
        assert_eq!(found["spec"], policy("scheduler", &[("SCHEDULER", "a")]));
        assert_eq!(found["apiVersion"], format!("{group}/{version}"));
        assert_eq!(binding["apiVersion"], found["apiVersion"]);
        assert_eq!(binding["spec"]["policyName"], found["metadata"]["name"]);
        let selector = &binding["spec"]["matchResources"]["namespaceSelector"];
        assert_eq!(selector["matchLabels"], json!({"x/y": "true"}));

        // The same, if the cluster reports it.
        let mut able = template(&helm);
        able.args(["--set", create, "--api-versions"]);
        let text = printed(able.arg(format!("{group}/{version}/{kind}")));
        assert!(text.contains(&format!("apiVersion: {group}/{version}\nkind: {kind}\n")));
    }
}
