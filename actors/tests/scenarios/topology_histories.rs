//! Random histories of gangs with a topology: nodes are added and removed in a few places and
//! zones, asks are late or fail, predicates refuse, answers are late, and the scheduler is
//! restarted. A full search tries every domain again for every decision, and members of a group
//! must never be in two domains.

use monoceros_rules::nodes::attributes::REMOVED;
use proptest::prelude::*;

use crate::gang_histories::{
    Kind, history, rush, survives_at_once, survives_late_answers, survives_watched,
};
use crate::histories::{holds_true, run};
use crate::judge::FIXED;
use crate::native_histories::DECLARED;
use crate::script::{Item, NodeWords, Script, Step, Wish};

/// Places of nodes: two of five are in one place, and one has none.
const PLACES: [(&str, &str); 6] =
    [("n1", "p1"), ("n2", "p2"), ("n3", "p1"), ("n4", "p2"), ("n5", "p3"), ("n6", "p3")];

/// Required and preferred topologies, chosen by the number of a group.
const TOPOLOGIES: [(&str, &[&str]); 6] = [
    (FIXED, &[]),
    (FIXED, &["zone"]),
    ("", &["zone", FIXED]),
    (FIXED, &[]),
    ("zone", &[]),
    ("", &[]),
];

fn in_places(words: &mut NodeWords, zone: usize) {
    let place = PLACES.iter().find(|(id, _)| **id == words.id);
    words.attributes.retain(|(name, _)| ![FIXED, "zone", REMOVED].contains(&name.as_str()));
    words.attributes.extend(place.map(|(_, place)| (FIXED.to_owned(), (*place).to_owned())));
    if zone < 3 {
        words.attributes.push(("zone".to_owned(), format!("z{zone}")));
    } else {
        words.attributes.push((REMOVED.to_owned(), "zone".to_owned()));
    }
}

fn together(groups: &mut [Wish], which: usize) {
    for (at, group) in groups.iter_mut().enumerate() {
        let (within, near) = TOPOLOGIES[(which + at) % TOPOLOGIES.len()];
        within.clone_into(&mut group.within);
        group.near = near.iter().map(|&key| key.to_owned()).collect();
    }
}

/// The same history with places and topologies, which are chosen by the numbers.
fn placed(mut script: Script, numbers: &[usize]) -> Script {
    let mut numbers = numbers.iter().copied().cycle();
    for step in &mut script.0 {
        let Step::Send { items, .. } = step else { continue };
        for item in items {
            let number = numbers.next().unwrap_or_default();
            match item {
                Item::Node(words) | Item::Resize(words) => in_places(words, number % 4),
                Item::App { needs, .. } => together(needs, number),
                _ => {}
            }
        }
    }
    script
}

fn in_domains(scripts: impl Strategy<Value = Script>) -> impl Strategy<Value = Script> {
    let numbers = prop::collection::vec(0..12_usize, 1..20);
    (scripts, numbers).prop_map(|(script, numbers)| placed(script, &numbers))
}

const KIND: Kind = DECLARED;

#[test]
fn topology_histories_equal_a_full_search() {
    run(7, in_domains(history(KIND)), holds_true);
}

#[test]
fn rushed_topology_histories_break_nothing() {
    run(3, in_domains(rush(KIND, false)), survives_watched);
}

#[test]
fn topology_groups_survive_changing_predicates() {
    run(3, in_domains(rush(KIND, true)), survives_at_once);
}

#[test]
fn topology_groups_survive_late_answers() {
    run(3, in_domains(rush(KIND, true)), survives_late_answers);
    run(3, in_domains(history(KIND)), survives_late_answers);
}
