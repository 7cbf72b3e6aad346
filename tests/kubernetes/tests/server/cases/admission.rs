//! The chart's admission policies, and the start from its plain manifests.

use anyhow::{Context as _, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::bed::SHIM;
use crate::cluster::{Cluster, eventually, merge};

const POLICIES: &str = include_str!("../../../../../deploy/helm/monoceros/files/admission.yaml");
const VALUES: &str = include_str!("../../../../../deploy/helm/monoceros/values.yaml");
const MANIFESTS: &str = include_str!("../../../../../deploy/kubernetes/monoceros.yaml");
const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1";
const ALL: &str = "system:authenticated";

/// A user with groups.
type Who = (&'static str, &'static [&'static str]);

/// Creates the policies of users and of labelled namespaces, as the chart renders them.
fn policy(name: &str) -> anyhow::Result<Value> {
    let values: Value = serde_saphyr::from_str(VALUES)?;
    let trusted = values["kubernetes"]["userPolicy"]["trusted"].to_string();
    let scheduler = values["kubernetes"]["schedulerNames"][0].as_str().context("a name")?;
    let text = POLICIES.replace("TRUSTED", &trusted).replace("SCHEDULER", scheduler);
    let mut policies: Value = serde_saphyr::from_str(&text)?;
    Ok(policies[name].take())
}

/// Sends an object as this user in a dry run. The inner error is the refusal of a policy.
async fn tried(
    cluster: &Cluster,
    (user, groups): Who,
    (method, path): (&str, &str),
    body: &Value,
) -> anyhow::Result<Result<Value, String>> {
    let kind = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let mut request = http::Request::builder()
        .method(method)
        .uri(format!("{path}?dryRun=All&fieldValidation=Strict"))
        .header("content-type", kind)
        .header("impersonate-user", user);
    for group in groups.iter().chain([&ALL]) {
        request = request.header("impersonate-group", *group);
    }
    let request = request.body(body.to_string().into_bytes())?;
    match cluster.client.request(request).await {
        Ok(made) => Ok(Ok(made)),
        Err(kube::Error::Api(status)) if status.message.contains("denied request") => {
            Ok(Err(status.message))
        }
        Err(why) => Err(why).with_context(|| format!("{method} {path} {body}")),
    }
}

fn pod(metadata: &Value, spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "c"}]},
    });
    merge(&mut pod["metadata"], metadata.clone());
    merge(&mut pod["spec"], spec.clone());
    pod
}

const ADA: Who = ("ada", &["dev", "ops"]);
const PODS: &str = "/api/v1/namespaces/users/pods";

fn named(name: &str) -> Value {
    json!({"labels": {"yunikorn.apache.org/username": name}})
}

pub async fn nobody_states_another_user(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("users", json!({})).await?;
    // All users may create anything, so the refusal comes from the policy.
    let group = "rbac.authorization.k8s.io";
    let everybody = json!({
        "metadata": {"name": "everybody"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": ALL}],
    });
    let rights = format!("/apis/{group}/v1/clusterrolebindings");
    cluster.create(&rights, everybody).await?;
    let policies = format!("{REGISTRATION}/validatingadmissionpolicies");
    let bindings = format!("{REGISTRATION}/validatingadmissionpolicybindings");
    let policy = json!({"metadata": {"name": "users"}, "spec": policy("user")?});
    cluster.create(&policies, policy).await?;
    let binding = json!({"policyName": "users", "validationActions": ["Deny"]});
    let binding = json!({"metadata": {"name": "users"}, "spec": binding});
    cluster.create(&bindings, binding).await?;
    eventually("the policy to be in force", async || {
        let bobs = pod(&named("bob"), &json!({}));
        let answer = tried(cluster, ADA, ("POST", PODS), &bobs).await?;
        Ok(answer.err().map(drop).ok_or_else(|| "bob's name is taken from ada".to_owned()))
    })
    .await?;
    pods_that_state(cluster).await?;
    templates_that_state(cluster).await?;
    changes_that_state(cluster).await?;
    cluster.delete(&format!("{bindings}/users")).await?;
    cluster.delete(&format!("{policies}/users")).await?;
    cluster.delete(&format!("{rights}/everybody")).await
}

async fn pods_that_state(cluster: &Cluster) -> anyhow::Result<()> {
    let info = |text: &str| json!({"annotations": {"monoceros.io/user.info": text}});
    let theirs = |text: &str| json!({"annotations": {"yunikorn.apache.org/user.info": text}});
    let named_by_annotation = json!({"annotations": {"monoceros.io/username": "bob"}});
    let in_a_domain: Who = ("CORP\\ada", &[]);
    // Templates that a controller copies were checked before. Those of an operator were not.
    let copier: Who = ("system:serviceaccount:kube-system:replicaset-controller", &[]);
    let operator: Who = ("system:serviceaccount:spark:operator", &[]);
    for (who, metadata, is_admitted) in [
        (ADA, json!({}), true),
        (ADA, named("ada"), true),
        (ADA, named("bob"), false),
        (ADA, named_by_annotation, false),
        (ADA, info(r#"{"user": "ada"}"#), true),
        (ADA, info(r#"{"user":"ada","groups":["ops","dev"]}"#), true),
        (ADA, theirs(r#" {"user": "ada", "groups": []} "#), true),
        (ADA, info(r#"{"user": "bob", "groups": []}"#), false),
        (ADA, theirs(r#"{"user": "bob"}"#), false),
        (ADA, info(r#"{"user": "ada", "groups": ["dev", "admin"]}"#), false),
        (ADA, info(r#"{"user": "ada", "groups": ["groups"]}"#), false),
        (ADA, info(r#"{"user": "ada", "user": "bob"}"#), false),
        (ADA, info(r#"{"user": "\u0061da"}"#), false),
        (ADA, info("bob"), false),
        (in_a_domain, info(r#"{"user": "CORP\\ada"}"#), true),
        (in_a_domain, info(r#"{"user": "CORP/ada"}"#), false),
        (copier, named("bob"), true),
        (operator, named("bob"), false),
        (operator, json!({}), true),
    ] {
        let body = pod(&metadata, &json!({}));
        let answer = tried(cluster, who, ("POST", PODS), &body).await?;
        ensure!(answer.is_ok() == is_admitted, "{who:?} makes {metadata}: {answer:?}");
        if let Err(why) = answer {
            ensure!(why.contains("a pod may name its user"), "{why}");
        }
    }
    Ok(())
}

/// Every kind that has a pod template.
fn workloads(user: &str) -> [(&'static str, &'static str, Value); 7] {
    let labels = json!({"a": "b", "yunikorn.apache.org/username": user});
    let template = |restarts: &str| {
        json!({"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "c"}], "restartPolicy": restarts}})
    };
    let selector = json!({"matchLabels": {"a": "b"}});
    let lasting = json!({"selector": selector, "template": template("Always")});
    let mut named = lasting.clone();
    named["serviceName"] = json!("s");
    let once = json!({"template": template("Never")});
    let timed = json!({"schedule": "* * * * *", "jobTemplate": {"spec": once}});
    let replicated = json!({"selector": {"a": "b"}, "template": template("Always")});
    [
        ("/apis/apps/v1", "deployments", lasting.clone()),
        ("/apis/apps/v1", "replicasets", lasting.clone()),
        ("/apis/apps/v1", "daemonsets", lasting),
        ("/apis/apps/v1", "statefulsets", named),
        ("/apis/batch/v1", "jobs", once),
        ("/apis/batch/v1", "cronjobs", timed),
        ("/api/v1", "replicationcontrollers", replicated),
    ]
}

async fn templates_that_state(cluster: &Cluster) -> anyhow::Result<()> {
    for (name, is_admitted) in [("ada", true), ("bob", false)] {
        for (root, plural, spec) in workloads(name) {
            let path = format!("{root}/namespaces/users/{plural}");
            let body = json!({"metadata": {"name": "w"}, "spec": spec});
            let answer = tried(cluster, ADA, ("POST", &path), &body).await?;
            ensure!(answer.is_ok() == is_admitted, "ada makes {plural} of {name}: {answer:?}");
        }
    }
    Ok(())
}

/// An unchanged statement is not checked again.
async fn changes_that_state(cluster: &Cluster) -> anyhow::Result<()> {
    cluster.create(PODS, pod(&named("admin"), &json!({}))).await?;
    let change = ("PATCH", &*format!("{PODS}/p"));
    let bob: Who = ("bob", &[]);
    for (key, value, is_admitted) in [
        ("other", json!("x"), true),
        ("yunikorn.apache.org/username", json!("bob"), true),
        ("yunikorn.apache.org/username", json!("carl"), false),
        ("yunikorn.apache.org/username", Value::Null, true),
        ("monoceros.io/username", json!("carl"), false),
    ] {
        let body = json!({"metadata": {"labels": {key: value}}});
        let answer = tried(cluster, bob, change, &body).await?;
        ensure!(answer.is_ok() == is_admitted, "bob changes {body}: {answer:?}");
    }
    Ok(())
}

pub async fn namespaces_with_a_label(cluster: &mut Cluster) -> anyhow::Result<()> {
    cluster.create_namespace("labelled", json!({})).await?;
    cluster.create_namespace("unlabelled", json!({})).await?;
    let labels = json!({"metadata": {"labels": {"schedules": "true"}}});
    cluster.patch("/api/v1/namespaces/labelled", labels).await?;
    let policies = format!("{REGISTRATION}/mutatingadmissionpolicies");
    let bindings = format!("{REGISTRATION}/mutatingadmissionpolicybindings");
    let policy = json!({"metadata": {"name": "namespaces"}, "spec": policy("scheduler")?});
    cluster.create(&policies, policy).await?;
    let selector = json!({"namespaceSelector": {"matchLabels": {"schedules": "true"}}});
    let binding = json!({"metadata": {"name": "namespaces"},
        "spec": {"policyName": "namespaces", "matchResources": selector}});
    cluster.create(&bindings, binding).await?;

    let admin: Who = ("admin", &["system:masters"]);
    let scheduler = async |namespace: &str, metadata: &Value, spec: &Value| {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let made = tried(cluster, admin, ("POST", &path), &pod(metadata, spec)).await?;
        let made = made.map_err(anyhow::Error::msg)?;
        Ok::<_, anyhow::Error>(made["spec"]["schedulerName"].as_str().unwrap_or("").to_owned())
    };
    eventually("the policy to be in force", async || {
        let name = scheduler("labelled", &json!({}), &json!({})).await?;
        Ok(if name == "monoceros" { Ok(()) } else { Err(name) })
    })
    .await?;
    let ignored =
        |key: &str, value: &str| json!({key: {"yunikorn.apache.org/ignore-application": value}});
    for (namespace, metadata, spec, expected) in [
        ("unlabelled", json!({}), json!({}), "default-scheduler"),
        ("labelled", json!({}), json!({"schedulerName": "theirs"}), "theirs"),
        ("labelled", json!({}), json!({"nodeName": "a"}), "default-scheduler"),
        ("labelled", ignored("annotations", "TRUE"), json!({}), "default-scheduler"),
        ("labelled", ignored("labels", "true"), json!({}), "default-scheduler"),
        ("labelled", ignored("labels", "false"), json!({}), "monoceros"),
    ] {
        let found = scheduler(namespace, &metadata, &spec).await?;
        ensure!(found == expected, "{namespace} {metadata} {spec}: {found}");
    }

    cluster.node("a", 2, json!({})).await?;
    let _scheduler = cluster.start(SHIM, &[]).await?;
    cluster.pod("labelled", "silent", json!({"spec": {"schedulerName": null}})).await?;
    cluster.wait_node("labelled", "silent").await?;
    cluster.delete(&format!("{bindings}/namespaces")).await?;
    cluster.delete(&format!("{policies}/namespaces")).await
}

/// Returns the path of objects of this kind.
fn place(document: &Value) -> anyhow::Result<String> {
    let kind = document["kind"].as_str().context("a kind")?;
    let name = document["metadata"]["name"].as_str().context("a name")?;
    let version = document["apiVersion"].as_str().context("a version")?;
    let root = if version == "v1" { "/api/v1" } else { &format!("/apis/{version}") };
    let plural = match kind {
        "PriorityClass" => "priorityclasses".to_owned(),
        _ => format!("{}s", kind.to_lowercase()),
    };
    Ok(match document["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}/{name}"),
        None => format!("{root}/{plural}/{name}"),
    })
}

pub async fn start_from_the_manifests(cluster: &mut Cluster) -> anyhow::Result<()> {
    let documents = MANIFESTS.split("\n---\n").map(serde_saphyr::from_str::<Value>);
    let documents = documents.collect::<Result<Vec<_>, _>>()?;
    // They replace the rights of the bed, which are the same.
    for document in &documents {
        let path = place(document)?;
        let request = http::Request::patch(format!(
            "{path}?fieldManager=manifests&force=true&fieldValidation=Strict"
        ))
        .header("content-type", "application/apply-patch+yaml")
        .body(document.to_string().into_bytes())?;
        cluster.client.request::<Value>(request).await.with_context(|| path)?;
    }
    let one = |kind: &str| {
        let found = documents.iter().find(|document| document["kind"] == kind);
        found.with_context(|| format!("no {kind}"))
    };

    let template = &one("Deployment")?["spec"]["template"];
    let container = &template["spec"]["containers"][0];
    // As a controller creates it.
    let replica = json!({"apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
        "metadata": {"name": "replica", "labels": template["metadata"]["labels"]}});
    let replica = cluster.create("/api/v1/namespaces/monoceros/pods", replica).await?;
    ensure!(replica["spec"]["priority"] == 1_000_000_000, "{replica}");
    let settings = one("ConfigMap")?["data"]["monoceros.toml"].as_str().context("settings")?;
    let config = cluster.bed.folder().join("manifests.toml");
    std::fs::write(&config, settings)?;
    let config = format!("--config={}", config.display());
    let mut flags = vec![&*config];
    let arguments = container["args"].as_array().context("arguments")?.iter();
    for argument in arguments.skip(1).filter_map(Value::as_str) {
        // These arguments differ on this machine.
        let is_here = ["--config=", "--grpc=", "--http="].iter().any(|it| argument.starts_with(it));
        flags.extend((!is_here).then_some(argument));
    }
    ensure!(container["args"][0] == "kubernetes" && flags.len() == 3, "{flags:?}");
    let variables = container["env"].as_array().context("variables")?;
    let names: Vec<_> = variables.iter().filter_map(|variable| variable["name"].as_str()).collect();
    let trust = "MONOCEROS__KUBERNETES__TRUST_USER";
    ensure!(names == ["POD_NAME", "POD_NAMESPACE", trust], "{names:?}");
    ensure!(variables[2]["value"] == "false", "{variables:?}");
    cluster.environment =
        vec![("POD_NAME", "replica"), ("POD_NAMESPACE", "monoceros"), (trust, "false")];

    cluster.create_namespace("manifests", json!({})).await?;
    cluster.node("a", 4, json!({})).await?;
    let mut scheduler = cluster.start(SHIM, &flags).await?;
    scheduler.ready().await?;
    cluster.pod("manifests", "p", json!({})).await?;
    cluster.wait_node("manifests", "p").await?;
    let selector = one("Service")?["spec"]["selector"].as_object().context("a selector")?;
    eventually("the Service to find who leads", async || {
        let replica = cluster.read_pod("monoceros", "replica").await?;
        let labels = &replica["metadata"]["labels"];
        let is_found = selector.iter().all(|(key, value)| labels[key] == *value);
        Ok(if is_found { Ok(()) } else { Err(labels.to_string()) })
    })
    .await?;
    let replica = cluster.read_pod("monoceros", "replica").await?;
    ensure!(replica["spec"]["nodeName"].is_null(), "another scheduler's: {replica}");
    cluster.get("/apis/coordination.k8s.io/v1/namespaces/monoceros/leases/monoceros").await?;
    scheduler.end(Signal::SIGTERM).await?;
    // The objects of the rights stay, since the bed uses them.
    for document in &documents {
        let kind = document["kind"].as_str().unwrap_or_default();
        if kind != "Namespace" && !kind.contains("Role") {
            cluster.delete(&place(document)?).await?;
        }
    }
    Ok(())
}
