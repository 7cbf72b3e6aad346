//! The chart as a cluster of members: a StatefulSet, names for each pod, TLS, and the store of the
//! claims.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use monoceros::settings::{Flags, Settings};
use serde_json::{Value, json};

use super::chart::{CHART, Rendered, arguments, check_ports, check_queues, finds, template};
use super::{at, text, tool, yaml};
use crate::harness::TempFile;

/// Values of a cluster with its claims in ConfigMaps.
const CLUSTER: [&str; 3] =
    ["kubernetes.enabled=false", "cluster.enabled=true", "cluster.tls.secret=members"];

/// Values of one with its claims in etcd.
const ETCD: [&str; 4] = [
    "cluster.arbiter=etcd",
    "cluster.etcd.endpoints={https://e-0:2379,https://e-1:2379}",
    "cluster.etcd.user=monoceros",
    "cluster.etcd.passwordSecret=etcd",
];

/// Returns the value of a variable of the pod's only container.
fn variable<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
    let variables = pod["spec"]["containers"][0]["env"].as_array().unwrap();
    let found = variables.iter().find(|variable| variable["name"] == name)?;
    found["value"].as_str()
}

/// Loads the settings of the pod's variables, as the program does in the pod `r-monoceros-1`.
fn settings(pod: &Value) -> Settings {
    let variables = pod["spec"]["containers"][0]["env"].as_array().unwrap();
    let arguments = arguments(pod);
    let flag = |name| arguments.iter().find_map(|it| it.strip_prefix(name).map(ToOwned::to_owned));
    let flags = Flags { grpc: flag("--grpc="), http: flag("--http="), queues: None };
    let mut lines = String::new();
    for variable in variables {
        let name = at(variable, "/name");
        let Some(key) = name.strip_prefix("MONOCEROS__") else { continue };
        let value = at(variable, "/value").replace("$(POD_NAME)", "r-monoceros-1");
        assert!(!value.contains("$("), "{value}");
        let key = key.to_lowercase().replace("__", ".");
        writeln!(lines, "{key} = '{value}'").unwrap();
    }
    let file = TempFile::new("members.toml", &lines);
    let settings = Settings::load(Some(&file.0), &flags);
    settings.unwrap_or_else(|error| panic!("{error}\n{lines}"))
}

#[test]
fn members_are_pods_with_names() {
    let Some(helm) = tool("helm") else { return };
    let all = Rendered::of(&helm, &[&CLUSTER[..], &ETCD].concat());
    let kinds = ["ConfigMap", "PodDisruptionBudget", "Service", "ServiceAccount", "StatefulSet"];
    assert_eq!(all.kinds(), BTreeSet::from(kinds));
    let set = &all.one("StatefulSet")["spec"];
    assert_eq!(set["replicas"], 3);
    let pod = &set["template"];
    let labels = &pod["metadata"]["labels"];
    let container = &pod["spec"]["containers"][0];
    for (name, field) in [("POD_NAME", "metadata.name"), ("POD_NAMESPACE", "metadata.namespace")] {
        let variable = json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}});
        assert!(container["env"].as_array().unwrap().contains(&variable), "{name}");
    }
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/healthz");

    // The members' addresses are names of the headless Service, and are known before they are ready.
    let headless = all.named("Service", at(set, "/serviceName"));
    assert_eq!(headless["spec"]["clusterIP"], "None");
    assert_eq!(headless["spec"]["publishNotReadyAddresses"], true);
    for service in [headless, all.named("Service", "r-monoceros")] {
        check_ports(container, service);
        assert!(finds(&service["spec"]["selector"], labels));
    }
    let cluster = settings(pod).cluster;
    let ports = headless["spec"]["ports"].as_array().unwrap().iter();
    let ports: Vec<_> = ports.map(|port| port["port"].as_u64().unwrap()).collect();
    let advertised = [cluster.advertise.grpc, cluster.advertise.rest, cluster.advertise.internal];
    let expected =
        ports.iter().map(|port| format!("r-monoceros-1.r-monoceros-members.n.svc:{port}"));
    assert_eq!(advertised.map(Option::unwrap).to_vec(), expected.collect::<Vec<_>>());
    assert_eq!(u64::from(cluster.listen.port()), ports[2]);
    assert!(cluster.listen.ip().is_unspecified());

    let budget = &all.one("PodDisruptionBudget")["spec"];
    assert_eq!(budget["maxUnavailable"], 1);
    assert!(finds(&budget["selector"]["matchLabels"], labels));
    assert!(finds(&set["selector"]["matchLabels"], labels));
    assert!(!pod["spec"]["affinity"]["podAntiAffinity"].is_null());
}

#[test]
fn claims_in_etcd_need_no_right() {
    let Some(helm) = tool("helm") else { return };
    let all = Rendered::of(&helm, &[&CLUSTER[..], &ETCD].concat());
    let pod = &all.one("StatefulSet")["spec"]["template"];
    assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
    assert_eq!(all.one("ServiceAccount")["automountServiceAccountToken"], false);
    let cluster = settings(pod).cluster;
    assert_eq!(cluster.arbiter.name(), "etcd");
    assert_eq!(cluster.endpoints, ["https://e-0:2379", "https://e-1:2379"]);
    assert_eq!(cluster.name, "n-r-monoceros", "etcd may serve several namespaces");
    assert_eq!(cluster.user.as_deref(), Some("monoceros"));
    assert_eq!(
        cluster.tls.names.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["dns=r-monoceros-members.n.svc"]
    );
    // Each file of the settings is in a Secret that is mounted.
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    let mounts = pod["spec"]["containers"][0]["volumeMounts"].as_array().unwrap();
    let tls = [cluster.tls.ca, cluster.tls.certificate, cluster.tls.key].map(Option::unwrap);
    let files = tls.map(|file| (file, "members")).into_iter();
    for (file, secret) in files.chain([(cluster.password_file.unwrap(), "etcd")]) {
        let folder = file.parent().unwrap().to_str().unwrap();
        let mount = mounts.iter().find(|mount| mount["mountPath"] == folder).unwrap();
        let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).unwrap();
        assert_eq!(volume["secret"]["secretName"], secret, "{}", file.display());
    }
}

#[test]
fn etcd_may_go_without_the_certificates_of_members() {
    let Some(helm) = tool("helm") else { return };
    let http = ["cluster.arbiter=etcd", "cluster.etcd.endpoints={http://e-0:2379,http://e-1:2379}"];
    let all = Rendered::of(&helm, &[&CLUSTER[..], &http].concat());
    let cluster = settings(&all.one("StatefulSet")["spec"]["template"]).cluster;
    assert_eq!(cluster.endpoints, ["http://e-0:2379", "http://e-1:2379"]);
    assert!(cluster.tls.ca.is_some() && !cluster.tls.names.is_empty());
}

#[test]
fn claims_in_config_maps_need_one_role() {
    let Some(helm) = tool("helm") else { return };
    let all = Rendered::of(&helm, &CLUSTER);
    let pod = &all.one("StatefulSet")["spec"]["template"];
    assert_eq!(pod["spec"]["automountServiceAccountToken"], true);
    assert_eq!(all.one("ServiceAccount")["automountServiceAccountToken"], true);
    assert!(!all.kinds().contains("ClusterRole"));
    let rules = yaml(&text(&format!("{CHART}/files/rules.yaml")));
    let (role, binding) = (all.one("Role"), all.one("RoleBinding"));
    assert_eq!(role["rules"], rules["member"]);
    assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
    let account = &pod["spec"]["serviceAccountName"];
    let who = json!([{"kind": "ServiceAccount", "name": account, "namespace": "n"}]);
    assert_eq!(binding["subjects"], who);
    assert_eq!(variable(pod, "MONOCEROS__CLUSTER__ARBITER"), Some("kubernetes"));
    assert_eq!(variable(pod, "MONOCEROS__CLUSTER__NAME"), Some("r-monoceros"));
    assert_eq!(variable(pod, "MONOCEROS__CLUSTER__ENDPOINTS"), None);
    if cfg!(feature = "kubernetes") {
        assert!(settings(pod).cluster.is_on());
    }
}

#[test]
fn values_of_a_cluster_are_heeded() {
    let Some(helm) = tool("helm") else { return };
    let queues = "partitions: [{name: default\\, queues: [{name: root}]}]";
    let more = [
        &format!("queues={queues}"),
        "cluster.replicas=5",
        "cluster.name=west",
        "cluster.lease=10s",
        "cluster.tls.names={dns=a.example,cn=b}",
        "bindAddress=[::]",
        "serviceMonitor.enabled=true",
        "affinity.nodeAffinity.x=1",
        "podDisruptionBudget.maxUnavailable=0",
    ];
    let all = Rendered::of(&helm, &[&CLUSTER[..], &ETCD, &more].concat());
    let set = &all.one("StatefulSet")["spec"];
    assert_eq!(set["replicas"], 5);
    let pod = &set["template"];
    let cluster = settings(pod).cluster;
    assert_eq!((&*cluster.name, cluster.lease.as_secs()), ("west", 10));
    assert_eq!(cluster.listen.to_string(), "[::]:50061");
    assert_eq!(variable(pod, "MONOCEROS__CLUSTER__TLS__NAMES"), Some("dns=a.example,cn=b"));
    assert_eq!(pod["spec"]["affinity"], json!({"nodeAffinity": {"x": 1}}));
    assert_eq!(all.one("PodDisruptionBudget")["spec"]["maxUnavailable"], 1);
    assert!(arguments(pod).contains(&"--queues=/etc/monoceros/queues.yaml"));
    check_queues(at(all.one("ConfigMap"), "/data/queues.yaml"));
    // A member that is not ready is scraped, too.
    let monitor = &all.one("PodMonitor")["spec"];
    assert!(finds(&monitor["selector"]["matchLabels"], &pod["metadata"]["labels"]));
}

#[test]
fn contradictions_of_a_cluster_are_refused_with_a_sentence() {
    let Some(helm) = tool("helm") else { return };
    let long = format!("fullnameOverride={}", "a".repeat(53));
    let lease = "have a Lease, and are no members";
    for (set, sentence) in [
        (vec!["kubernetes.enabled=true"], lease),
        (vec!["cluster.tls.secret="], "cluster.enabled needs cluster.tls.secret"),
        (vec!["cluster.arbiter=etcd"], "cluster.arbiter=etcd needs cluster.etcd.endpoints"),
        (vec!["cluster.etcd.user=u"], "cluster.etcd.passwordSecret need each other"),
        (vec!["cluster.etcd.passwordSecret=p"], "cluster.etcd.passwordSecret need each other"),
        (vec![&*long], "set fullnameOverride to a shorter one"),
        (vec!["cluster.arbiter=none"], "arbiter"),
        (vec!["cluster.lease=soon"], "lease"),
        (vec!["cluster.replicas=0"], "replicas"),
        (vec!["cluster.name=West"], "name"),
        (vec!["cluster.tls.names={members}"], "names"),
        (vec!["cluster.etcd.endpoints={e:2379}"], "endpoints"),
    ] {
        let mut command = template(&helm);
        for value in CLUSTER.iter().chain(&set) {
            command.args(["--set", value]);
        }
        let refused = command.output().unwrap();
        let errors = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && errors.contains(sentence), "{set:?}: {errors}");
    }
}
