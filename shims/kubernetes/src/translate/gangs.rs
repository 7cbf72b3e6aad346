//! Gangs: task groups declared by annotations, and PodGroups.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Affinity, Toleration, TopologySpreadConstraint};
use monoceros_actors::{Resources, readable};
use monoceros_proto::si::v1::{AddApplicationRequest, Quantity, TaskGroup, Topology};
use serde::Deserialize;

use super::nodes::resource;
use super::{Amounts, pod_amounts, setting};
use crate::objects::{Meta as _, Pod, PodGroup, Quantities, rounded_up};

/// The task groups of an application, and a template pod for each.
#[derive(Clone, Debug, Default)]
pub struct DeclaredGang {
    /// Its task groups.
    pub groups: Vec<TaskGroup>,
    /// Template pods by group. Predicates are asked about them while no member exists.
    pub templates: BTreeMap<String, Arc<Pod>>,
    /// Amounts of a member as declared, by group. `groups` may have larger ones.
    written: BTreeMap<String, Amounts>,
    /// `Hard` or `Soft`; empty if not declared.
    pub style: String,
    /// How long places are held, in milliseconds; 0 if not declared.
    pub timeout_ms: i64,
}

/// A task group in the annotation.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GroupAnnotation {
    name: String,
    min_member: i32,
    #[serde(default)]
    min_resource: Quantities,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    node_selector: BTreeMap<String, String>,
    #[serde(default)]
    tolerations: Vec<Toleration>,
    #[serde(default)]
    affinity: Option<Box<Affinity>>,
    #[serde(default)]
    topology_spread_constraints: Vec<TopologySpreadConstraint>,
    #[serde(default)]
    topology: Option<TopologyAnnotation>,
}

/// Topology of a task group in the annotation, by node labels.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TopologyAnnotation {
    #[serde(default)]
    required: String,
    #[serde(default)]
    preferred: Vec<String>,
}

impl GroupAnnotation {
    /// Fills in what the group does not declare from this member.
    fn complete(&mut self, member: &Pod) {
        let spec = &member.spec;
        if self.node_selector.is_empty() {
            self.node_selector.clone_from(&spec.node_selector);
        }
        if self.tolerations.is_empty() {
            self.tolerations.clone_from(&spec.tolerations);
        }
        if self.affinity.is_none() {
            self.affinity.clone_from(&spec.affinity);
        }
        if self.topology_spread_constraints.is_empty() {
            self.topology_spread_constraints.clone_from(&spec.topology_spread_constraints);
        }
        if self.labels.is_empty() {
            self.labels.clone_from(member.labels());
        }
    }
}

/// Returns the task group that a pod is a member of.
pub fn task_group_of(pod: &Pod) -> Option<&str> {
    setting(pod, "task-group-name")
}

/// Returns whether the pod declares the gang of its application.
pub fn has_declared_gang(pod: &Pod) -> bool {
    declared_text(pod).is_some()
}

/// Returns the task groups that a pod declares, as text.
pub fn declared_text(pod: &Pod) -> Option<&str> {
    setting(pod, "task-groups")
}

/// Returns the gang that a pod declares. `None` if it declares none.
pub fn declared_gang(pod: &Pod) -> Option<Result<DeclaredGang, String>> {
    let text = declared_text(pod)?;
    Some(read(pod, text).map_err(|why| format!("the annotation task-groups cannot be used: {why}")))
}

fn read(pod: &Pod, text: &str) -> Result<DeclaredGang, String> {
    let written: Vec<GroupAnnotation> =
        serde_json::from_str(text).map_err(|why| why.to_string())?;
    let mut gang = DeclaredGang::default();
    for mut group in written {
        if group.name.is_empty() {
            return Err("a group has no name".to_owned());
        }
        if gang.has(&group.name) {
            return Err(format!("there are two groups {}", group.name));
        }
        if group.min_member < 1 {
            let GroupAnnotation { name, min_member, .. } = &group;
            return Err(format!("group {name}: minMember is {min_member}, and is 1 at least"));
        }
        if task_group_of(pod) == Some(&group.name) {
            group.complete(pod);
        }
        let mut declared = TaskGroup::new(&group.name, group.min_member);
        let mut member = Amounts::new();
        for (name, quantity) in &group.min_resource {
            let (name, scale) = if name == "cpu" { ("vcore", 1_000) } else { (name.as_str(), 1) };
            let amount = rounded_up(quantity, scale).ok_or_else(|| {
                format!("group {}: `{}` is no quantity of {name}", group.name, quantity.0)
            })?;
            member.insert(name.to_owned(), amount);
        }
        if !member.is_empty() {
            member.insert("pods".to_owned(), 1);
            gang.written.insert(group.name.clone(), member.clone());
            declared.member = Some(resource(member));
        }
        if let Some(TopologyAnnotation { required, preferred }) = group.topology {
            declared.topology = Some(Topology { required, preferred });
        }
        declared.priority = pod.spec.priority.unwrap_or(0);
        gang.groups.push(declared);
        let mut template = Pod::default();
        template.metadata.name = Some(format!("a member of {}", group.name));
        template.metadata.namespace = Some(pod.namespace().to_owned());
        template.metadata.labels = Some(group.labels);
        template.spec.node_selector = group.node_selector;
        template.spec.tolerations = group.tolerations;
        template.spec.affinity = group.affinity;
        template.spec.topology_spread_constraints = group.topology_spread_constraints;
        gang.templates.insert(group.name, Arc::new(template));
    }
    if gang.groups.is_empty() {
        return Err("it declares no group".to_owned());
    }
    for word in setting(pod, "schedulingPolicyParameters").unwrap_or_default().split_whitespace() {
        match word.split_once('=') {
            Some(("gangSchedulingStyle", style)) => style.clone_into(&mut gang.style),
            Some(("placeholderTimeoutInSeconds", seconds)) => {
                let seconds: i64 =
                    seconds.parse().map_err(|_| format!("`{word}` is no number of seconds"))?;
                gang.timeout_ms = seconds.saturating_mul(1_000);
            }
            // Other schedulers may have more parameters.
            _ => {}
        }
    }
    Ok(gang)
}

/// Returns the gang of a PodGroup, whose members have their own sizes. `None` if its pods are
/// scheduled one by one. The error says why the group cannot be scheduled.
pub fn pod_group_gang(group: &PodGroup) -> Result<Option<DeclaredGang>, String> {
    if let Some(parent) = &group.spec.parent_composite_pod_group_name {
        return Err(format!(
            "the PodGroup is part of the CompositePodGroup {parent}, and composites are not supported"
        ));
    }
    let topology = &group.spec.scheduling_constraints.topology;
    let Some(gang) = &group.spec.scheduling_policy.gang else {
        return match topology.first() {
            Some(_) => {
                Err("the PodGroup has a topology constraint without the gang policy, which \
                            is not supported"
                    .to_owned())
            }
            None => Ok(None),
        };
    };
    let mut declared = TaskGroup::new(group.name(), gang.min_count);
    match topology.as_slice() {
        [] => {}
        [only] => {
            let required = only.key.clone();
            declared.topology = Some(Topology { required, preferred: Vec::new() });
        }
        [_, ..] => {
            return Err(
                "the PodGroup has several topology constraints, and one is supported".to_owned()
            );
        }
    }
    Ok(Some(DeclaredGang { groups: vec![declared], ..DeclaredGang::default() }))
}

impl DeclaredGang {
    /// Adds the gang to the request for its application.
    pub fn declare(&self, application: &mut AddApplicationRequest) {
        application.task_groups.clone_from(&self.groups);
        application.gang_scheduling_style.clone_from(&self.style);
        application.execution_timeout_milli_seconds = self.timeout_ms;
    }

    /// Returns how a pod exceeds the declared size of its group. `None` if it does not.
    pub fn oversized(&self, pod: &Pod) -> Option<Oversized> {
        let name = task_group_of(pod)?;
        let group = self.groups.iter().find(|group| group.name == name)?;
        let sizes = &group.member.as_ref()?.resources;
        let written = self.written.get(name)?;
        let (mut declared, mut own) = (Amounts::new(), Amounts::new());
        for (name, amount) in pod_amounts(pod).ok()? {
            let declared_amount = sizes.get(&name).map_or(0, |amount| amount.value);
            if amount > declared_amount {
                declared.insert(name.clone(), written.get(&name).copied().unwrap_or(0));
                own.insert(name, amount);
            }
        }
        (!own.is_empty()).then(|| Oversized { group: name.to_owned(), declared, own })
    }

    /// Raises the declared size of a group to the size of this pod.
    pub fn enlarge(&mut self, oversized: &Oversized) {
        let group = self.groups.iter_mut().find(|group| group.name == oversized.group);
        let Some(member) = group.and_then(|group| group.member.as_mut()) else { return };
        for (name, amount) in &oversized.own {
            member.resources.insert(name.clone(), Quantity { value: *amount });
        }
    }

    /// Lists the groups with their sizes, for people.
    pub fn summary(&self) -> String {
        let groups =
            self.groups.iter().map(|group| format!("{}: {}", group.name, group.min_members));
        groups.collect::<Vec<_>>().join(", ")
    }

    /// Returns whether the gang has this group.
    pub fn has(&self, group: &str) -> bool {
        self.groups.iter().any(|known| known.name == group)
    }
}

/// A pod that exceeds the declared size of its group, with the amounts that it exceeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oversized {
    /// Name of the group.
    pub group: String,
    declared: Amounts,
    own: Amounts,
}

impl fmt::Display for Oversized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |all: &Amounts| {
            let all: Vec<_> = all.iter().map(|(name, amount)| (&**name, *amount)).collect();
            readable::amounts(&Resources::of(&all))
        };
        let Self { group, declared, own } = self;
        let (own, declared) = (text(own), text(declared));
        write!(f, "a member of task group {group} takes {own}, and the group declares {declared}")
    }
}

/// Returns the key of held places of a group in the scene. No UID looks like it.
pub fn hold_key(application: &str, group: &str) -> String {
    format!("held {application} {group}")
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value)] // JSON as it is written down.
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(annotations: Value) -> Pod {
        let pod = json!({"metadata": {"name": "p", "namespace": "ns", "annotations": annotations},
            "spec": {"priority": 3}});
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn reads_task_groups_of_yunikorn() {
        let groups = json!([
            {"name": "driver", "minMember": 1, "minResource": {"cpu": "500m", "memory": "1Ki"}},
            {"name": "workers", "minMember": 8, "minResource": {"cpu": 2, "nvidia.com/gpu": "1"},
             "labels": {"role": "worker"}, "nodeSelector": {"disk": "ssd"},
             "tolerations": [{"key": "gpu", "operator": "Exists"}],
             "topology": {"required": "rack"}, "annotations": {"not": "read"}},
        ]);
        let declaring = pod(json!({
            "yunikorn.apache.org/task-groups": groups.to_string(),
            "yunikorn.apache.org/schedulingPolicyParameters":
                "placeholderTimeoutInSeconds=60 gangSchedulingStyle=Hard other=1",
        }));
        let gang = declared_gang(&declaring).unwrap().unwrap();
        let amounts = |group: &TaskGroup| -> Vec<_> {
            let member = group.member.clone().unwrap().resources.into_iter();
            member.map(|(name, amount)| format!("{name}={}", amount.value)).collect()
        };
        assert_eq!(amounts(&gang.groups[0]), ["memory=1024", "pods=1", "vcore=500"]);
        assert_eq!(amounts(&gang.groups[1]), ["nvidia.com/gpu=1", "pods=1", "vcore=2000"]);
        assert_eq!(gang.groups[1].topology.as_ref().unwrap().required, "rack");
        assert_eq!(gang.groups[1].priority, 3);
        assert_eq!((&*gang.style, gang.timeout_ms), ("Hard", 60_000));
        let template = &gang.templates["workers"];
        assert_eq!(template.label("role"), Some("worker"));
        assert_eq!(template.spec.node_selector["disk"], "ssd");
        assert_eq!(template.spec.tolerations.len(), 1);
    }

    #[test]
    fn unusable_declaration_has_a_reason() {
        for (text, why) in [
            ("[]", "it declares no group"),
            ("{}", "invalid type"),
            (r#"[{"name": "a"}]"#, "minMember"),
            (
                r#"[{"name": "a", "minMember": 1, "minResource": {"cpu": "x"}}]"#,
                "`x` is no quantity",
            ),
        ] {
            let declaring = pod(json!({"monoceros.io/task-groups": text}));
            let error = declared_gang(&declaring).unwrap().unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(declared_gang(&pod(json!({}))).is_none());
    }

    #[test]
    fn pod_group_is_a_gang_without_sizes() {
        let group = |spec: Value| -> PodGroup {
            let group = json!({"metadata": {"name": "g", "namespace": "ns"}, "spec": spec});
            serde_json::from_value(group).unwrap()
        };
        let spec = json!({"schedulingPolicy": {"gang": {"minCount": 4}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]}});
        let gang = pod_group_gang(&group(spec)).unwrap().unwrap();
        assert_eq!((&*gang.groups[0].name, gang.groups[0].min_members), ("g", 4));
        assert!(gang.groups[0].member.is_none());
        assert_eq!(gang.groups[0].topology.as_ref().unwrap().required, "rack");
        let basic = group(json!({"schedulingPolicy": {"basic": {}}}));
        assert!(pod_group_gang(&basic).unwrap().is_none());
        let part = group(json!({"parentCompositePodGroupName": "c"}));
        assert!(pod_group_gang(&part).unwrap_err().contains("CompositePodGroup c"));
    }
}
