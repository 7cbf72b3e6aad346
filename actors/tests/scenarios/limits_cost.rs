//! Cost of user and group limits in messages: when a limit is loosened, the applications that wait
//! for it are visited, and no others. The numbers are exact, so that a step that visits all of them
//! is noticed.

use std::fmt::Write as _;

use crate::world::{How, World, in_virtual_time, messages_to};

/// Messages to applications while one allocation is released and the next one placed, with
/// `waiting` applications that wait for their user's limit: of one user, or of as many users.
async fn messages_of_a_release(waiting: usize, of_one_user: bool) -> u64 {
    let mut world = World::new(How::Plain);
    let user = |number: usize| if of_one_user { "ann".to_owned() } else { format!("u{number}") };
    let mut text = "queue root.a limit users=* vcore=1\nnode n1 vcore=1000000\n".to_owned();
    for number in 0..waiting {
        let user = user(number);
        writeln!(text, "app a{number} in root.a user {user} &").unwrap();
    }
    for number in 0..waiting {
        writeln!(text, "ask a{number} k x9 vcore=1 &").unwrap();
    }
    text += "settle";
    world.play(&text).await;
    let before = messages_to(&world.scheduler, "application");
    world.play("release a0 uuid=k#1").await;
    let queues = world.scheduler.queues("[rm]default").await.unwrap();
    let placed = if of_one_user { 1 } else { waiting };
    let allocated = queues.allocated_resource.sorted();
    assert_eq!(allocated.first().map(|(_, quantity)| *quantity), i64::try_from(placed).ok());
    messages_to(&world.scheduler, "application") - before
}

#[test]
fn waiting_for_a_limit_costs_no_visits() {
    for of_one_user in [true, false] {
        let [few, many] = [3, 60].map(|n| in_virtual_time(messages_of_a_release(n, of_one_user)));
        // One message more for each waiting application: when nothing is left to decide, the test
        // reads the state of every application to check it.
        assert_eq!(many - few, 57, "{few} messages for 3, {many} for 60");
    }
}

/// Messages to queues for a step, after other steps, in a tree of `leaves` leaves of one group with
/// an application each.
async fn messages_to_leaves(leaves: usize, before: &str, step: &str) -> u64 {
    let mut world = World::new(How::Plain);
    let mut text = format!("queue root limit groups=dev vcore={leaves}\n");
    for number in 0..leaves {
        writeln!(text, "queue root.p.q.l{number}").unwrap();
    }
    text += "node n1 vcore=1000000\n";
    for number in 0..leaves {
        writeln!(text, "app a{number} in root.p.q.l{number} user u{number} groups dev &").unwrap();
    }
    writeln!(text, "settle\nask a0 all x{leaves} vcore=1").unwrap();
    for number in 0..leaves {
        writeln!(text, "ask a{number} k vcore=1 &").unwrap();
    }
    writeln!(text, "settle\n{before}").unwrap();
    world.play(&text).await;
    let before = messages_to(&world.scheduler, "queue");
    world.play(step).await;
    messages_to(&world.scheduler, "queue") - before
}

#[test]
fn satisfied_waiters_are_not_woken_by_later_releases() {
    let of = |leaves| {
        let played = messages_to_leaves(leaves, "release a0 key=all", "release a1 key=k");
        in_virtual_time(played)
    };
    let [few, many] = [of(3), of(40)];
    // One message more for each leaf: when nothing is left to decide, the test reads the state of
    // every leaf to check it.
    assert_eq!(many - few, 37, "{few} messages for 3 leaves, {many} for 40");
}

/// The first ask in the order of the queues gets the released amount; the queues know which asks
/// wait for the shared limit. The others get no message.
#[test]
fn a_release_for_one_of_many_visits_no_other() {
    let of = |leaves| in_virtual_time(messages_to_leaves(leaves, "", "release a0 uuid=all#1"));
    let [few, many] = [of(3), of(40)];
    // One message more for each leaf: when nothing is left to decide, the test reads the state of
    // every leaf to check it.
    assert_eq!(many - few, 37, "{few} messages for 3 leaves, {many} for 40");
}

/// Messages to queues while one application ends, with `leaves` leaves of one group that may have
/// one running application, and in each an application that waits for that.
async fn messages_of_a_start(leaves: usize) -> u64 {
    let mut world = World::new(How::Plain);
    let mut text = "queue root limit groups=dev apps=1\n".to_owned();
    for number in 0..leaves {
        writeln!(text, "queue root.p.q.l{number:02}").unwrap();
    }
    text += "node n1 vcore=1000000\n";
    for number in 0..leaves {
        let application = format!("a{number} in root.p.q.l{number:02} user u{number} groups dev");
        writeln!(text, "app {application}\nask a{number} k vcore=1").unwrap();
    }
    world.play(&text).await;
    let before = messages_to(&world.scheduler, "queue");
    world.play("remove-app a0").await;
    let messages = messages_to(&world.scheduler, "queue") - before;
    let allocated = async |application: &str| {
        let found = world.scheduler.application("[rm]default", application).await.unwrap();
        found.unwrap().used_resource.sorted().len()
    };
    assert_eq!((allocated("a1").await, allocated("a2").await), (1, 0));
    messages
}

/// The application that starts when another ends is found without visits to others.
#[test]
fn a_start_of_one_application_visits_no_other() {
    let [few, many] = [3, 40].map(|leaves| in_virtual_time(messages_of_a_start(leaves)));
    // One message more for each leaf: when nothing is left to decide, the test reads the state of
    // every leaf to check it.
    assert_eq!(many - few, 37, "{few} messages for 3 leaves, {many} for 40");
}

/// Messages to applications for a reload that changes a limit of one of `leaves` leaves.
async fn messages_of_a_reload(leaves: usize) -> u64 {
    let mut world = World::new(How::Plain);
    let queues = |vcores: u64| {
        let mut text = format!("queue root.l0 limit users=* vcore={vcores}\n");
        for number in 1..leaves {
            writeln!(text, "queue root.l{number} limit users=* vcore=1").unwrap();
        }
        text
    };
    let mut text = format!("{}node n1 vcore=1000\n", queues(1));
    for number in 0..leaves {
        writeln!(text, "app a{number} in root.l{number} user ann").unwrap();
        writeln!(text, "ask a{number} k x2 vcore=1").unwrap();
    }
    world.play(&text).await;
    let before = messages_to(&world.scheduler, "application");
    world.play(&format!("forget\n{}reload", queues(2))).await;
    let messages = messages_to(&world.scheduler, "application") - before;
    let queues = world.scheduler.queues("[rm]default").await.unwrap();
    let placed = queues.allocated_resource.sorted();
    let expected = i64::try_from(leaves + 1).ok();
    assert_eq!(placed.first().map(|(_, quantity)| *quantity), expected, "{placed:?}");
    messages
}

#[test]
fn changed_limits_of_a_leaf_visit_no_other_leaf() {
    let [few, many] = [3, 40].map(|leaves| in_virtual_time(messages_of_a_reload(leaves)));
    // Two messages more for each leaf: the test reads the state of every leaf to check it, after
    // the reload and when nothing is left to decide.
    assert_eq!(many - few, 2 * 37, "{few} messages for 3 leaves, {many} for 40");
}
