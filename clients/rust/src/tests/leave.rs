//! Deregistrations that a member refuses, or whose owner is lost.

use super::*;

/// Deregisters. Returns the members that took part, with the number of the session.
async fn left(program: &Program, members: &Members) -> Vec<(String, u64)> {
    timeout(PATIENCE, program.client.leave("test")).await.expect("in time").expect("left");
    members.left()
}

fn of(member: &str, session: u64) -> (String, u64) {
    (member.to_owned(), session)
}

#[tokio::test(start_paused = true)]
async fn a_deregistration_is_tried_again_where_it_is_refused_for_a_moment() {
    for reason in ["CLAIM_CONTENDED", "OWNER_UNREACHABLE", "ARBITER_UNAVAILABLE"] {
        let members = Members::start(&["m1"]);
        let program = Program::registered(options(&members, &["m1"])).await;
        members.refuse_to_deregister("m1", refusal(reason, None), 1);
        let last = left(&program, &members).await.pop().unwrap();
        assert_eq!(last, of("m1", 2), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deregistration_follows_a_session_that_moved() {
    for reason in ["NOT_OWNER", "SESSION_MOVED"] {
        let members = Members::start(&["m1", "m2", "m3"]);
        let program = Program::registered(options(&members, &["m1"])).await;
        members.refuse_to_deregister("m1", refusal(reason, Some("m3")), 9);
        assert_eq!(left(&program, &members).await, [of("m1", 1), of("m3", 2)]);
        assert_eq!(members.registrations(), ["m1", "m3"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_owner_is_replaced_to_deregister() {
    for break_it in [Members::kill, Members::freeze] {
        let members = Members::start(&["m1", "m2"]);
        let program = Program::registered(options(&members, &["m1"])).await;
        break_it(&members, "m1");
        assert_eq!(left(&program, &members).await, [of("m2", 2)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_final_refusal_is_returned() {
    let members = Members::start(&["m1"]);
    let program = Program::registered(options(&members, &["m1"])).await;
    members.refuse_to_deregister("m1", Status::permission_denied("no"), 1);
    let status = program.client.leave("test").await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::PermissionDenied);
}
