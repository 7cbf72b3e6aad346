//! Moves of resource managers, and operations that a member refuses.

use super::super::operations::Drained;
use super::*;

/// Two members, of which the first serves the resource manager.
async fn two(cluster: &Cluster, proof: Option<&str>) -> (Process, Process) {
    let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
    assert_eq!(a.register(proof).await, Ok(1));
    cluster.acquainted().await;
    (a, b)
}

/// Moves the resource manager.
async fn move_to(from: &Process, to: Option<&str>) -> Result<String, OperationRefusal> {
    from.member.operations().move_rm("rm".to_owned(), to.map(str::to_owned)).await
}

async fn owner_of_claim(cluster: &Cluster) -> String {
    cluster.claim().await.owner.unwrap().member.0.to_string()
}

#[test]
fn an_rm_with_a_proof_is_claimed_where_it_goes() {
    play(async |cluster| {
        let (a, b) = two(&cluster, PROOF).await;
        let stream = a.stream();
        let follows = async {
            end_of(&stream).await;
            let (member, owner) = ("b".to_owned(), Some("b:50051".to_owned()));
            let goes_to_b = ClaimRefusal::NotOwner { member, owner };
            assert_eq!(a.register(PROOF).await, Err(goes_to_b));
            let begun = Instant::now();
            assert_eq!(b.register(PROOF).await, Ok(2), "the only write of the claim");
            assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
        };
        let (moved, ()) = tokio::join!(move_to(&a, Some("b")), follows);
        assert_eq!(moved, Ok("b".to_owned()));
        assert!(b.serves() && !a.serves());
    });
}

#[test]
fn a_move_tells_where_the_rm_went_by_itself() {
    play(async |cluster| {
        let (a, _b) = two(&cluster, PROOF).await;
        let c = cluster.ready("c").await;
        let stream = a.stream();
        let goes_elsewhere = async {
            end_of(&stream).await;
            assert_eq!(c.register(PROOF).await, Ok(2));
        };
        let (moved, ()) = tokio::join!(move_to(&a, Some("b")), goes_elsewhere);
        assert_eq!(moved, Ok("c".to_owned()));
    });
}

#[test]
fn an_rm_with_a_proof_that_does_not_come_is_handed_over() {
    play(async |cluster| {
        let (a, b) = two(&cluster, PROOF).await;
        assert_eq!(move_to(&a, Some("b")).await, Ok("b".to_owned()));
        assert_eq!(owner_of_claim(&cluster).await, "b");
        assert_eq!(b.register(PROOF).await, Ok(3));
    });
}

#[test]
fn an_rm_is_moved_again_before_anything_was_renewed() {
    play(async |cluster| {
        let (a, b) = two(&cluster, None).await;
        assert_eq!(move_to(&a, Some("b")).await, Ok("b".to_owned()));
        let address = Some("b:50051".to_owned());
        let at_b = Err(OperationRefusal::AtMember { member: "b".to_owned(), address });
        assert_eq!(move_to(&a, None).await, at_b);
        assert_eq!(move_to(&b, Some("a")).await, Ok("a".to_owned()));
        assert_eq!(move_to(&a, Some("b")).await, Ok("b".to_owned()));
        assert_eq!(owner_of_claim(&cluster).await, "b");
    });
}

#[test]
fn nothing_moves_to_a_member_that_was_just_drained() {
    play(async |cluster| {
        let (a, b) = two(&cluster, None).await;
        let drained = b.member.operations().drain("b".to_owned(), true).await;
        assert_eq!(drained, Ok(Drained::default()));
        let unfit = OperationRefusal::MemberUnfit { member: "b".to_owned(), state: "draining" };
        assert_eq!(move_to(&a, Some("b")).await, Err(unfit));
        assert_eq!(move_to(&a, None).await, Err(OperationRefusal::NoOtherMember));
        assert!(a.serves());
    });
}

#[test]
fn a_move_without_the_arbiter_ends_nothing() {
    play(async |cluster| {
        let (a, _b) = two(&cluster, None).await;
        a.store.set_away(true);
        let unavailable = OperationRefusal::Claim(ClaimRefusal::ArbiterUnavailable);
        assert_eq!(move_to(&a, Some("b")).await, Err(unavailable));
        assert!(a.serves());
    });
}

#[test]
fn a_move_during_which_the_arbiter_goes_away_says_so() {
    play(async |cluster| {
        let (a, _b) = two(&cluster, PROOF).await;
        let stream = a.stream();
        let goes_away = async {
            end_of(&stream).await;
            a.store.set_away(true);
        };
        let (moved, ()) = tokio::join!(move_to(&a, Some("b")), goes_away);
        assert_eq!(moved, Err(OperationRefusal::NotWritten("rm".to_owned())));
        assert_eq!(owner_of_claim(&cluster).await, "a");
    });
}

#[test]
fn a_fenced_member_says_why_it_does_nothing() {
    play(async |cluster| {
        let (a, b) = two(&cluster, None).await;
        let operations = a.member.operations();
        let nothing = Err(OperationRefusal::NothingToAccept);
        assert_eq!(operations.accept_restore().await, nothing);
        a.store.set_away(true);
        sleep(LEASE).await;
        let drained = operations.drain("a".to_owned(), true).await.unwrap_err();
        for refusal in [drained, move_to(&a, None).await.unwrap_err()] {
            let text = refusal.to_string();
            assert!(text.starts_with("this member may not decide: its lease is over"), "{text}");
        }
        assert_eq!(operations.accept_restore().await, nothing);
        let silent = b.member.operations().unreachable("a".to_owned(), None).to_string();
        assert!(silent.starts_with("member `a` has been silent for "), "{silent}");
    });
}

#[test]
fn a_member_without_a_connection_is_named_with_its_addresses() {
    play(async |cluster| {
        let (_a, b) = two(&cluster, None).await;
        let grpc = Some("a:50051".to_owned());
        let refusal = b.member.operations().unreachable("a".to_owned(), grpc).to_string();
        assert!(refusal.starts_with("member `a` cannot be reached at "), "{refusal}");
        let end = "(there is no connection); its gRPC address is a:50051";
        assert!(refusal.ends_with(end), "{refusal}");
    });
}
