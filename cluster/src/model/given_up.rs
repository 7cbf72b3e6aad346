//! Registrations whose client has given up, and those of a member that ends. The first member serves
//! an RM, whose other process registers elsewhere without the proof.

use super::Bounds;
use super::world::{Listens, World, call, rm};
use crate::member::{Event, Forwarded, Operation, Status};
use crate::names::{Epoch, MemberId};
use crate::records::Life;

fn world() -> World {
    World::new(&Bounds::new(&[0, 0], 0, 0, &[]), None)
}

/// Delivers the registration that was sent last.
fn deliver(world: &mut World) {
    let mail = world.mail.pop().unwrap();
    world.handle(mail.to, Event::Register(mail.registration));
}

/// Carries out the open request of a member about the claim.
fn step(world: &mut World, index: usize) {
    world.step(index, &Operation::Rm(rm(0)));
}

/// The third member, which waits for the owner to answer the first registration of the second
/// process.
fn forwarding() -> World {
    let mut world = world();
    world.knock(1, 2);
    deliver(&mut world);
    step(&mut world, 2);
    step(&mut world, 2);
    assert_eq!(world.mail.pop().unwrap().to, 0, "on its way to the owner");
    world
}

/// The client of the first registration of the second process gives up.
fn give_up(world: &mut World, index: usize) {
    world.handle(index, Event::Abandoned(call(1, 1), rm(0)));
}

fn no_answer(world: &mut World, index: usize) {
    world.handle(index, Event::ForwardEnded(call(1, 1), rm(0), Forwarded::NoAnswer));
}

/// Whether the member has nothing under way for the RM.
fn is_free(world: &World, index: usize) -> bool {
    let process = &world.processes[index];
    process.member.tasks.is_empty() && !process.open.contains_key(&Operation::Rm(rm(0)))
}

#[test]
fn a_forwarded_registration_ends_with_its_client() {
    let mut world = forwarding();
    world.handle(2, Event::Abandoned(call(1, 2), rm(0)));
    assert!(!is_free(&world, 2), "another call");
    give_up(&mut world, 2);
    assert!(is_free(&world, 2));
    no_answer(&mut world, 2);
    give_up(&mut world, 2);
    assert!(is_free(&world, 2), "ignored");
    assert_eq!(world.store.claim(&rm(0)).unwrap().wanted_by, None);
    world.knock(1, 2);
    world.settle(true);
    assert_eq!(world.instances[1].epoch, Some(Epoch(2)), "forwarded again at once");
}

#[test]
fn a_lost_wish_does_not_repeat_an_abandoned_registration() {
    let mut world = forwarding();
    no_answer(&mut world, 2);
    give_up(&mut world, 2);
    // The process is served by the owner before the wish arrives there.
    world.knock(1, 0);
    deliver(&mut world);
    step(&mut world, 0);
    step(&mut world, 0);
    step(&mut world, 2);
    assert!(is_free(&world, 2) && world.mail.is_empty());
    assert_eq!(world.processes[0].member.sessions()[&rm(0)].epoch, Epoch(2));
    assert!(matches!(world.instances[1].listens, Listens::To(_, Epoch(2))));
}

#[test]
fn an_abandoned_registration_ends_with_a_read() {
    for reads in [0, 1] {
        let mut world = world();
        world.knock(1, 2);
        deliver(&mut world);
        for _ in 0..reads {
            step(&mut world, 2);
        }
        give_up(&mut world, 2);
        assert!(!is_free(&world, 2), "its read is open");
        step(&mut world, 2);
        assert!(is_free(&world, 2) && world.mail.is_empty(), "after {reads} reads");
    }
}

#[test]
fn an_abandoned_registration_keeps_a_claim_that_it_wins() {
    let mut world = world();
    world.knock(0, 1);
    deliver(&mut world);
    step(&mut world, 1);
    world.handle(1, Event::Abandoned(call(0, 2), rm(0)));
    step(&mut world, 1);
    assert!(is_free(&world, 1));
    assert_eq!(world.processes[1].member.sessions()[&rm(0)].epoch, Epoch(2));
}

/// Life in the record of the third member.
fn life(world: &World) -> Life {
    world.store.all.members[&MemberId("c".into())].value.life
}

#[test]
fn a_member_that_ends_does_not_wait_for_an_owner() {
    let mut world = forwarding();
    world.handle(2, Event::Leave([].into()));
    assert_eq!(world.instances[1].listens, Listens::Idle, "it was refused");
    assert!(is_free(&world, 2));
    no_answer(&mut world, 2);
    world.settle(false);
    assert_eq!((life(&world), world.processes[2].member.status()), (Life::Left, Status::Over));
    assert_eq!(world.store.claim(&rm(0)).unwrap().wanted_by, None);
}

#[test]
fn a_member_that_ends_forwards_nothing() {
    let mut world = world();
    world.knock(1, 2);
    deliver(&mut world);
    world.handle(2, Event::Leave([].into()));
    step(&mut world, 2);
    assert_ne!(life(&world), Life::Left, "the registration is under way");
    step(&mut world, 2);
    assert!(world.mail.is_empty());
    world.settle(false);
    assert_eq!((life(&world), world.processes[2].member.status()), (Life::Left, Status::Over));
}
