//! Search that visits every state that can be reached within the bounds, each once.
//!
//! Depth first keeps few states in memory; breadth first finds the shortest way to a violation.
//! States are compared by a hash of 64 bits: with ten million states two of them are taken for
//! one with a chance of three in a million.

use std::collections::{HashSet, VecDeque};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use super::actions::Action;
use super::world::World;
use super::{Bounds, Kind};
use crate::rules::Rule;

/// The steps that led to a state, last first.
struct Way {
    action: Action,
    before: Option<Rc<Self>>,
    /// Number of steps.
    depth: usize,
}

/// Result of a search.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) states: usize,
    /// Steps of the longest way to a state.
    pub(super) depth: usize,
    /// Steps and the property that they violate. `None`: all states are right.
    pub(super) violation: Option<String>,
    /// Whether the search stopped at its bound of states.
    pub(super) is_cut: bool,
}

fn written(way: Option<&Rc<Way>>, violation: &str) -> String {
    let mut steps = Vec::new();
    let mut at = way;
    while let Some(way) = at {
        steps.push(format!("{:?}", way.action));
        at = way.before.as_ref();
    }
    let mut text = String::new();
    for step in steps.iter().rev() {
        let _ = writeln!(text, "{step}");
    }
    text + violation
}

fn fingerprint(world: &World) -> u64 {
    let mut hasher = DefaultHasher::new();
    world.hash(&mut hasher);
    hasher.finish()
}

/// Searches all states, with one rule left out if there is one.
pub(super) fn search(bounds: &Bounds, left_out: Option<Rule>) -> Found {
    let mut seen = HashSet::new();
    let mut open: VecDeque<(World, Option<Rc<Way>>)> = VecDeque::new();
    let mut first = World::new(bounds, left_out);
    for action in &bounds.first {
        first.act(bounds, action);
    }
    open.push_back((first, None));
    let mut longest = 0;
    while let Some((world, way)) =
        if bounds.has(Kind::BreadthFirst) { open.pop_front() } else { open.pop_back() }
    {
        let depth = way.as_ref().map_or(0, |way| way.depth);
        longest = longest.max(depth);
        let found = |states, violation, is_cut| Found { states, depth: longest, violation, is_cut };
        let print = fingerprint(&world);
        if !seen.insert(print) {
            continue;
        }
        let violation = world.violated(bounds.has(Kind::StandingWrites)).or_else(|| {
            print.is_multiple_of(bounds.recovery_of).then(|| world.unrecovered()).flatten()
        });
        if let Some(violation) = violation {
            return found(seen.len(), Some(written(way.as_ref(), &violation)), false);
        }
        if seen.len() >= bounds.states {
            return found(seen.len(), None, true);
        }
        for action in world.actions(bounds) {
            let mut next = world.clone();
            next.act(bounds, &action);
            if !seen.contains(&fingerprint(&next)) {
                let way = Way { action, before: way.clone(), depth: depth + 1 };
                open.push_back((next, Some(Rc::new(way))));
            }
        }
    }
    Found { states: seen.len(), depth: longest, violation: None, is_cut: false }
}
