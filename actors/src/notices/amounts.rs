//! Amounts of resources in the interface's form.

use monoceros_proto::si::v1 as si;
use monoceros_rules::values::resources::Resources;

/// An amount in the interface's form.
pub(crate) fn amount(resources: &Resources) -> si::Resource {
    let mut message = si::Resource::default();
    write_amount(&mut message, resources);
    message
}

/// Overwrites `message` with the amount. If the resource types are those that it has already, its
/// names and memory are used again.
pub(crate) fn write_amount(message: &mut si::Resource, resources: &Resources) {
    let is_written = message.resources.len() == resources.entries().len()
        && resources.entries().all(|(name, value)| {
            let quantity = message.resources.get_mut(&*name.text());
            quantity.map(|quantity| quantity.value = value).is_some()
        });
    if !is_written {
        let entries = resources.entries();
        message.resources = entries
            .map(|(name, value)| (name.text().to_string(), si::Quantity { value }))
            .collect();
    }
}
