//! Drains of members.

use super::super::operations::Drained;
use super::*;

#[test]
fn a_drained_member_hands_over_and_takes_nothing() {
    play(async |cluster| {
        let a = cluster.ready("a").await;
        let operations = a.member.operations();
        let drain = |drain| operations.drain("a".to_owned(), drain);
        assert_eq!(drain(true).await, Err(OperationRefusal::NoOtherMember));
        assert_eq!(a.register(None).await, Ok(1), "alone it serves");
        let b = cluster.ready("b").await;
        let stream = a.stream();
        cluster.acquainted().await;
        let begun = Instant::now();
        assert_eq!(drain(true).await, Ok(Drained { handed_over: 1, remaining: 0 }));
        assert!(begun.elapsed() < LEASE / 2, "{:?}", begun.elapsed());
        let end = end_of(&stream).await;
        let is_moved =
            matches!(&end, StreamEnd::SessionMoved { owner: Some(it) } if it == "b:50051");
        assert!(is_moved, "{end:?}");
        assert_eq!(a.register(None).await, Err(sent_to("b")));
        assert_eq!(b.register(None).await, Ok(3));
        cluster.acquainted().await;
        let of_b = b.member.operations();
        let unfit = OperationRefusal::MemberUnfit { member: "a".to_owned(), state: "draining" };
        let moved = of_b.move_rm("rm".to_owned(), Some("a".to_owned())).await;
        assert_eq!(moved, Err(unfit));
        drain(false).await.unwrap();
        cluster.acquainted().await;
        assert_eq!(of_b.move_rm("rm".to_owned(), None).await, Ok("a".to_owned()));
        assert_eq!(a.register(None).await, Ok(5));
    });
}

/// The redirect to a member.
fn sent_to(member: &str) -> ClaimRefusal {
    ClaimRefusal::NotOwner { member: member.to_owned(), owner: Some(format!("{member}:50051")) }
}

/// Why a registration wins no claim.
async fn refusal_of(process: &Process, origin: Origin) -> ClaimRefusal {
    match process.register_with("", origin).await {
        Err(RegistrationRefusal::Claim(refusal)) => refusal,
        Err(refusal) => panic!("{refusal}"),
        Ok(registered) => panic!("session {}", registered.session),
    }
}

/// Two members, of which the first is drained while the arbiter does not answer it: it has ended
/// the session, and its claim stands.
async fn drained_in_vain(cluster: &Cluster) -> (Process, Process) {
    let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
    assert_eq!(a.register(None).await, Ok(1));
    cluster.acquainted().await;
    a.store.set_away(true);
    let drained = a.member.operations().drain("a".to_owned(), true).await;
    assert_eq!(drained, Ok(Drained { handed_over: 0, remaining: 0 }));
    a.store.set_away(false);
    assert!(a.registry.may_decide() && !a.serves());
    assert_eq!(&*cluster.claim().await.owner.unwrap().member.0, "a");
    (a, b)
}

#[test]
fn a_drained_member_gives_away_claims_without_a_session() {
    play(async |cluster| {
        let (_a, b) = drained_in_vain(&cluster).await;
        sleep(Duration::from_secs(1)).await;
        assert_eq!(b.register(None).await, Ok(3));
    });
}

#[test]
fn a_drained_owner_hands_over_an_rm_that_registers() {
    play(async |cluster| {
        let (a, b) = drained_in_vain(&cluster).await;
        let draining = ClaimRefusal::Draining { owner: Some("b:50051".to_owned()) };
        assert_eq!(a.register(None).await, Err(draining));
        assert_eq!(b.register(None).await, Ok(3));
    });
}

#[test]
fn a_drained_owner_sends_what_others_pass_on_to_its_successor() {
    play(async |cluster| {
        let (a, b) = drained_in_vain(&cluster).await;
        let origin = Origin { is_forwarded: true, ..Origin::default() };
        assert_eq!(refusal_of(&a, origin).await, sent_to("b"));
        assert_eq!(b.register(None).await, Ok(3));
    });
}

#[test]
fn a_drained_member_leaves_rms_to_their_owners() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        // Less loaded than the owner.
        let _c = cluster.ready("c").await;
        assert_eq!(b.register(PROOF).await, Ok(1));
        cluster.acquainted().await;
        a.member.operations().drain("a".to_owned(), true).await.unwrap();
        for proof in [None, PROOF, Some("a secret of another process")] {
            assert_eq!(a.register(proof).await, Err(sent_to("b")), "{proof:?}");
        }
        for proof in [None, PROOF.and_then(Proof::parse)] {
            let origin = Origin { proof, is_forwarded: true, ..Origin::default() };
            assert_eq!(refusal_of(&a, origin).await, sent_to("b"));
        }
        assert!(b.serves() && !a.serves());
        assert_eq!(cluster.claim().await.epoch.0, 1);
    });
}

#[test]
fn a_member_that_was_just_drained_takes_nothing_from_others() {
    play(async |cluster| {
        let (a, _b) = (cluster.ready("a").await, cluster.ready("b").await);
        cluster.acquainted().await;
        a.member.operations().drain("a".to_owned(), true).await.unwrap();
        // The other member, which passes it on, serves it then.
        let origin = Origin { is_forwarded: true, ..Origin::default() };
        assert_eq!(refusal_of(&a, origin).await, sent_to("b"));
    });
}

#[test]
fn a_drained_member_serves_while_no_other_does() {
    play(async |cluster| {
        let (a, b) = drained_in_vain(&cluster).await;
        b.member.leave(LEASE).await;
        cluster.acquainted().await;
        assert!(a.register(None).await.is_ok() && a.serves());
        let c = cluster.ready("c").await;
        cluster.acquainted().await;
        assert!(!a.serves());
        assert!(c.register(None).await.is_ok());
    });
}

#[test]
fn a_drain_that_was_undone_does_not_go_on_with_the_next() {
    play(async |cluster| {
        let a = cluster.ready("a").await;
        let operator = &a.member.membership.operator;
        let first = operator.begin_drain().unwrap();
        assert_eq!(operator.begin_drain(), None, "one at a time");
        operator.end_drain();
        let second = operator.begin_drain().unwrap();
        assert!(!operator.is_drained_by(first) && operator.is_drained_by(second));
    });
}
