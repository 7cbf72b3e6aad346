//! Names of requests for people: pods by namespace and name, others by key.

use std::collections::BTreeMap;

use monoceros_actors::tags::pod_of;
use monoceros_proto::si::v1::event_record::Type;
use monoceros_proto::v1;

/// Returns the name of a request: that of its pod, or else its key.
pub(super) fn shown(key: &str, tags: &BTreeMap<String, String>) -> String {
    match pod_of(tags) {
        Some((namespace, pod)) => format!("{namespace}/{pod}"),
        None => key.to_owned(),
    }
}

/// Returns the name of a decision's request.
pub(super) fn of_decision(decision: &v1::DecisionInfo) -> &str {
    if decision.pod.is_empty() { &decision.allocation_key } else { &decision.pod }
}

/// Returns the names of an event's object and of its reference.
pub(super) fn of_event(event: &v1::EventInfo) -> (&str, &str) {
    let Some(record) = &event.record else { return ("", "") };
    let (object, reference) = (&*record.object_id, &*record.reference_id);
    match (&*event.pod, record.r#type()) {
        ("", _) => (object, reference),
        (pod, Type::Request) => (pod, reference),
        (pod, _) => (object, pod),
    }
}

/// Returns the names of the requests that reserve a node.
pub(super) fn of_reservations(node: &v1::NodeState) -> Vec<&str> {
    let name = |key| node.reserving_pods.get(key).unwrap_or(key).as_str();
    node.reserved_by.iter().map(name).collect()
}

/// Returns the names of the first and the second candidate of a level of this decision.
pub(super) fn of_level<'n>(
    decision: &'n v1::DecisionInfo,
    level: &'n v1::DecisionLevel,
) -> (&'n str, &'n str) {
    let is_its_own = level.chosen == decision.allocation_key && decision.kind == "eviction";
    let first = if is_its_own { of_decision(decision) } else { &level.chosen };
    let second =
        if level.runner_up_pod.is_empty() { &level.runner_up } else { &level.runner_up_pod };
    (first, second)
}

/// Names of the requests and allocations of an application, by key.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<String, String>);

impl Names {
    /// Collects the names that differ from the keys.
    pub(super) fn of(application: &v1::ApplicationInfo) -> Self {
        let held = application.held.iter().map(|it| (&it.allocation_key, &it.tags));
        let waiting = application.waiting.iter().map(|it| (&it.allocation_key, &it.tags));
        let all = held.chain(waiting).map(|(key, tags)| (key.clone(), shown(key, tags)));
        Self(all.filter(|(key, name)| key != name).collect())
    }

    pub(super) fn name<'n>(&'n self, key: &'n str) -> &'n str {
        self.0.get(key).map_or(key, String::as_str)
    }

    /// Returns the key of a name. Anything else counts as a key.
    pub(super) fn key<'n>(&'n self, name: &'n str) -> &'n str {
        let known = self.0.iter().find(|(_, known)| *known == name);
        known.map_or(name, |(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use monoceros_actors::tags::{NAMESPACE, POD};

    use super::*;

    #[test]
    fn pods_have_names_and_other_requests_keys() {
        let tags = |all: &[(&str, &str)]| -> BTreeMap<String, String> {
            all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let pod = v1::AllocationInfo {
            allocation_key: "uid-1".to_owned(),
            tags: tags(&[(NAMESPACE, "lab"), (POD, "job-0")]),
            ..Default::default()
        };
        let plain = v1::RequestInfo { allocation_key: "task".to_owned(), ..Default::default() };
        let application =
            v1::ApplicationInfo { held: vec![pod], waiting: vec![plain], ..Default::default() };
        let names = Names::of(&application);
        assert_eq!((names.name("uid-1"), names.key("lab/job-0")), ("lab/job-0", "uid-1"));
        assert_eq!((names.name("task"), names.key("task")), ("task", "task"));
    }

    #[test]
    fn both_candidates_of_an_eviction_have_pod_names() {
        let level = |pod: &str| v1::DecisionLevel {
            chosen: "uid-1".to_owned(),
            runner_up: "uid-2".to_owned(),
            runner_up_pod: pod.to_owned(),
            ..Default::default()
        };
        let decision = v1::DecisionInfo {
            kind: "eviction".to_owned(),
            allocation_key: "uid-1".to_owned(),
            pod: "lab/a".to_owned(),
            ..Default::default()
        };
        assert_eq!(of_level(&decision, &level("lab/b")), ("lab/a", "lab/b"));
        assert_eq!(of_level(&decision, &level("")), ("lab/a", "uid-2"));
        let placed = v1::DecisionInfo { kind: "allocation".to_owned(), ..decision };
        assert_eq!(of_level(&placed, &level("")).0, "uid-1", "that is an application");
    }

    #[test]
    fn reservations_show_pod_name_or_key() {
        let node = v1::NodeState {
            reserved_by: vec!["task".to_owned(), "uid-1".to_owned()],
            reserving_pods: [("uid-1".to_owned(), "lab/a".to_owned())].into(),
            ..Default::default()
        };
        assert_eq!(of_reservations(&node), ["task", "lab/a"]);
    }
}
