//! Single cases with figures. The search shows only that nothing goes wrong.

use super::world::{LEASE, Listens, Process, Running, World, rm};
use super::{Bounds, Kind};
use crate::arbiter::Reply;
use crate::member::{Effect, Event, Operation, Status};
use crate::names::{Epoch, Incarnation, MemberId, Owner};
use crate::records::{Claim, Details, Life, Record, Versioned};
use crate::tasks::{Refusal, TRIES};

/// Three members, and an RM that the first one serves in epoch 1.
fn world() -> World {
    World::new(&Bounds::new(&[0, 0], 0, 0, &[]), None)
}

fn owner_of_claim(world: &World) -> usize {
    let claim = world.store.claim(&rm(0)).unwrap();
    let owner = claim.owner.clone().unwrap();
    world.processes.iter().position(|process| *process.member.me() == owner).unwrap()
}

#[test]
fn the_first_session_has_epoch_one() {
    let world = world();
    assert_eq!(owner_of_claim(&world), 0);
    let session = &world.processes[0].member.sessions()[&rm(0)];
    assert_eq!(session.epoch, Epoch(1));
    assert!(matches!(world.instances[0].listens, Listens::To(_, Epoch(1))));
}

#[test]
fn a_wanted_rm_is_handed_over_a_lease_after_it_registered() {
    let mut world = world();
    world.knock(1, 2);
    world.settle(false);
    world.end_forwards(false);
    assert!(world.store.claim(&rm(0)).unwrap().wanted_by.is_some());
    for _ in 1..LEASE {
        world.tick(None);
        world.settle(false);
        assert_eq!(owner_of_claim(&world), 0, "not within the lease");
    }
    world.tick(None);
    world.settle(false);
    assert_eq!(owner_of_claim(&world), 2);
    let claim = world.store.claim(&rm(0)).unwrap();
    assert_eq!((claim.epoch, &claim.wanted_by), (Epoch(2), &None));
    assert!(world.processes[0].member.sessions().is_empty());
}

/// An RM of the first member, wanted by the third.
fn wanted() -> World {
    let mut world = world();
    world.knock(1, 2);
    world.settle(false);
    world.end_forwards(false);
    world
}

fn pass_a_lease(world: &mut World) {
    for _ in 0..LEASE {
        world.tick(None);
        world.settle(false);
    }
}

#[test]
fn an_rm_does_not_go_to_a_member_that_has_left() {
    let mut world = wanted();
    world.handle(2, Event::Leave([].into()));
    world.settle(false);
    pass_a_lease(&mut world);
    assert_eq!(owner_of_claim(&world), 0);
    // The next member at which it registers gets it.
    world.knock(1, 1);
    world.settle(false);
    world.end_forwards(false);
    world.tick(None);
    world.settle(false);
    assert_eq!(owner_of_claim(&world), 1);
}

#[test]
fn an_rm_does_not_go_to_a_member_that_is_drained() {
    let mut world = wanted();
    let drained = |draining| Details { draining, ..Details::default() };
    world.processes[2].member.set_details(drained(true));
    pass_a_lease(&mut world);
    assert_eq!(owner_of_claim(&world), 0);
    world.processes[2].member.set_details(drained(false));
    pass_a_lease(&mut world);
    assert_eq!(owner_of_claim(&world), 2);
}

#[test]
fn the_last_owner_ends_its_session_when_it_is_notified() {
    let mut world = world();
    world.knock(0, 1);
    world.settle(true);
    assert_eq!(owner_of_claim(&world), 1);
    assert!(!world.processes[0].member.sessions().is_empty(), "the notice got lost");
    world.handle(0, Event::ClaimedElsewhere(rm(0), Epoch(1), None));
    assert!(!world.processes[0].member.sessions().is_empty(), "not its successor");
    world.handle(0, Event::ClaimedElsewhere(rm(0), Epoch(2), None));
    assert!(world.processes[0].member.sessions().is_empty());
}

/// Hands over from the first member to the second, whose first requests have no result.
fn hands_over_after(unknown: usize) -> World {
    let mut world = world();
    let to = world.processes[1].member.me().clone();
    world.handle(0, Event::HandOver(rm(0), to));
    for _ in 0..unknown {
        world.processes[0].open.remove(&Operation::Rm(rm(0)));
        world.handle(0, Event::Reply(Operation::Rm(rm(0)), Reply::Unknown));
    }
    world.settle(true);
    assert!(world.processes[0].member.sessions().is_empty(), "it ends first");
    world
}

#[test]
fn a_hand_over_reads_the_claim_again_when_the_arbiter_does_not_answer() {
    let tries = usize::from(TRIES);
    assert_eq!(owner_of_claim(&hands_over_after(tries)), 1);
    assert_eq!(owner_of_claim(&hands_over_after(tries + 1)), 0, "until it is ordered again");
}

#[test]
fn a_deregistration_reads_the_claim_again_when_the_arbiter_does_not_answer() {
    let mut world = world();
    world.handle(0, Event::Deregister(rm(0), Epoch(1)));
    world.processes[0].open.remove(&Operation::Rm(rm(0)));
    world.handle(0, Event::Reply(Operation::Rm(rm(0)), Reply::Unknown));
    world.settle(true);
    assert_eq!(world.store.claim(&rm(0)).unwrap().owner, None);
}

/// The owner, which reads the claim for a registration while the session before deregisters.
fn deregisters_while_it_registers() -> World {
    let mut world = world();
    world.knock(0, 0);
    let registration = world.mail.pop().unwrap().registration;
    world.handle(0, Event::Register(registration));
    let process = &mut world.processes[0];
    let effects = process.member.handle(process.clock, Event::Deregister(rm(0), Epoch(1)));
    assert_eq!(effects, [], "it waits for its turn");
    world
}

#[test]
fn a_deregistration_has_its_turn_after_a_registration_that_failed() {
    let mut world = deregisters_while_it_registers();
    world.processes[0].open.remove(&Operation::Rm(rm(0)));
    world.handle(0, Event::Reply(Operation::Rm(rm(0)), Reply::Unknown));
    world.settle(true);
    assert_eq!(world.store.claim(&rm(0)).unwrap().owner, None);
}

#[test]
fn a_deregistration_leaves_the_session_of_a_later_registration() {
    let mut world = deregisters_while_it_registers();
    world.settle(true);
    assert_eq!(owner_of_claim(&world), 0);
    assert_eq!(world.processes[0].member.sessions()[&rm(0)].epoch, Epoch(2));
}

#[test]
fn two_orders_to_hand_over_have_one_end() {
    let mut world = world();
    let [second, third] = [1, 2].map(|at: usize| world.processes[at].member.me().clone());
    let process = &mut world.processes[0];
    let now = process.clock;
    let first = process.member.handle(now, Event::HandOver(rm(0), second));
    let [
        Effect::EndSession(..),
        Effect::Ask(operation, request) | Effect::AskLater(operation, request),
    ] = &first[..]
    else {
        panic!("{first:?}")
    };
    process.open.insert(operation.clone(), request.clone());
    assert_eq!(process.member.handle(now, Event::HandOver(rm(0), third)), []);
    world.settle(true);
    assert_eq!(owner_of_claim(&world), 1);
}

/// The end of a hand-over from the first member to the second, if the claim then names this owner.
fn hand_over_that_finds(find: impl FnOnce(&Owner) -> Option<Owner>) -> (Owner, Vec<Effect>) {
    let mut world = world();
    let to = world.processes[1].member.me().clone();
    let revision = world.store.all.revision;
    let Versioned { version, value: claim } = world.store.all.claims[&rm(0)].clone();
    let process = &mut world.processes[0];
    let now = process.clock;
    process.member.handle(now, Event::HandOver(rm(0), to.clone()));
    let claim = Claim { epoch: claim.epoch.next(), owner: find(&to), ..claim };
    let found = Versioned { version, value: Record::Claim(claim) };
    let read = Reply::Read(Some(found), revision);
    let ended = process.member.handle(now, Event::Reply(Operation::Rm(rm(0)), read));
    (to, ended)
}

#[test]
fn a_hand_over_ends_well_if_the_rm_was_faster() {
    let (to, ended) = hand_over_that_finds(|to| Some(to.clone()));
    assert_eq!(ended, [Effect::HandOverEnded(rm(0), Ok(Some(to)))]);
    let (_, ended) = hand_over_that_finds(|_| None);
    assert_eq!(ended, [Effect::HandOverEnded(rm(0), Ok(None))]);
}

#[test]
fn a_hand_over_without_an_arbiter_says_so() {
    let mut world = world();
    let to = world.processes[1].member.me().clone();
    let process = &mut world.processes[0];
    let now = process.clock;
    process.member.handle(now, Event::HandOver(rm(0), to));
    let unknown = || Event::Reply(Operation::Rm(rm(0)), Reply::Unknown);
    for _ in 0..TRIES {
        process.member.handle(now, unknown());
    }
    let ended = process.member.handle(now, unknown());
    let why = Refusal::ArbiterUnavailable;
    assert_eq!(ended, [Effect::HandOverEnded(rm(0), Err(why))]);
}

#[test]
fn a_member_whose_front_is_silent_is_fenced() {
    let mut world = world();
    let process = &mut world.processes[0];
    let clock = process.clock;
    let wake = Event::Wake { front_answers: false };
    assert_eq!(process.member.handle(clock + LEASE - 2, wake.clone()), []);
    let effects = process.member.handle(clock + LEASE - 1, wake);
    assert!(matches!(effects[..], [Effect::EndSession(..), Effect::Fenced]), "{effects:?}");
    assert_eq!(process.member.status(), Status::Serving, "until somebody deposes it");
}

#[test]
fn a_second_process_with_the_id_makes_the_first_exit() {
    let mut world = world();
    let twin = Owner { member: MemberId("a".into()), incarnation: Incarnation(99) };
    let mut twin = Process::new(twin, None);
    twin.clock = world.processes[0].clock;
    world.processes.push(twin);
    world.processes[0].is_slow = true;
    for _ in 0..=LEASE {
        world.tick(None);
    }
    // Deposed by its successor, whose record it then finds in place of its own.
    world.tick(None);
    assert_eq!(world.processes[3].member.status(), Status::Serving);
    world.processes[0].is_slow = false;
    world.settle(true);
    assert_eq!(world.processes[0].member.status(), Status::Over);
    assert!(!world.processes[0].runs());
    assert_eq!(world.violation, None);
}

#[test]
fn a_member_that_ends_hands_over_and_leaves() {
    let mut world = world();
    let to = world.processes[1].member.me().clone();
    world.handle(0, Event::Leave([(rm(0), to)].into()));
    world.settle(true);
    assert_eq!(owner_of_claim(&world), 1);
    assert_eq!(world.processes[0].member.status(), Status::Over);
    // It begins again at once: its record shows that it left.
    world.restart(0);
    world.tick(None);
    assert_eq!(world.processes[0].member.status(), Status::Serving);
}

/// Life in the record of the first member.
fn life(world: &World) -> Life {
    world.store.all.members[&MemberId("a".into())].value.life
}

#[test]
fn a_member_that_ends_while_it_joins_leaves_no_live_record() {
    let mut world = world();
    world.handle(0, Event::Leave([].into()));
    world.settle(true);
    assert_eq!(life(&world), Life::Left);
    for steps in 0..4 {
        world.restart(0);
        world.processes[0].is_slow = true;
        world.tick(None);
        // It reads its record, writes it, and reads all records.
        for _ in 0..steps {
            world.step(0, &Operation::Renewal);
        }
        world.handle(0, Event::Leave([].into()));
        world.settle(true);
        let status = world.processes[0].member.status();
        assert_eq!((life(&world), status), (Life::Left, Status::Over), "after {steps} steps");
    }
}

#[test]
fn an_accepted_restore_raises_all_epochs_above_its_floor() {
    let mut world = World::new(&Bounds::new(&[0, 0], 0, 0, &[Kind::Restores]), None);
    world.tick(None);
    world.restore();
    world.tick(None);
    assert!(world.processes.iter().all(|process| process.member.status() == Status::Restored));
    world.handle(2, Event::AcceptRestore { floor: Epoch(50) });
    for _ in 0..2 * LEASE + 2 {
        world.settle(true);
        world.tick(None);
    }
    world.knock(0, 1);
    world.settle(true);
    assert!(matches!(world.instances[0].listens, Listens::To(_, Epoch(51))));
}

#[test]
fn the_longer_of_two_leases_is_waited_for() {
    let mut bounds = Bounds::new(&[0, 0], 0, 0, &[]);
    bounds.longer = 2;
    let mut world = World::new(&bounds, None);
    world.processes[0].running = Running::Dead;
    let knock = |world: &mut World| {
        world.tick(None);
        world.knock(1, 2);
        world.settle(false);
        world.end_forwards(false);
        world.settle(false);
    };
    for _ in 1..LEASE + 2 {
        knock(&mut world);
        assert_eq!(owner_of_claim(&world), 0, "its own lease is not over");
    }
    knock(&mut world);
    assert_eq!(owner_of_claim(&world), 2);
    assert_eq!(life(&world), Life::Deposed);
}

#[test]
fn a_member_that_is_silent_for_long_is_deposed_without_a_registration() {
    let mut world = world();
    world.processes[0].running = Running::Dead;
    for _ in 1..10 * LEASE {
        world.tick(None);
        world.settle(false);
    }
    assert_eq!(life(&world), Life::Alive);
    world.tick(None);
    world.settle(false);
    assert_eq!(life(&world), Life::Deposed);
    let claim = world.store.claim(&rm(0)).unwrap();
    assert_eq!(claim.epoch, Epoch(1), "its claims are free as they are");
}

#[test]
fn an_outage_of_the_arbiter_is_nobodys_silence() {
    let mut world = world();
    for process in &mut world.processes {
        process.is_slow = true;
    }
    for _ in 0..11 * LEASE {
        world.tick(None);
    }
    for process in &mut world.processes {
        process.is_slow = false;
    }
    for _ in 0..2 {
        world.tick(None);
        world.settle(false);
    }
    assert_eq!(life(&world), Life::Alive);
    let serves = |process: &Process| process.member.status() == Status::Serving;
    assert!(world.processes.iter().all(serves));
}

#[test]
fn an_owner_frees_the_claim_of_an_rm_that_does_not_come() {
    let mut world = world();
    world.handle(0, Event::Free(rm(0), Epoch(1)));
    world.settle(true);
    assert_eq!(owner_of_claim(&world), 0, "it has a session");
    let to = world.processes[1].member.me().clone();
    world.handle(0, Event::HandOver(rm(0), to));
    world.settle(true);
    for (at, epoch) in [(0, 2), (1, 1)] {
        world.handle(at, Event::Free(rm(0), Epoch(epoch)));
        world.settle(true);
        assert_eq!(owner_of_claim(&world), 1, "not the owner, or another epoch");
    }
    world.handle(1, Event::Free(rm(0), Epoch(2)));
    world.settle(true);
    let claim = world.store.claim(&rm(0)).unwrap();
    assert_eq!((&claim.owner, claim.epoch), (&None, Epoch(2)));
}
