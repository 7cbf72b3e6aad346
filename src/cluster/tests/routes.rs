//! Routes to owners that the last renewal did not read.

use futures::future::join_all;

use super::*;
use crate::grpc::routing::{OwnerSource, Route};

#[test]
fn an_owner_that_began_after_the_last_renewal_is_found() {
    play(async |cluster| {
        let (a, c) = (cluster.ready("a").await, cluster.ready("c").await);
        cluster.acquainted().await;
        a.member.leave(LEASE).await;
        drop(a);
        let a = cluster.ready("a").await;
        assert_eq!(a.register(None).await, Ok(1));
        // Before this member has read its record, which has no address for members.
        let route = c.member.routing().route("rm", OwnerSource::LastRenewal).await;
        let Route::Refused(ClaimRefusal::NotOwner { member, owner }) = route else {
            panic!("not the way to its owner");
        };
        assert_eq!((&*member, owner.as_deref()), ("a", Some("a:50051")));
        let refused = ClaimRefusal::NotOwner { member, owner };
        assert_eq!(c.register(None).await, Err(refused), "registrations find it, too");
    });
}

#[test]
fn an_owner_is_connected_to_before_a_renewal_has_read_it() {
    play(async |cluster| {
        let (a, c) = (cluster.ready("a").await, cluster.ready("c").await);
        cluster.acquainted().await;
        a.member.leave(LEASE).await;
        drop(a);
        let a = cluster.start_at("a", true, Some("127.0.0.1:9"));
        a.until_ready().await;
        assert_eq!(a.register(None).await, Ok(1));
        let begun = Instant::now();
        let routing = c.member.routing();
        let routes = (0..20).map(|_| routing.route("rm", OwnerSource::LastRenewal));
        for route in join_all(routes).await {
            let Route::To(remote) = route else { panic!("not the way to its owner") };
            assert_eq!((remote.id(), remote.grpc()), ("a", "a:50051"));
        }
        // Two reads of the claim and two of the record, however many ask.
        assert!(begun.elapsed() < Duration::from_millis(20), "{:?}", begun.elapsed());
    });
}
