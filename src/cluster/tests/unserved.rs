//! Claims whose resource managers do not come, and members that do not come back.

use super::super::operations::MemberState;
use super::groups::{a_moment, first, register, second, set, text_of};
use super::*;

/// The default of `session.pause_timeout`.
const GIVEN_UP: Duration = Duration::from_secs(120);

/// Two members, of which the first has handed the resource manager over to the second, where it
/// does not come.
async fn handed_over(cluster: &Cluster) -> (Process, Process) {
    let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
    assert_eq!(a.register(None).await, Ok(1));
    cluster.acquainted().await;
    let moved = a.member.operations().move_rm("rm".to_owned(), None).await;
    assert_eq!(moved, Ok("b".to_owned()));
    (a, b)
}

#[test]
fn an_owner_frees_the_claim_of_an_rm_that_does_not_come() {
    play(async |cluster| {
        let (a, _b) = handed_over(&cluster).await;
        sleep(GIVEN_UP / 2).await;
        assert!(cluster.claim().await.owner.is_some());
        sleep(GIVEN_UP / 2 + LEASE).await;
        let claim = cluster.claim().await;
        assert_eq!((claim.owner, claim.epoch.0), (None, 2));
        assert_eq!(a.register(None).await, Ok(3), "anybody may claim it");
        sleep(GIVEN_UP + LEASE).await;
        assert!(a.serves(), "it has a session");
    });
}

#[test]
fn an_operator_frees_the_claim_of_an_rm_at_its_owner() {
    play(async |cluster| {
        let (a, b) = handed_over(&cluster).await;
        cluster.acquainted().await;
        assert_eq!(a.member.claims().give_up("rm").await, Ok(()), "not its owner");
        assert!(cluster.claim().await.owner.is_some());
        assert_eq!(b.member.claims().give_up("rm").await, Ok(()));
        assert_eq!(cluster.claim().await.owner, None);
        assert_eq!(b.register(None).await, Ok(3));
        cluster.acquainted().await;
        assert_eq!(b.member.claims().give_up("rm").await, Ok(()));
        assert!(b.serves(), "it has a session");
    });
}

#[test]
fn an_rm_without_a_session_does_not_count_as_served() {
    play(async |cluster| {
        let (a, b) = handed_over(&cluster).await;
        let served = |process: &Process| process.member.routing().resource_managers();
        cluster.acquainted().await;
        assert!(served(&b).is_empty());
        sleep(2 * LEASE).await;
        assert!(served(&a).is_empty(), "by the record of its owner");
        assert_eq!(b.register(None).await, Ok(3));
        cluster.acquainted().await;
        assert_eq!(served(&a), ["rm"]);
        assert_eq!(served(&b), ["rm"]);
    });
}

#[test]
fn a_lost_member_is_left_out_and_deposed_at_last() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        cluster.acquainted().await;
        let addresses = || b.member.claims().members();
        assert_eq!(addresses(), ["b:50051", "a:50051"]);
        drop(a);
        let state = || {
            let report = b.member.operations().report();
            report.members.into_iter().find(|member| member.id == "a").unwrap().state
        };
        sleep(2 * LEASE).await;
        assert_eq!((addresses(), state()), (vec!["b:50051".to_owned()], MemberState::Silent));
        sleep(10 * LEASE).await;
        assert_eq!(state(), MemberState::Deposed);
    });
}

#[test]
fn an_rm_without_a_session_refuses_no_text() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        register(&a, "gone", &first(), false).await.unwrap();
        register(&b, "one", &first(), false).await.unwrap();
        cluster.acquainted().await;
        let moved = a.member.operations().move_rm("gone".to_owned(), None).await;
        assert_eq!(moved, Ok("b".to_owned()));
        set(&b, "one", second()).await.unwrap();
        a_moment().await;
        assert_eq!(text_of(&b, "one").await, second());
    });
}
