//! Reads the task groups of an application from JSON in a tag.
//!
//! ```json
//! [{"name": "worker", "minMember": 4, "minResource": {"vcore": 2, "memory": "4Gi"},
//!   "tags": {"role": "worker"}, "priority": 5, "preemptionPolicy": {"allowPreemptSelf": true}}]
//! ```
//!
//! Quantities have the units of the queue configuration, also if they are written as numbers: two
//! cores are `"vcore": 2` here and 2000 in the messages of the interface. An unknown or repeated
//! key is an error, so that no misspelling changes what a gang needs.
//!
//! # Bounds
//! A text of more than [`MAX_BYTES`] is rejected. The JSON reader bounds the nesting, and
//! [`Declaration`] bounds the number of groups and members.
//!
//! ```
//! use monoceros_config::task_groups;
//! use monoceros_rules::values::resources::NameHolder;
//!
//! let names = NameHolder::default();
//! let text = r#"[{"name": "worker", "minMember": 4, "minResource": {"vcore": 2}}]"#;
//! let gang = task_groups::parse(text, &names).unwrap();
//! assert_eq!(gang.total().to_string(), "map[vcore:8000]");
//!
//! let fault = task_groups::parse(&text.replace("4,", "4, \"members\": 4,"), &names).unwrap_err();
//! assert_eq!(fault.to_string(), "task group `worker`: key `members` is not known");
//! ```

mod constraint;
mod object;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_rules::specs::ask::Preemption;
use monoceros_rules::specs::constraint::Constraint;
use monoceros_rules::specs::declaration::{Declaration, DeclaredGroup, Fault, Topology};
use monoceros_rules::values::names::shown;
use monoceros_rules::values::quantity;
use monoceros_rules::values::resources::{NAME_BYTES, NameHolder, Resources};
use serde_json::Value;

use self::object::{Object, Unique, list, text};
use crate::placement;

/// The tag that carries the task groups.
pub const TAG: &str = "monoceros.io/task-groups";
/// Longest text in bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// Reads a placement constraint; one without a kind is `None`. The error names the fault and its
/// location.
pub fn constraint(text: &str) -> Result<Option<Constraint>, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("it is longer than {MAX_BYTES} bytes"));
    }
    let read = serde_json::from_str(text);
    let Unique(value) = read.map_err(|fault| shown(&format!("it is no JSON: {fault}")))?;
    constraint::read(value, "constraint")
}

/// Reads the declaration in the tags of an application, if there is one. `names` holds the resource
/// types.
pub fn of_tags(
    tags: &BTreeMap<String, String>,
    names: &NameHolder,
) -> Result<Option<Declaration>, Fault> {
    placement::tag(tags, TAG).map(|text| parse(text, names)).transpose()
}

/// Reads the text of the tag.
pub fn parse(text: &str, names: &NameHolder) -> Result<Declaration, Fault> {
    if text.len() > MAX_BYTES {
        let why = format!("{} bytes, at most {MAX_BYTES} are read", text.len());
        return Err(Fault::Unreadable(why));
    }
    let groups: Vec<Unique> =
        serde_json::from_str(text).map_err(|error| Fault::Unreadable(shown(&error.to_string())))?;
    let groups = groups.into_iter().enumerate().map(|(at, Unique(value))| {
        let name = value.get("name").and_then(Value::as_str).unwrap_or_default();
        let shown = Fault::shown_group(name, at);
        group(value, names).map_err(|what| Fault::Group { group: shown, what })
    });
    Declaration::new(groups.collect::<Result<_, _>>()?)
}

fn group(value: Value, names: &NameHolder) -> Result<DeclaredGroup, String> {
    let mut keys = Object::of(value, "")?;
    let name = keys.read("name", text)?.unwrap_or_default();
    let members = keys.read("minMember", whole)?.ok_or("`minMember` is missing")?;
    let member = keys.read("minResource", |value, key| resources(value, key, names))?;
    let group = DeclaredGroup {
        topology: keys.read("topology", topology)?.flatten(),
        constraint: keys.read("constraint", constraint::read)?.flatten(),
        tags: keys
            .read("tags", tags)?
            .filter(|tags| !tags.is_empty())
            .map(|tags| Arc::new(tags.into())),
        priority: keys.read("priority", priority)?.unwrap_or_default(),
        preemption: keys.read("preemptionPolicy", preemption)?.unwrap_or_default(),
        ..DeclaredGroup::new(&name, members, member)
    };
    keys.done()?;
    Ok(group)
}

/// Reads a whole number: a JSON number without a fraction, or a text of digits, which is the
/// protobuf JSON form of 64-bit numbers.
#[expect(clippy::needless_pass_by_value, reason = "a reader of `Object::read` is given the value")]
fn whole(value: Value, key: &str) -> Result<i64, String> {
    let digits = match &value {
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|number| number.fract() == 0.0);
            whole.map(|whole| format!("{whole:.0}"))
        }
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            let is_whole = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
            is_whole.then(|| text.clone())
        }
        _ => None,
    };
    let written = || shown(&value.to_string());
    let digits = digits.ok_or_else(|| format!("`{key}` is no whole number: {}", written()))?;
    digits.parse().map_err(|_| out_of_range(key, &written(), i64::MIN, i64::MAX))
}

fn priority(value: Value, key: &str) -> Result<i32, String> {
    let number = whole(value, key)?;
    i32::try_from(number)
        .map_err(|_| out_of_range(key, &number.to_string(), i32::MIN.into(), i32::MAX.into()))
}

fn out_of_range(key: &str, written: &str, least: i64, most: i64) -> String {
    format!("`{key}` is out of range: {written}, it must be from {least} to {most}")
}

#[expect(clippy::needless_pass_by_value, reason = "a reader of `Object::read` is given the value")]
fn truth(value: Value, key: &str) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("`{key}` is neither true nor false"))
}

/// Reads amounts as texts or numbers, each written as in the queue configuration.
fn resources(value: Value, key: &str, names: &NameHolder) -> Result<Resources, String> {
    let mut amounts = Resources::new();
    for (name, value) in Object::of(value, key)?.entries() {
        let within = |why: String| format!("`{key}`: {why}");
        let written = match value {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            _ => return Err(within(format!("`{}` is neither a text nor a number", shown(&name)))),
        };
        if name.len() > NAME_BYTES {
            return Err(within(format!("a resource name is longer than {NAME_BYTES} bytes")));
        }
        let (shown_name, shown_text) = (shown(&name), shown(&written));
        let quantity = if shown_text == written {
            quantity::parse(&name, &written).map_err(|error| within(error.message()))?
        } else {
            return Err(within(format!("`{shown_text}` is not a quantity of `{shown_name}`")));
        };
        let name = names.hold(&name).map_err(|error| within(error.to_string()))?;
        amounts.set(name, quantity);
    }
    Ok(amounts)
}

fn topology(value: Value, key: &str) -> Result<Option<Topology>, String> {
    let mut keys = Object::of(value, key)?;
    let required = keys.read("required", text)?.unwrap_or_default();
    let preferred = keys.read("preferred", |value, key| list(value, key, text))?;
    keys.done()?;
    Ok(Topology::new(required, preferred.unwrap_or_default()))
}

fn tags(value: Value, key: &str) -> Result<BTreeMap<String, String>, String> {
    let entries = Object::of(value, key)?.entries();
    entries.map(|(name, value)| Ok((name, text(value, key)?))).collect()
}

/// Reads a preemption policy. As in the message of the interface, an existing policy is taken as
/// written: a missing field is false.
fn preemption(value: Value, key: &str) -> Result<Preemption, String> {
    let mut keys = Object::of(value, key)?;
    let itself = keys.read("allowPreemptSelf", truth)?.unwrap_or_default();
    let others = keys.read("allowPreemptOther", truth)?.unwrap_or_default();
    keys.done()?;
    Ok(Preemption::new(itself, others))
}
