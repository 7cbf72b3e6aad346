//! Requests under the names that people know: pods by namespace and name, and not by their UIDs.

use std::collections::BTreeMap;

use monoceros_actors::tags::pod_of;
use monoceros_proto::v1;

/// The name of a request: that of its pod, or else its key.
pub(super) fn shown(key: &str, tags: &BTreeMap<String, String>) -> String {
    match pod_of(tags) {
        Some((namespace, pod)) => format!("{namespace}/{pod}"),
        None => key.to_owned(),
    }
}

/// The name of what a decision is about.
pub(super) fn of_decision(decision: &v1::DecisionInfo) -> &str {
    if decision.pod.is_empty() { &decision.allocation_key } else { &decision.pod }
}

/// Names of the requests and allocations of an application, by key.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<String, String>);

impl Names {
    /// Those that differ from the keys.
    pub(super) fn of(application: &v1::ApplicationInfo) -> Self {
        let held = application.held.iter().map(|it| (&it.allocation_key, &it.tags));
        let waiting = application.waiting.iter().map(|it| (&it.allocation_key, &it.tags));
        let all = held.chain(waiting).map(|(key, tags)| (key.clone(), shown(key, tags)));
        Self(all.filter(|(key, name)| key != name).collect())
    }

    /// The name of a key.
    pub(super) fn name<'n>(&'n self, key: &'n str) -> &'n str {
        self.0.get(key).map_or(key, String::as_str)
    }

    /// The key of a name; what is none is taken for a key.
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
}
