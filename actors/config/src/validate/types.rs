//! Collects the resource types in the quotas of a partition, with their locations.

use super::draft::Draft;
use super::{Field, Located, Partition};
use crate::NamedTypes;
use crate::document::Texts;

/// Adds the types of a partition to `types`.
pub(super) fn note(partition: &str, raw: &Partition, root: &Draft, types: &mut NamedTypes) {
    for (name, Located { place, .. }) in &raw.node_order_weights {
        types.add(partition, name, "`resourceweights`", place);
    }
    note_queue(root, partition, types);
}

fn note_queue(queue: &Draft, partition: &str, types: &mut NamedTypes) {
    let mut note = |texts: &Field<Texts>, of: &str| {
        for (name, Located { place, .. }) in texts.value().into_iter().flatten() {
            types.add(partition, name, of, place);
        }
    };
    let (raw, path) = (&queue.raw, &queue.path);
    note(&raw.resources.guaranteed, &format!("guaranteed of queue `{path}`"));
    note(&raw.resources.max, &format!("max of queue `{path}`"));
    for (number, limit) in raw.limits.listed().iter().enumerate() {
        note(&limit.max_resources, &format!("maxresources of {}", limit.title(number, path)));
    }
    if let Some(template) = raw.template.value() {
        let of = |key: &str| format!("{key} of the child template of queue `{path}`");
        note(&template.resources.guaranteed, &of("guaranteed"));
        note(&template.resources.max, &of("max"));
    }
    for child in &queue.children {
        note_queue(child, partition, types);
    }
}
