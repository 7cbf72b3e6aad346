//! Application, queue and user of a pod, and quotas of a namespace.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use monoceros_proto::si::v1::AddApplicationRequest;
use serde::Deserialize;
use serde_json::json;

use super::setting;
use crate::objects::{Meta as _, Namespace, Pod, rounded_up};

/// Rules of reading that users can set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Names of the schedulers whose pods are ours.
    pub scheduler_names: Vec<String>,
    /// Whether a pod without an application id belongs to the application of its controller.
    /// Otherwise it belongs to that of its namespace.
    pub application_by_controller: bool,
    /// Whether the user that a pod names counts. An API server does not record who created a pod,
    /// so another component must keep users from naming others.
    pub trust_user: bool,
}

impl Mapping {
    /// Returns whether the pod is scheduled here. The label that has it ignored counts only until
    /// it is bound.
    pub fn is_ours(&self, pod: &Pod) -> bool {
        let name = pod.spec.scheduler_name.as_deref().unwrap_or_default();
        let is_named = self.scheduler_names.iter().any(|ours| ours == name);
        is_named && (pod.node().is_some() || !is_ignored(pod))
    }
}

/// Returns whether a label has the pod ignored.
pub fn is_ignored(pod: &Pod) -> bool {
    setting(pod, "ignore-application").is_some_and(|text| text.eq_ignore_ascii_case("true"))
}

/// Returns the PodGroup of a pod.
pub fn pod_group_of(pod: &Pod) -> Option<&str> {
    let group = pod.spec.scheduling_group.as_ref()?;
    group.pod_group_name.as_deref().filter(|name| !name.is_empty())
}

/// Returns the application id of a pod.
pub fn application_id(pod: &Pod, mapping: &Mapping) -> String {
    let namespace = pod.namespace();
    if let Some(group) = pod_group_of(pod) {
        return format!("{namespace}/podgroup/{group}");
    }
    let named = setting(pod, "app-id")
        .or_else(|| pod.label("applicationId"))
        .or_else(|| pod.label("spark-app-selector"))
        .filter(|name| !name.is_empty());
    if let Some(named) = named {
        return named.to_owned();
    }
    match pod.controller().filter(|_| mapping.application_by_controller) {
        Some(owner) => {
            format!("{namespace}/{}/{}", owner.kind.to_lowercase(), owner.name)
        }
        None => format!("{namespace}-autogen"),
    }
}

/// User and groups in the annotation of a pod.
#[derive(Deserialize)]
struct UserInfo {
    user: String,
    #[serde(default)]
    groups: Vec<String>,
}

/// Builds the request for the application of a pod: user, queue, and quotas of the namespace. Also
/// returns warnings about settings that cannot be read.
pub fn application(
    pod: &Pod,
    namespace: Option<&Namespace>,
    mapping: &Mapping,
) -> (AddApplicationRequest, Vec<String>) {
    let mut wrong = Vec::new();
    let account = pod.spec.service_account_name.as_deref().filter(|name| !name.is_empty());
    let account = account.unwrap_or("default");
    let mut user = UserInfo {
        user: format!("system:serviceaccount:{}:{account}", pod.namespace()),
        groups: Vec::new(),
    };
    if mapping.trust_user {
        if let Some(text) = setting(pod, "user.info") {
            match serde_json::from_str(text) {
                Ok(named) => user = named,
                Err(why) => wrong.push(format!("the annotation user.info is ignored: {why}")),
            }
        } else if let Some(name) = setting(pod, "username") {
            name.clone_into(&mut user.user);
        }
    }
    let mut application = AddApplicationRequest::new(application_id(pod, mapping), user.user)
        .with_tag("namespace", pod.namespace());
    for group in user.groups {
        application = application.with_group(group);
    }
    let queue = setting(pod, "queue").or_else(|| pod.label("queue")).unwrap_or_default();
    application = application.in_queue(queue);
    if let Some(namespace) = namespace {
        let (tags, more) = quota_tags(namespace);
        application.tags.extend(tags);
        wrong.extend(more);
    }
    (application, wrong)
}

/// Returns the quota settings of a namespace as tags of its applications, with warnings about those
/// that cannot be read.
pub fn quota_tags(namespace: &Namespace) -> (BTreeMap<String, String>, Vec<String>) {
    let mut tags = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut amounts = |name: &str, text: Option<BTreeMap<String, Quantity>>| {
        let mut resources = serde_json::Map::new();
        for (key, quantity) in text? {
            let (key, scale) = if key == "cpu" { ("vcore".to_owned(), 1_000) } else { (key, 1) };
            let Some(value) = rounded_up(&quantity, scale) else {
                wrong.push(format!("{name}: `{}` is no quantity of {key}", quantity.0));
                return None;
            };
            resources.insert(key, json!({"value": value}));
        }
        Some(json!({"resources": resources}).to_string())
    };
    let mut unreadable = Vec::new();
    let mut map = |name: &str| {
        let text = setting(namespace, name)?;
        let read = serde_json::from_str::<BTreeMap<String, Quantity>>(text);
        read.map_err(|why| unreadable.push(format!("{name}: {why}"))).ok()
    };
    // The older form has one annotation for each of two resources.
    let older = || {
        let all = [("cpu", "namespace.max.cpu"), ("memory", "namespace.max.memory")];
        let read = all.into_iter().filter_map(|(resource, name)| {
            Some((resource.to_owned(), Quantity(setting(namespace, name)?.to_owned())))
        });
        Some(read.collect::<BTreeMap<_, _>>()).filter(|all| !all.is_empty())
    };
    let (quota, guaranteed) = (map("namespace.quota").or_else(older), map("namespace.guaranteed"));
    for (name, tag, text) in [
        ("namespace.quota", "namespace.resourcequota", quota),
        ("namespace.guaranteed", "namespace.resourceguaranteed", guaranteed),
    ] {
        if let Some(value) = amounts(name, text) {
            tags.insert(tag.to_owned(), value);
        }
    }
    for (name, tag) in [
        ("namespace.maxApps", "namespace.resourcemaxapps"),
        ("parentqueue", "namespace.parentqueue"),
    ] {
        if let Some(value) = setting(namespace, name) {
            tags.insert(tag.to_owned(), value.to_owned());
        }
    }
    wrong.extend(unreadable);
    (tags, wrong)
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value)] // JSON as it is written down.
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(metadata: Value, spec: Value) -> Pod {
        let mut pod =
            json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec});
        for (key, value) in metadata.as_object().unwrap() {
            pod["metadata"][key] = value.clone();
        }
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn application_id_precedence() {
        let mapping = Mapping::default();
        for (metadata, spec, id) in [
            (json!({}), json!({}), "ns-autogen"),
            (json!({"labels": {"spark-app-selector": "s"}}), json!({}), "s"),
            (json!({"labels": {"spark-app-selector": "s", "applicationId": "a"}}), json!({}), "a"),
            (
                json!({"labels": {"applicationId": "a", "yunikorn.apache.org/app-id": "y"}}),
                json!({}),
                "y",
            ),
            (
                json!({"labels": {"yunikorn.apache.org/app-id": "y"},
                    "annotations": {"monoceros.io/app-id": "m"}}),
                json!({}),
                "m",
            ),
            (
                json!({"annotations": {"monoceros.io/app-id": "m"}}),
                json!({"schedulingGroup": {"podGroupName": "g"}}),
                "ns/podgroup/g",
            ),
        ] {
            assert_eq!(application_id(&pod(metadata.clone(), spec), &mapping), id, "{metadata}");
        }
        let owner = json!({"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job",
            "name": "j", "uid": "x", "controller": true}]});
        let by_controller = Mapping { application_by_controller: true, ..mapping.clone() };
        let job = pod(owner, json!({}));
        assert_eq!(application_id(&job, &mapping), "ns-autogen");
        assert_eq!(application_id(&job, &by_controller), "ns/job/j");
    }

    #[test]
    fn queue_precedence() {
        for (metadata, queue) in [
            (json!({}), ""),
            (json!({"labels": {"queue": "root.a"}}), "root.a"),
            (
                json!({"labels": {"queue": "root.a", "yunikorn.apache.org/queue": "root.b"}}),
                "root.b",
            ),
            (
                json!({"labels": {"queue": "root.a"},
                    "annotations": {"yunikorn.apache.org/queue": "root.b", "monoceros.io/queue": "root.c"}}),
                "root.c",
            ),
        ] {
            let (made, _) = application(&pod(metadata, json!({})), None, &Mapping::default());
            assert_eq!(made.queue_name, queue);
            assert_eq!(made.tags["namespace"], "ns");
        }
    }

    #[test]
    fn named_user_counts_only_if_trusted() {
        let info = json!({"annotations": {"yunikorn.apache.org/user.info":
            "{\"user\": \"ada\", \"groups\": [\"dev\"]}"}});
        let label = json!({"labels": {"yunikorn.apache.org/username": "bob"}});
        let broken = json!({"annotations": {"monoceros.io/user.info": "ada"}});
        let account = "system:serviceaccount:ns:default";
        for (metadata, trust_user, user, groups, complaints) in [
            (info.clone(), false, account, 0, 0),
            (info, true, "ada", 1, 0),
            (label, true, "bob", 0, 0),
            (broken, true, account, 0, 1),
        ] {
            let mapping = Mapping { trust_user, ..Mapping::default() };
            let (made, wrong) = application(&pod(metadata, json!({})), None, &mapping);
            let ugi = made.ugi.unwrap();
            assert_eq!((&*ugi.user, ugi.groups.len()), (user, groups));
            assert_eq!(wrong.len(), complaints, "{wrong:?}");
        }
        let named = pod(json!({}), json!({"serviceAccountName": "bot"}));
        let (made, _) = application(&named, None, &Mapping::default());
        assert_eq!(made.ugi.unwrap().user, "system:serviceaccount:ns:bot");
    }

    #[test]
    fn namespace_annotations_become_quota_tags() {
        let namespace = |annotations: Value| -> Namespace {
            serde_json::from_value(json!({"metadata": {"name": "ns", "annotations": annotations}}))
                .unwrap()
        };
        let (tags, wrong) = quota_tags(&namespace(json!({
            "yunikorn.apache.org/namespace.quota": "{\"cpu\": \"64\", \"memory\": \"1Ki\"}",
            "monoceros.io/namespace.guaranteed": "{\"cpu\": \"500m\"}",
            "yunikorn.apache.org/namespace.maxApps": "5",
            "yunikorn.apache.org/parentqueue": "root.teams",
        })));
        assert_eq!(wrong, <[&str; 0]>::default());
        let tag = |name: &str| tags[name].as_str();
        assert_eq!(
            tag("namespace.resourcequota"),
            r#"{"resources":{"memory":{"value":1024},"vcore":{"value":64000}}}"#
        );
        assert_eq!(tag("namespace.resourceguaranteed"), r#"{"resources":{"vcore":{"value":500}}}"#);
        assert_eq!(
            (tag("namespace.resourcemaxapps"), tag("namespace.parentqueue")),
            ("5", "root.teams")
        );

        let (tags, _) = quota_tags(&namespace(json!({
            "yunikorn.apache.org/namespace.max.cpu": "2",
            "yunikorn.apache.org/namespace.max.memory": "2Gi",
        })));
        assert!(tags["namespace.resourcequota"].contains("\"vcore\":{\"value\":2000}"));

        let (tags, wrong) = quota_tags(&namespace(json!({
            "yunikorn.apache.org/namespace.quota": "{\"cpu\": \"many\"}",
            "yunikorn.apache.org/namespace.guaranteed": "half",
        })));
        assert!(tags.is_empty());
        assert_eq!(wrong.len(), 2, "{wrong:?}");
    }

    #[test]
    fn ignored_and_foreign_pods_are_not_ours() {
        let mapping =
            Mapping { scheduler_names: vec!["monoceros".to_owned()], ..Mapping::default() };
        let spec = json!({"schedulerName": "monoceros"});
        let ignored = json!({"labels": {"yunikorn.apache.org/ignore-application": "true"}});
        assert!(mapping.is_ours(&pod(json!({}), spec.clone())));
        assert!(!mapping.is_ours(&pod(ignored.clone(), spec)));
        // A label does not take a running pod off the books.
        let bound = json!({"schedulerName": "monoceros", "nodeName": "n"});
        assert!(mapping.is_ours(&pod(ignored, bound)));
        assert!(!mapping.is_ours(&pod(json!({}), json!({"schedulerName": "default-scheduler"}))));
    }
}
