//! Amounts that pods need and nodes have.

use std::collections::BTreeMap;

use crate::objects::{Container, ContainerStatus, Node, Pod, Quantities, Requirements, rounded_up};

/// Amounts in the units of the scheduler interface: `vcore` in thousandths of a core, others as
/// Kubernetes counts them.
pub type Amounts = BTreeMap<String, i64>;

/// Resource of which each pod needs one, so that the number of pods of a node is limited like any
/// amount.
const PODS: &str = "pods";

/// Converts quantities of the API. The error names the one that cannot be read.
fn read(quantities: &Quantities) -> Result<Amounts, String> {
    let mut amounts = Amounts::new();
    for (name, quantity) in quantities {
        let (name, scale) = if name == "cpu" { ("vcore", 1_000) } else { (name.as_str(), 1) };
        let amount = rounded_up(quantity, scale)
            .ok_or_else(|| format!("`{}` is no quantity of {name}", quantity.0))?;
        amounts.insert(name.to_owned(), amount);
    }
    Ok(amounts)
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = sum.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn raise(most: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let most = most.entry(name.clone()).or_default();
        *most = (*most).max(*amount);
    }
}

/// Returns the amounts that a node has for pods.
pub fn node_amounts(node: &Node) -> Result<Amounts, String> {
    read(&node.status.allocatable)
}

/// Returns the amounts that a pod needs. This is the sum of its containers and sidecars, or the
/// need of an init container with the sidecars started before it, if that is larger. Amounts of the
/// pod as a whole replace that sum, and the overhead is added. While the pod is resized in place,
/// the larger of the desired and the allocated amounts counts, unless the node can never provide
/// the desired ones.
pub fn pod_amounts(pod: &Pod) -> Result<Amounts, String> {
    let is_infeasible = pod
        .condition("PodResizePending")
        .is_some_and(|condition| condition.reason.as_deref() == Some("Infeasible"));
    let needs = |container: &Container, statuses: &[ContainerStatus]| {
        let status = statuses.iter().find(|status| status.name == container.name);
        let set_aside = status.into_iter().flat_map(|status| {
            let actual = status.resources.as_ref().map(|actual| &actual.requests);
            [Some(&status.allocated_resources), actual].into_iter().flatten()
        });
        larger(&container.resources.requests, set_aside, is_infeasible)
            .map_err(|why| format!("container {}: {why}", container.name))
    };
    let mut sum = Amounts::new();
    for container in &pod.spec.containers {
        add(&mut sum, &needs(container, &pod.status.container_statuses)?);
    }
    let (mut sidecars, mut first) = (Amounts::new(), Amounts::new());
    for container in &pod.spec.init_containers {
        let needed = needs(container, &pod.status.init_container_statuses)?;
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sidecars, &needed);
            raise(&mut first, &sidecars);
        } else {
            let mut together = sidecars.clone();
            add(&mut together, &needed);
            raise(&mut first, &together);
        }
    }
    add(&mut sum, &sidecars);
    raise(&mut sum, &first);
    if let Some(Requirements { requests }) = &pod.spec.resources {
        let actual = pod.status.resources.iter().map(|actual| &actual.requests);
        let set_aside = std::iter::once(&pod.status.allocated_resources).chain(actual);
        let of_pod = larger(requests, set_aside, is_infeasible)?;
        for (name, amount) in of_pod {
            if name == "vcore" || name == "memory" || name.starts_with("hugepages-") {
                sum.insert(name, amount);
            }
        }
    }
    add(&mut sum, &read(&pod.spec.overhead).map_err(|why| format!("overhead: {why}"))?);
    sum.retain(|_, amount| *amount > 0);
    sum.insert(PODS.to_owned(), 1);
    Ok(sum)
}

fn larger<'q>(
    desired: &Quantities,
    set_aside: impl Iterator<Item = &'q Quantities>,
    is_infeasible: bool,
) -> Result<Amounts, String> {
    let mut there = Amounts::new();
    for quantities in set_aside {
        raise(&mut there, &read(quantities)?);
    }
    if !is_infeasible || there.is_empty() {
        raise(&mut there, &read(desired)?);
    }
    Ok(there)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn amounts(pod: Value) -> String {
        let pod: Pod = serde_json::from_value(pod).unwrap();
        match pod_amounts(&pod) {
            Ok(amounts) => {
                let shown: Vec<_> =
                    amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
                shown.join(" ")
            }
            Err(why) => why,
        }
    }

    fn container(name: &str, cpu: &str, memory: &str) -> Value {
        json!({"name": name, "resources": {"requests": {"cpu": cpu, "memory": memory}}})
    }

    #[test]
    fn pod_needs_the_sum_of_concurrent_containers() {
        let sidecar = |cpu| {
            let mut container = container("side", cpu, "10");
            container["restartPolicy"] = json!("Always");
            container
        };
        for (init, containers, needed) in [
            (json!([]), json!([]), "pods=1"),
            (json!([]), json!([container("a", "1500m", "1Ki")]), "memory=1024 pods=1 vcore=1500"),
            (
                json!([]),
                json!([container("a", "1", "5"), container("b", "0.0001", "7")]),
                "memory=12 pods=1 vcore=1001",
            ),
            // An init container has ended when the containers start.
            (
                json!([container("i", "3", "1"), container("j", "2", "9")]),
                json!([container("a", "1", "5")]),
                "memory=9 pods=1 vcore=3000",
            ),
            // A sidecar runs beside them.
            (
                json!([sidecar("1"), container("i", "3", "1")]),
                json!([container("a", "2", "5")]),
                "memory=15 pods=1 vcore=4000",
            ),
            (
                json!([container("i", "3", "1"), sidecar("1")]),
                json!([container("a", "2", "5")]),
                "memory=15 pods=1 vcore=3000",
            ),
        ] {
            let pod = json!({"spec": {"initContainers": init, "containers": containers}});
            assert_eq!(amounts(pod.clone()), needed, "{pod}");
        }
    }

    #[test]
    fn pod_level_amounts_replace_containers_plus_overhead() {
        let containers = json!([container("a", "1", "5")]);
        let whole =
            json!({"requests": {"cpu": "4", "hugepages-2Mi": "4Mi", "example.com/gpu": "2"}});
        let pod = json!({"spec": {"containers": containers, "resources": whole,
            "overhead": {"cpu": "100m", "memory": "1"}}});
        assert_eq!(amounts(pod), "hugepages-2Mi=4194304 memory=6 pods=1 vcore=4100");
    }

    #[test]
    fn resize_needs_the_larger_amounts() {
        let pod = |wanted: &str, reason: &str| {
            json!({"spec": {"containers": [container("a", wanted, "5")]},
            "status": {
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
                "containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "2", "memory": "5"},
                    "resources": {"requests": {"cpu": "2", "memory": "6"}}}],
            }})
        };
        assert_eq!(amounts(pod("3", "Deferred")), "memory=6 pods=1 vcore=3000");
        assert_eq!(amounts(pod("1", "Deferred")), "memory=6 pods=1 vcore=2000");
        assert_eq!(amounts(pod("3", "Infeasible")), "memory=6 pods=1 vcore=2000");
    }

    #[test]
    fn pod_level_resize_needs_the_larger_amounts() {
        let pod = |wanted: &str, reason: &str| {
            json!({"spec": {"containers": [container("a", "1", "5")],
                "resources": {"requests": {"cpu": wanted}}},
            "status": {
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
                "allocatedResources": {"cpu": "3"},
                "resources": {"requests": {"cpu": "2"}},
            }})
        };
        assert_eq!(amounts(pod("4", "Deferred")), "memory=5 pods=1 vcore=4000");
        assert_eq!(amounts(pod("1", "Deferred")), "memory=5 pods=1 vcore=3000");
        assert_eq!(amounts(pod("4", "Infeasible")), "memory=5 pods=1 vcore=3000");
    }

    #[test]
    fn unreadable_quantity_is_named() {
        let pod = json!({"spec": {"containers": [container("a", "lots", "5")]}});
        assert_eq!(amounts(pod), "container a: `lots` is no quantity of vcore");
    }

    #[test]
    fn node_amounts_are_the_allocatable_ones() {
        let node =
            json!({"status": {"allocatable": {"cpu": "7910m", "memory": "1Gi", "pods": "110"}}});
        let node: Node = serde_json::from_value(node).unwrap();
        let amounts = node_amounts(&node).unwrap();
        assert_eq!(
            amounts,
            [("memory", 1 << 30), ("pods", 110), ("vcore", 7_910)]
                .map(|(name, amount)| (name.to_owned(), amount))
                .into()
        );
    }
}
