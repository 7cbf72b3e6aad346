//! Names by which a release finds waiting items: the same names by which it ends or withdraws what
//! is in the books (`docs/applications.md#releasing-allocations`).
//!
//! A waiting item is a request in one of two forms, or an allocation that was reported, alone or
//! with its node. A release means all items with a name, or all of a form. Both are one range of
//! the ordered set of names, and every item in the range is taken out: none is examined without
//! result.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

use super::item::Item;
use crate::step::{Cause, Existing, Op, WaitsFor, Which};

/// A name of a waiting item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Name {
    application: Arc<str>,
    kind: Kind,
    text: Arc<str>,
    /// The number of the item.
    pub(super) number: u64,
    /// The position of an allocation among those of its node; 0 for anything else.
    pub(super) position: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Kind {
    /// The key of an ask.
    Ask,
    /// The key of a request in today's form.
    Unified,
    /// The key of an allocation that exists.
    Key,
    /// The UUID of an allocation that exists.
    Uuid,
}

/// Returns the names of an item.
pub(super) fn of(item: &Item, number: u64) -> impl Iterator<Item = Name> {
    let (op, existing) = match item {
        Item::Op(application, op) => (Some((application, op)), None),
        Item::Node(new) => (None, Some(&new.existing)),
        Item::NodeChange(..) => (None, None),
    };
    let of_op = op.into_iter().flat_map(move |(application, op)| of_op(application, op, number));
    let existing = existing.into_iter().flatten().enumerate();
    let on_node = existing.flat_map(move |(position, (application, existing))| {
        of_existing(application, existing, number, position)
    });
    of_op.chain(on_node)
}

fn of_op(application: &Arc<str>, op: &Op, number: u64) -> impl Iterator<Item = Name> {
    let (kind, existing) = match op {
        Op::Ask(spec) => (Some((Kind::Ask, &spec.key)), None),
        Op::Unified(spec) => (Some((Kind::Unified, &spec.key)), None),
        Op::Existing(existing) => (None, Some(existing)),
        _ => (None, None),
    };
    let asked = kind.map(|(kind, key)| Name {
        application: Arc::clone(application),
        kind,
        text: Arc::clone(key),
        number,
        position: 0,
    });
    let existing = existing.into_iter().flat_map(move |it| of_existing(application, it, number, 0));
    asked.into_iter().chain(existing)
}

/// Returns the names of one allocation that exists.
pub(super) fn of_existing(
    application: &Arc<str>,
    existing: &Existing,
    number: u64,
    position: usize,
) -> [Name; 2] {
    [(Kind::Key, &existing.spec.key), (Kind::Uuid, &existing.uuid)].map(|(kind, text)| Name {
        application: Arc::clone(application),
        kind,
        text: Arc::clone(text),
        number,
        position,
    })
}

/// Counts the allocations of the awaited application that a node brings; 0 for anything but a node.
pub(super) fn naming(item: &Item, awaited: &WaitsFor) -> usize {
    let (Item::Node(node), WaitsFor::Application(awaited)) = (item, awaited) else { return 0 };
    node.existing.iter().filter(|(application, _)| application == awaited).count()
}

/// Returns the names of waiting items that the release `op` takes out of an application: one name
/// of each item or allocation, in order of arrival. Empty for an op that is no release.
pub(super) fn found(named: &BTreeSet<Name>, application: &Arc<str>, op: &Op) -> Vec<Name> {
    let (wanted, text): (&[Kind], _) = match op {
        Op::WithdrawAsks(key) => (&[Kind::Ask, Kind::Unified], key.as_ref()),
        Op::Release { cause, .. } if cause.is_failure_to_start() => return Vec::new(),
        // The release confirms that placeholders ended: pending asks stay.
        Op::Release { which, cause: Cause::ConfirmedTimeout, .. } => match which {
            Which::Uuid(uuid) => (&[Kind::Uuid], Some(uuid)),
            Which::Key(key) => (&[Kind::Key], Some(key)),
            Which::All => (&[Kind::Uuid], None),
        },
        Op::Release { which, .. } => match which {
            Which::Uuid(uuid) => (&[Kind::Unified, Kind::Uuid], Some(uuid)),
            Which::Key(key) => (&[Kind::Ask, Kind::Unified, Kind::Key], Some(key)),
            Which::All => (&[Kind::Unified, Kind::Uuid], None),
        },
        _ => return Vec::new(),
    };
    let mut found: Vec<Name> =
        wanted.iter().flat_map(|kind| with(named, application, *kind, text)).cloned().collect();
    found.sort_by_key(|name| (name.number, name.position));
    found
}

/// Returns all names of a kind, or those with this text.
fn with<'a>(
    named: &'a BTreeSet<Name>,
    application: &Arc<str>,
    kind: Kind,
    text: Option<&'a Arc<str>>,
) -> impl Iterator<Item = &'a Name> + use<'a> {
    let first = Name {
        application: Arc::clone(application),
        kind,
        text: text.cloned().unwrap_or_else(|| Arc::from("")),
        number: 0,
        position: 0,
    };
    let application = Arc::clone(application);
    named.range(first..).take_while(move |found| {
        found.application == application
            && found.kind == kind
            && text.is_none_or(|text| found.text == *text)
    })
}
