//! Attributes of a node, and the effect of an update on them: `docs/nodes.md#another-capacity`.
//!
//! An update has the new attributes and leaves the others alone, so that an RM need not repeat its
//! earlier report. To remove attributes, an update lists them in the attribute [`REMOVED`]. That
//! one is a command and no property of the node, so it is never kept.
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use monoceros_rules::nodes::attributes;
//!
//! let text = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
//!     pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
//! };
//! let mut known = text(&[("zone", "a"), ("pool", "red"), ("si/hostname", "h1")]);
//! let update = text(&[("zone", "b"), (attributes::REMOVED, "pool, si/hostname, zone")]);
//! attributes::update(&mut known, update);
//! assert_eq!(known, text(&[("zone", "b"), ("si/hostname", "h1")]));
//! ```
use std::sync::Arc;

use crate::values::texts::Texts;

/// The attributes of a node, shared with the node.
pub type Attributes = Arc<Texts>;

use std::collections::BTreeMap;

/// The attribute of an update that lists the attributes to be removed: keys separated by commas;
/// spaces around a key are ignored.
pub const REMOVED: &str = "monoceros.io/removed-attributes";

/// The attribute for whether the node takes new allocations. It applies only to the update that has
/// it.
pub const READY: &str = "ready";

/// Attributes that are fixed when a node is created: an update neither changes nor removes them.
const FIXED: [&str; 5] =
    ["si/node-partition", "si/hostname", "si.io/hostname", "si/rackname", "si.io/rackname"];

/// Merges an update into the known attributes of a node. Removed keys are dropped first, then new
/// values are set, so a key that is in both stays, with its new value.
pub fn update(known: &mut BTreeMap<String, String>, mut update: BTreeMap<String, String>) {
    known.remove(READY);
    if let Some(removed) = update.remove(REMOVED) {
        for key in removed.split(',').map(str::trim).filter(|key| !is_fixed(key)) {
            known.remove(key);
        }
    }
    known.extend(update.into_iter().filter(|(key, _)| !is_fixed(key)));
}

fn is_fixed(key: &str) -> bool {
    FIXED.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(pairs: &str) -> BTreeMap<String, String> {
        let pairs = pairs.split(';').filter_map(|pair| pair.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn an_update_adds_changes_and_removes_what_it_names() {
        let cases = [
            ("nothing is named", "a=1;b=2", "", "", "a=1;b=2"),
            ("a new one, and another value", "a=1", "a=2;b=3", "", "a=2;b=3"),
            ("one goes", "a=1;b=2", "", "a", "b=2"),
            ("several go, with spaces around them", "a=1;b=2;c=3", "", " a ,\tb", "c=3"),
            ("an unknown one is gone already", "a=1", "", "x", "a=1"),
            ("empty keys mean nothing", "a=1", "", ",, ,", "a=1"),
            ("one that has a value stays", "a=1", "a=2", "a", "a=2"),
            ("one that is new and removed is there", "", "a=2", "a", "a=2"),
            (
                "the host name is fixed",
                "si/hostname=h",
                "si/hostname=i",
                "si/hostname",
                "si/hostname=h",
            ),
            ("the rack is fixed", "si.io/rackname=r", "", "si.io/rackname", "si.io/rackname=r"),
            (
                "the partition is fixed",
                "si/node-partition=p",
                "",
                "si/node-partition",
                "si/node-partition=p",
            ),
            ("what was said of being ready counts once", "ready=false;a=1", "", "", "a=1"),
            ("ready is removed like any other", "ready=false", "ready=true", "ready", "ready=true"),
        ];
        for (case, before, named, removed, after) in cases {
            let mut known = texts(before);
            let mut change = texts(named);
            if !removed.is_empty() {
                change.insert(REMOVED.to_owned(), removed.to_owned());
            }
            update(&mut known, change);
            assert_eq!(known, texts(after), "{case}");
        }
    }
}
