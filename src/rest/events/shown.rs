//! An event in the form of the interface: enumerations are numbers, and zero or empty fields are
//! omitted.

use std::collections::BTreeMap;

use axum::body::Bytes;
use monoceros_actors::NamedEvent;
use serde::Serialize;

/// An event. Its fields have the order of the interface.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown<'r> {
    #[serde(rename = "type", skip_serializing_if = "is_zero")]
    kind: i64,
    #[serde(rename = "objectID", skip_serializing_if = "str::is_empty")]
    object_id: &'r str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'r str,
    #[serde(skip_serializing_if = "is_zero")]
    timestamp_nano: i64,
    #[serde(skip_serializing_if = "is_zero")]
    event_change_type: i64,
    #[serde(skip_serializing_if = "is_zero")]
    event_change_detail: i64,
    #[serde(rename = "referenceID", skip_serializing_if = "str::is_empty")]
    reference_id: &'r str,
    /// An addition to the interface, which other readers ignore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<&'r str>,
    /// Sent even if empty.
    resource: ShownAmounts<'r>,
}

/// Amounts by name.
#[derive(Serialize)]
struct ShownAmounts<'r> {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    resources: BTreeMap<&'r str, ShownQuantity>,
}

#[derive(Serialize)]
struct ShownQuantity {
    #[serde(skip_serializing_if = "is_zero")]
    value: i64,
}

impl<'r> Shown<'r> {
    pub(super) fn of(event: &'r NamedEvent) -> Self {
        let NamedEvent { record, pod } = event;
        let amounts = record.resource.iter().flat_map(|resource| &resource.resources);
        let amounts = amounts.map(|(name, quantity)| {
            let quantity = ShownQuantity { value: quantity.value };
            (name.as_str(), quantity)
        });
        Self {
            kind: record.r#type.into(),
            object_id: &record.object_id,
            message: &record.message,
            timestamp_nano: record.timestamp_nano,
            event_change_type: record.event_change_type.into(),
            event_change_detail: record.event_change_detail.into(),
            reference_id: &record.reference_id,
            pod: pod.as_deref(),
            resource: ShownAmounts { resources: amounts.collect() },
        }
    }
}

/// Formats one line per event.
pub(super) fn lines<'r>(events: impl Iterator<Item = &'r NamedEvent>) -> Bytes {
    let mut text = Vec::new();
    for event in events {
        serde_json::to_writer(&mut text, &Shown::of(event)).expect("texts and numbers are JSON");
        text.push(b'\n');
    }
    text.into()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use monoceros_proto::si::v1 as si;
    use monoceros_proto::si::v1::event_record::{ChangeDetail, ChangeType, Type};

    use super::*;

    #[test]
    fn empty_fields_are_omitted_except_amounts() {
        let nothing = si::EventRecord::default();
        let amounts = [("pods", 0), ("vcore", 500)];
        let quantity = |(name, value): (&str, i64)| (name.to_owned(), si::Quantity { value });
        let full = si::EventRecord {
            r#type: Type::Node.into(),
            object_id: "n \"1\"".to_owned(),
            message: "schedulable: false".to_owned(),
            timestamp_nano: 1_790_000_000_000_000_042,
            event_change_type: ChangeType::Set.into(),
            event_change_detail: ChangeDetail::NodeSchedulable.into(),
            reference_id: "k".to_owned(),
            resource: Some(si::Resource { resources: amounts.map(quantity).into() }),
            ..si::EventRecord::default()
        };
        let named = |record, pod: Option<&str>| NamedEvent { record, pod: pod.map(Into::into) };
        let of_pod = named(full.clone(), Some("lab/p"));
        let shown = lines([named(nothing, None), named(full, None), of_pod].iter());
        expect_test::expect![[r#"
            {"resource":{}}
            {"type":3,"objectID":"n \"1\"","message":"schedulable: false","timestampNano":1790000000000000042,"eventChangeType":1,"eventChangeDetail":302,"referenceID":"k","resource":{"resources":{"pods":{},"vcore":{"value":500}}}}
            {"type":3,"objectID":"n \"1\"","message":"schedulable: false","timestampNano":1790000000000000042,"eventChangeType":1,"eventChangeDetail":302,"referenceID":"k","pod":"lab/p","resource":{"resources":{"pods":{},"vcore":{"value":500}}}}
        "#]]
        .assert_eq(std::str::from_utf8(&shown).unwrap());
    }
}
