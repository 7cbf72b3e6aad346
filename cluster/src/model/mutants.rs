//! Each rule left out once: the search has to find the fault that follows.
//!
//! | promise | rules |
//! |---|---|
//! | a member decides for less than a lease after the first sending of a renewal that counts | `DecidesWithinLease`, `CountsFromFirstSending`, `OwnContentsAreWon` |
//! | a renewal counts after a read of the claims, which ends sessions that others have claimed | `ReadsClaimsAfterRenewal`, `EndsClaimedSessions`, `EndsByEpoch` |
//! | a member is deposed after a lease in which its record did not change, the longer of two | `WaitsForLease`, `WaitsForLongerLease`, `SilenceFromReply`, `SilenceOfThisVersion` |
//! | a process replaces a record of its id only if that is over | `WaitsForPredecessor` |
//! | a member that ends gives its RMs away, then writes that it left | `EndsBeforeHandOver`, `EndsBeforeLeaving` |
//! | a registration is answered after a compare-and-set, and another look at the clock | `ClaimsBeforeAnswer`, `LooksAgainBeforeAnswer`, `EndsBeforeClaim` |
//! | an epoch never goes back | `EpochAboveLast`, `EpochAboveShown`, `EpochAboveFloor` |
//! | claims of an incarnation that is over are free, others are not | `ClaimsOfTheDeadAreFree`, `ReadsOwnerAfterClaim` |
//! | the proof takes an RM from a live owner at once, for the last process that was served | `AsksForProof`, `RefusesOlderAttempts`, `RefusesSuperseded` |
//! | an owner hands over an RM that a member wants which cannot reach it, and which takes RMs | `HandsOverWanted`, `SparesMembersThatTakeNone` |
//! | an owner deregisters what it has ended itself, and frees what it does not serve | `DeregistersOwnEpoch`, `FreesOnlyUnserved` |
//! | a restored backup fences every member | `NoticesRestore` |
//!
//! Shown elsewhere: the exit of a process whose id another one has, and the lease for which a wanted
//! RM stays (`cases`); clocks that differ by the margin of the lease (`leases_hold_while_clocks_differ`);
//! one task for each RM, which is asserted with every request.

use super::actions::Action;
use super::search::search;
use super::world::rm;
use super::{Bounds, Kind, rules_of};
use crate::member::Operation;
use crate::rules::Rule;

/// Rules with the bounds within which their absence shows, and a part of the violation.
fn mutants() -> Vec<(Rule, Bounds, &'static str)> {
    let two = "both decide";
    let lost = lost();
    let with = |members, knocks: &[u8], ticks, faults, kinds: &[Kind]| {
        let mut bounds = Bounds::new(knocks, ticks, faults, kinds);
        bounds.members = members;
        bounds
    };
    let slow = &[Kind::OnlySlowLines];
    let crashes = &[Kind::Crashes];
    let orders = &[Kind::Orders];
    let restores = &[Kind::Restores];
    let longer = |bounds| Bounds { longer: 2, ..bounds };
    vec![
        (Rule::DecidesWithinLease, with(2, &[0, 1], 4, 1, &[]), two),
        (Rule::CountsFromFirstSending, with(2, &[1, 1], 6, 1, &[]), two),
        (Rule::ReadsClaimsAfterRenewal, with(3, &[0, 0], 2, 0, &[]), lost),
        (Rule::EndsClaimedSessions, with(2, &[1, 0], 6, 0, &[]), "still serves"),
        (Rule::EndsByEpoch, with(2, &[1, 0], 2, 1, slow), "without a newer claim"),
        (Rule::OwnContentsAreWon, with(2, &[0, 0], 3, 2, &[]), "not restored"),
        (Rule::NoticesRestore, with(2, &[1, 1], 6, 0, restores), two),
        (Rule::WaitsForPredecessor, with(2, &[0, 1], 3, 1, &[Kind::Twins]), two),
        (Rule::WaitsForLease, with(2, &[0, 1], 2, 1, &[]), two),
        (Rule::WaitsForLongerLease, longer(with(2, &[0, 1], 6, 1, slow)), two),
        (Rule::SilenceFromReply, with(2, &[0, 1], 5, 2, &[]), two),
        (Rule::SilenceOfThisVersion, with(2, &[1, 1], 5, 2, &[]), two),
        (Rule::ReadsOwnerAfterClaim, with(2, &[1, 1], 2, 1, orders), two),
        (Rule::ClaimsOfTheDeadAreFree, with(3, &[0, 0], 2, 1, crashes), lost),
        (Rule::AsksForProof, with(2, &[0, 1], 1, 0, &[]), two),
        (Rule::RefusesOlderAttempts, with(3, &[2, 1], 1, 0, &[]), two),
        (Rule::RefusesSuperseded, with(2, &[1, 1], 1, 0, &[]), "took its session back"),
        (Rule::ClaimsBeforeAnswer, with(2, &[1, 1], 1, 0, &[]), "not above its last"),
        (Rule::EndsBeforeClaim, with(3, &[0, 1], 1, 2, &[]), two),
        (Rule::LooksAgainBeforeAnswer, with(2, &[0, 1], 4, 1, slow), "granted after the lease"),
        (Rule::EpochAboveLast, with(2, &[1, 1], 1, 0, &[]), "not above its last"),
        (Rule::EpochAboveShown, with(3, &[2, 0], 1, 0, restores), "not above its last"),
        (Rule::EpochAboveFloor, with(2, &[2, 1], 6, 0, restores), "went back"),
        (Rule::EndsBeforeHandOver, with(2, &[0, 1], 1, 2, orders), two),
        (Rule::HandsOverWanted, with(3, &[0, 0], 2, 0, &[]), "members apart"),
        (Rule::SparesMembersThatTakeNone, with(2, &[0, 1], 8, 2, &[Kind::Drains]), "takes none"),
        (Rule::DeregistersOwnEpoch, with(2, &[1, 1], 1, 1, orders), two),
        (Rule::FreesOnlyUnserved, with(2, &[0, 1], 1, 0, orders), two),
        (Rule::EndsBeforeLeaving, with(2, &[0, 1], 1, 2, orders), two),
    ]
}

/// Steps that lead to where the absence of a rule shows, if that is far from the start.
fn first(rule: Rule) -> Vec<Action> {
    let tick = || Action::Tick(None);
    let renewal = || Operation::Renewal;
    match rule {
        // A renewal is carried out at once, and its reply comes three ticks later.
        Rule::CountsFromFirstSending => vec![
            Action::Slow(0),
            tick(),
            Action::CarryOut(0, renewal()),
            tick(),
            tick(),
            tick(),
            Action::Receive(0, renewal()),
            Action::Step(0, renewal()),
        ],
        // The read after a renewal takes two ticks. Then the owner stops renewing.
        Rule::SilenceFromReply => vec![
            Action::Slow(1),
            tick(),
            Action::Step(1, renewal()),
            tick(),
            tick(),
            Action::Step(1, renewal()),
            Action::Slow(0),
            Action::Mend(1),
            tick(),
        ],
        // An owner that was silent for a lease renews, and the other member has not read it yet.
        Rule::SilenceOfThisVersion => vec![
            Action::Freeze(0),
            tick(),
            tick(),
            tick(),
            Action::Thaw(0),
            Action::Slow(1),
            tick(),
        ],
        // A member that could not reach the owner wants the RM, and a lease passes.
        Rule::SparesMembersThatTakeNone => {
            let step = || Action::Step(1, Operation::Rm(rm(0)));
            let asks = [Action::Knock(1, 1), Action::Arrive(0), step(), step()];
            let wants = [Action::ForwardTimeOut(1, rm(0)), step(), tick(), tick()];
            [&asks[..], &wants].concat()
        }
        // Two epochs are lost by a restore, and a lease passes after it was accepted.
        Rule::EpochAboveFloor => {
            let step = || Action::Step(1, Operation::Rm(rm(0)));
            let registers = [Action::Knock(0, 1), Action::Arrive(0), step(), step()];
            let accepts = || Action::Step(1, Operation::Acceptance);
            let restored = [Action::Restore, tick(), Action::Accept(1), accepts(), accepts()];
            let lease = [tick(), tick(), tick(), tick()];
            [&registers[..], &registers, &restored, &lease].concat()
        }
        _ => Vec::new(),
    }
}

fn lost() -> &'static str {
    "is not served"
}

#[test]
fn each_left_out_rule_causes_a_violation() {
    let mut survivors = Vec::new();
    for (rule, mut bounds, expected) in mutants() {
        bounds.first = first(rule);
        bounds.kinds.push(Kind::BreadthFirst);
        bounds.states = bounds.states.max(1_000_000);
        let is_of_recovery = expected == lost() || expected == "members apart";
        bounds.recovery_of = if is_of_recovery { 1 } else { u64::MAX };
        let found = search(&bounds, Some(rule));
        let violation = found.violation.unwrap_or_default();
        let last = violation.lines().last().unwrap_or_default();
        println!("{rule:?}: {} states: {last}", found.states);
        if std::env::var_os("MONOCEROS_MODEL_TRACES").is_some() {
            println!("{violation}");
        }
        if !last.contains(expected) {
            survivors.push(rule);
        }
    }
    assert!(survivors.is_empty(), "not missed: {survivors:?}");
    for rule in rules_of(include_str!("../rules.rs")) {
        assert!(
            mutants().iter().any(|(mutant, ..)| format!("{mutant:?}") == rule),
            "no test leaves out {rule}"
        );
    }
}
