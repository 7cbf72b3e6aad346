//! The model of a cluster: members that run the code of this crate, an arbiter, and processes of
//! RMs, with every order of events and a bounded number of faults.
//!
//! # Events
//! Requests to the arbiter and registrations take any time and overtake each other; a process of an
//! RM leaves its member and registers at any other whenever it likes, which members of some searches
//! notice; where operators give orders, an owner frees the claim of an RM without a session whenever
//! it likes. This costs nothing. Each of these counts as a fault: a reply that is lost or late, a
//! request that times out and is carried out later or never, a registration that arrives twice, a
//! process that stands still, a slow or cut line to the arbiter, a crash, a second process with the
//! same id, an order to hand over, to drain, to deregister or to leave. One clock may differ from the
//! others by one tick, which is the margin of a lease. Renewals of a member whose line is not slow
//! are carried out with each tick.
//!
//! # Properties
//! In each state: at most one member that an RM listens to decides for it, and no session outlives
//! its claim by more than a lease (`effects`). With each transition: epochs never go back, a
//! process that was displaced does not take its session back, no registration is granted after the
//! lease, no RM is given to a member that was known to take none, and no member gives up without a
//! reason. And from each state, or a sample: once faults
//! have ended, an RM that registers is served (`recovery`), and not by a drained member.
//!
//! # Bounds
//! `MONOCEROS_MODEL_STATES` is the number of states at which each search stops, 250,000 if it is
//! not set; `MONOCEROS_MODEL_FAULTS` and `MONOCEROS_MODEL_TICKS` add faults and time. A search that
//! ended at its bound says so in its output.

mod actions;
mod cases;
mod effects;
mod given_up;
mod mutants;
mod recovery;
mod search;
mod world;

use self::actions::Action;
use self::search::search;

/// Something that a search includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Processes crash and start again.
    Crashes,
    /// Operators move RMs and end members; RMs deregister; owners free claims of RMs without a
    /// session.
    Orders,
    /// Members notice that the client of a registration waits no longer.
    Abandons,
    /// Operators drain members, except the last one that is not drained.
    Drains,
    /// A second process is started with the id of the first.
    Twins,
    /// The arbiter goes back to its first state, once.
    Restores,
    /// A process that stands still hands over what it decided before. Not promised to be safe.
    StandingWrites,
    /// The clock of a process that stands still stops. Not promised to be safe.
    StoppedClocks,
    /// Slow lines are the only faults.
    OnlySlowLines,
    /// The shortest way to a violation is found first.
    BreadthFirst,
}

/// Bounds of a search.
#[derive(Clone, Debug)]
struct Bounds {
    members: usize,
    /// Registrations of each instance after the start. Two instances for each RM: the first is
    /// served when the search begins.
    knocks: Vec<u8>,
    ticks: u64,
    faults: u8,
    drifts: u8,
    /// Ticks by which the lease of the first member is longer than that of the others.
    longer: u64,
    kinds: Vec<Kind>,
    /// Steps before the search begins.
    first: Vec<Action>,
    /// States at which the search stops.
    states: usize,
    /// One state of so many is tried for recovery.
    recovery_of: u64,
}

impl Bounds {
    fn new(knocks: &[u8], ticks: u64, faults: u8, kinds: &[Kind]) -> Self {
        Self {
            members: 3,
            knocks: knocks.to_vec(),
            ticks: ticks + set("MONOCEROS_MODEL_TICKS", 0),
            faults: faults + set("MONOCEROS_MODEL_FAULTS", 0),
            drifts: 0,
            longer: 0,
            kinds: kinds.to_vec(),
            first: Vec::new(),
            states: set("MONOCEROS_MODEL_STATES", 250_000),
            recovery_of: 256,
        }
    }

    fn of_members(self, members: usize) -> Self {
        Self { members, ..self }
    }

    fn has(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }
}

/// A number from the environment.
fn set<N: std::str::FromStr>(name: &str, default: N) -> N {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Searches, and fails with the steps that lead to a violation.
fn holds(name: &str, bounds: &Bounds) {
    let found = search(bounds, None);
    let (states, depth) = (found.states, found.depth);
    let cut = if found.is_cut { ", cut" } else { "" };
    println!("{name}: {states} states, at most {depth} steps{cut}");
    if let Some(violation) = found.violation {
        panic!("{name}:\n{violation}");
    }
}

/// Names of all rules, by the source that declares them.
fn rules_of(source: &str) -> Vec<&str> {
    let (_, declared) = source.split_once("enum Rule {").expect("it is there");
    let (declared, _) = declared.split_once('}').expect("it ends");
    declared
        .lines()
        .map(|line| line.trim().trim_end_matches(','))
        .filter(|line| !line.is_empty() && !line.starts_with("///"))
        .collect()
}

#[test]
fn two_instances_have_one_owner_through_crashes_and_orders() {
    let bounds = Bounds::new(&[0, 1], 2, 1, &[Kind::Crashes, Kind::Orders]);
    holds("crashes and orders", &bounds.of_members(2));
}

#[test]
fn three_members_and_two_instances_have_one_owner() {
    holds("three members", &Bounds::new(&[1, 1], 1, 1, &[]));
}

#[test]
fn leases_hold_while_clocks_differ() {
    let mut bounds = Bounds::new(&[0, 1], 4, 1, &[Kind::OnlySlowLines]).of_members(2);
    bounds.drifts = 1;
    holds("clocks", &bounds);
}

#[test]
fn leases_of_different_lengths_hold() {
    let mut bounds = Bounds::new(&[0, 1], 6, 1, &[Kind::OnlySlowLines]).of_members(2);
    bounds.longer = 2;
    holds("different leases", &bounds);
}

#[test]
fn leases_hold_while_processes_stand_still() {
    holds("standing still", &Bounds::new(&[0, 1], 4, 1, &[]).of_members(2));
}

#[test]
fn two_faults_at_once_leave_one_owner() {
    holds("two faults", &Bounds::new(&[0, 1], 1, 2, &[Kind::Crashes]).of_members(2));
}

#[test]
fn a_drained_member_hands_over_and_takes_none() {
    holds("drains", &Bounds::new(&[0, 1], 2, 2, &[Kind::Drains]));
}

#[test]
fn clients_that_give_up_leave_one_owner() {
    holds("abandoned", &Bounds::new(&[1, 1], 1, 1, &[Kind::Abandons]).of_members(2));
}

#[test]
fn two_processes_with_one_id_never_serve_together() {
    holds("twins", &Bounds::new(&[0, 1], 4, 1, &[Kind::Twins]).of_members(2));
}

#[test]
fn two_rms_do_not_disturb_each_other() {
    holds("two RMs", &Bounds::new(&[0, 1, 0, 1], 1, 1, &[]));
}

#[test]
fn a_restored_store_is_noticed_and_accepted() {
    holds("restore", &Bounds::new(&[1, 1], 6, 0, &[Kind::Restores]).of_members(2));
}

#[test]
fn faults_that_are_not_promised_are_found() {
    for kind in [Kind::StandingWrites, Kind::StoppedClocks] {
        let bounds = Bounds::new(&[0, 1], 6, 1, &[kind, Kind::BreadthFirst]);
        let found = search(&bounds, None);
        let violation = found.violation.unwrap_or_default();
        assert!(violation.ends_with("both decide for RmId(\"rm-0\")"), "{kind:?}: {violation}");
    }
}
