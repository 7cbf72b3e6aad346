//! Messages of the gRPC services as documents, in JSON and YAML.
//!
//! They have the JSON form that protobuf defines and tools such as `grpcurl` print, with three
//! differences that make them easier to use: amounts are `{"vcore": 1000}`, numbers are numbers,
//! and zeros are included. Numbers of sessions stay texts, because programs that read numbers as
//! floating point would change them. Values that mean *none* are left out: empty texts, times that
//! are not set, and the priority of an application or queue without pending requests. Entries of
//! maps, such as tags, are kept as they are.

use std::sync::OnceLock;

use anyhow::Context as _;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MessageDescriptor, SerializeOptions};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::grpc::stubs::DESCRIPTORS;
use crate::logging::{clean_json, clean_lines};

/// The field whose numbers exceed the precision of floating point.
const SESSION: &str = "sessionId";

/// The field that is `i32::MIN` if nothing is pending.
const PRIORITY: &str = "priority";

/// The end of the names of times, which are zero if they are not set.
const TIME: &str = "Nano";

/// The time of a decision, which is zero if nothing was awaited.
const DECIDED: &str = "decidedTime";

/// Returns the document of a message with this name, such as `monoceros.v1.NodeState`.
pub(super) fn document(name: &str, message: &impl Message) -> anyhow::Result<Value> {
    static POOL: OnceLock<Option<DescriptorPool>> = OnceLock::new();
    let pool = POOL.get_or_init(|| DescriptorPool::decode(DESCRIPTORS).ok());
    let found = pool.as_ref().and_then(|pool| pool.get_message_by_name(name));
    let found = found.with_context(|| format!("no message `{name}` is described"))?;
    let kind = Kind::Message(found.clone());
    let dynamic = DynamicMessage::decode(found, message.encode_to_vec().as_slice())?;
    let options =
        SerializeOptions::new().stringify_64_bit_integers(false).skip_default_fields(false);
    let value = dynamic.serialize_with_options(serde_json::value::Serializer, &options)?;
    Ok(simple(value, Some(&kind)))
}

/// Formats a document as JSON of several lines.
pub(super) fn json(document: &impl Serialize) -> anyhow::Result<String> {
    Ok(clean_json(&serde_json::to_string_pretty(document)?).into_owned() + "\n")
}

/// Formats a document as JSON of one line.
pub(super) fn json_line(document: &Value) -> anyhow::Result<String> {
    Ok(clean_json(&serde_json::to_string(document)?).into_owned() + "\n")
}

pub(super) fn yaml(document: &impl Serialize) -> anyhow::Result<String> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let text = serde_saphyr::to_string_with_options(document, options)?;
    Ok(clean_lines(&text).into_owned())
}

/// Formats a document as YAML that other documents may follow.
pub(super) fn yaml_part(document: &Value) -> anyhow::Result<String> {
    Ok("---\n".to_owned() + &yaml(document)?)
}

/// Simplifies a value of this kind. `None` if the kind is unknown.
fn simple(value: Value, kind: Option<&Kind>) -> Value {
    match value {
        Value::Object(fields) => amounts(&fields).unwrap_or_else(|| {
            let message = kind.and_then(Kind::as_message);
            let is_map = message.is_some_and(MessageDescriptor::is_map_entry);
            let entries = fields.into_iter().filter(|(key, value)| is_map || is_set(key, value));
            let entries = entries.map(|(key, value)| {
                let value = match value {
                    Value::Number(number) if key == SESSION => Value::String(number.to_string()),
                    value => simple(value, below(message, &key).as_ref()),
                };
                (key, value)
            });
            Value::Object(entries.collect())
        }),
        Value::Array(items) => items.into_iter().map(|item| simple(item, kind)).collect(),
        other => other,
    }
}

/// Returns the kind of a field, or of the values of a map.
fn below(message: Option<&MessageDescriptor>, key: &str) -> Option<Kind> {
    let message = message?;
    let field = if message.is_map_entry() {
        message.map_entry_value_field()
    } else {
        message.get_field_by_json_name(key)?
    };
    Some(field.kind())
}

/// Whether a field has a value: messages mark *none* by a number or an empty text.
fn is_set(key: &str, value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty(),
        Value::Number(number) if key == PRIORITY => number.as_i64() != Some(i32::MIN.into()),
        Value::Number(number) if key.ends_with(TIME) || key == DECIDED => {
            number.as_i64() != Some(0)
        }
        _ => true,
    }
}

/// Simplifies a resource: from `{"resources": {"vcore": {"value": 1000}}}` to `{"vcore": 1000}`.
fn amounts(fields: &Map<String, Value>) -> Option<Value> {
    let [("resources", Value::Object(quantities))] =
        fields.iter().map(|(key, value)| (key.as_str(), value)).collect::<Vec<_>>()[..]
    else {
        return None;
    };
    let amount = |(name, quantity): (&String, &Value)| {
        let Value::Object(quantity) = quantity else { return None };
        let value = quantity.get("value").filter(|value| value.is_i64())?;
        (quantity.len() == 1).then(|| (name.clone(), value.clone()))
    };
    quantities.iter().map(amount).collect::<Option<_>>().map(Value::Object)
}

#[cfg(test)]
mod tests {
    use monoceros_proto::si::v1 as si;
    use monoceros_proto::v1;
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_and_numbers_are_plain_and_zeros_included() {
        let quantity = si::Quantity { value: 4_000 };
        let capacity = si::Resource { resources: [("vcore".to_owned(), quantity)].into() };
        let node = v1::NodeState {
            node_id: "n1".to_owned(),
            capacity: Some(capacity),
            allocated: Some(si::Resource::default()),
            ..Default::default()
        };
        let document = document("monoceros.v1.NodeState", &node).unwrap();
        assert_eq!(document["capacity"], json!({ "vcore": 4_000 }));
        assert_eq!(document["allocated"], json!({}));
        assert_eq!(
            (&document["nodeId"], &document["schedulable"], &document["allocations"]),
            (&json!("n1"), &json!(false), &json!(0))
        );
        assert_eq!(document.get("available"), None, "it is not known");
    }

    #[test]
    fn numbers_of_sessions_keep_every_digit() {
        let session = v1::SessionInfo { session_id: 30_119_829_348_286_465, ..Default::default() };
        let document = document("monoceros.v1.SessionInfo", &session).unwrap();
        assert_eq!(document["sessionId"], "30119829348286465");
    }

    #[test]
    fn values_that_mean_none_are_left_out() {
        let queue = |priority| v1::QueueInfo { priority, ..Default::default() };
        let priority =
            |it| document("monoceros.v1.QueueInfo", &queue(it)).unwrap()["priority"].clone();
        assert_eq!(
            (priority(i32::MIN), priority(-1), priority(0)),
            (Value::Null, json!(-1), json!(0))
        );
        let session =
            |id: &str| v1::SessionInfo { instance_id: id.to_owned(), ..Default::default() };
        let instance = |id| document("monoceros.v1.SessionInfo", &session(id)).unwrap();
        assert_eq!(
            (instance("").get("instanceId"), &instance("i")["instanceId"]),
            (None, &json!("i"))
        );
    }

    #[test]
    fn empty_texts_and_unset_times_are_left_out_but_not_of_maps() {
        let application = v1::ApplicationInfo {
            application_id: "a".to_owned(),
            submitted_at_nano: 5,
            tags: [("why".to_owned(), String::new())].into(),
            ..Default::default()
        };
        let document = document("monoceros.v1.ApplicationInfo", &application).unwrap();
        for none in ["why", "cure", "rejected", "removed", "queue", "startedAtNano"] {
            assert_eq!(document.get(none), None, "{none}");
        }
        assert_eq!(
            (&document["submittedAtNano"], &document["tags"], &document["requests"]),
            (&json!(5), &json!({ "why": "" }), &json!(0))
        );
    }

    #[test]
    fn every_listed_kind_has_a_document() {
        for name in ["QueueInfo", "ApplicationInfo", "NodeState", "SessionInfo"] {
            document(&format!("monoceros.v1.{name}"), &v1::QueueInfo::default()).unwrap();
        }
        document("monoceros.si.v1.EventRecord", &si::EventRecord::default()).unwrap();
    }

    #[test]
    fn documents_control_no_terminal() {
        let value = json!({ "name": "a\u{1b}[2J\u{202e}" });
        for text in [json(&value), json_line(&value), yaml(&value)] {
            let text = text.unwrap();
            assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
        }
    }
}
