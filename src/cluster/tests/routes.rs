//! Routes to owners that the last renewal did not read.

use super::*;
use crate::grpc::routing::Route;

#[test]
fn an_owner_that_began_after_the_last_renewal_is_found() {
    play(async |cluster| {
        let (a, c) = (cluster.ready("a").await, cluster.ready("c").await);
        cluster.acquainted().await;
        a.member.leave(LEASE).await;
        drop(a);
        let a = cluster.ready("a").await;
        assert_eq!(a.register(None).await, Ok(1));
        // Before this member has read its record.
        let route = c.member.routing().route("rm", false).await;
        let Route::Refused(ClaimRefusal::NotOwner { member, owner }) = route else {
            panic!("not the way to its owner");
        };
        assert_eq!((&*member, owner.as_deref()), ("a", Some("a:50051")));
    });
}
