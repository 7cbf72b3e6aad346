//! Conversion of the load of nodes to utilization classes.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::nodes::utilization::{TENTHS, tenth};
use monoceros_rules::order::shares::abs_used_capacity;
use monoceros_rules::values::resources::Resources;

use crate::snapshot::{TypeUtilization, UtilizationClass};

/// The utilization classes of each resource, by name. `nodes`: id, capacity and allocated amount of each
/// node, in order of ids.
pub(crate) fn utilizations<'n>(
    nodes: impl Iterator<Item = (&'n Arc<str>, &'n Resources, &'n Resources)>,
) -> Vec<TypeUtilization> {
    let mut by_type: BTreeMap<Arc<str>, Vec<UtilizationClass>> = BTreeMap::new();
    for (id, capacity, allocated) in nodes {
        let percent = abs_used_capacity(capacity, allocated);
        for (name, _) in capacity.entries() {
            let classes = by_type.entry(name.text()).or_insert_with(no_nodes);
            let class = &mut classes[tenth(percent.get(name))];
            class.num_of_nodes += 1;
            class.node_names.push(id.to_string());
        }
    }
    let shown = |(kind, utilization): (Arc<str>, _)| TypeUtilization {
        kind: kind.to_string(),
        utilization,
    };
    by_type.into_iter().map(shown).collect()
}

fn no_nodes() -> Vec<UtilizationClass> {
    let class = |at: usize| UtilizationClass {
        bucket_name: format!("{}-{}%", at * 10, (at + 1) * 10),
        ..UtilizationClass::default()
    };
    (0..TENTHS).map(class).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_counts_for_each_resource_that_it_has() {
        let of = Resources::of;
        let nodes: Vec<(Arc<str>, Resources, Resources)> = vec![
            (Arc::from("n1"), of(&[("m", 10), ("v", 4)]), of(&[("v", 4)])),
            (Arc::from("n2"), of(&[("m", 10)]), of(&[("m", 15), ("x", 1)])),
            (Arc::from("n3"), of(&[("m", 100)]), of(&[("m", 11)])),
        ];
        let shown = utilizations(nodes.iter().map(|(id, all, used)| (id, all, used)));
        let counted: Vec<_> = shown
            .iter()
            .map(|of_type| {
                let classes = of_type.utilization.iter();
                let nodes = classes.filter(|class| class.num_of_nodes > 0);
                let nodes = nodes.map(|class| (&*class.bucket_name, class.node_names.join(" ")));
                (&*of_type.kind, nodes.collect::<Vec<_>>())
            })
            .collect();
        let text = str::to_owned;
        assert_eq!(
            counted,
            [
                ("m", vec![("0-10%", text("n1")), ("10-20%", text("n3")), ("90-100%", text("n2"))]),
                ("v", vec![("90-100%", text("n1"))]),
            ]
        );
        assert!(shown.iter().all(|of_type| of_type.utilization.len() == 10));
    }
}
