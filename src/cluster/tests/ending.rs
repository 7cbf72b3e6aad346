//! Orderly ends of members.

use std::future::pending;

use super::*;

#[test]
fn an_orderly_end_hands_over() {
    play(async |cluster| {
        let (a, b) = (cluster.ready("a").await, cluster.ready("b").await);
        assert_eq!(a.register(None).await, Ok(1));
        let stream = a.stream();
        cluster.acquainted().await;
        let begun = Instant::now();
        a.member.leave(LEASE).await;
        assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
        let end = end_of(&stream).await;
        let is_moved =
            matches!(&end, StreamEnd::SessionMoved { owner: Some(it) } if it == "b:50051");
        assert!(is_moved, "{end:?}");
        assert_eq!(a.register(None).await, Err(ClaimRefusal::Fenced));
        assert_eq!(b.register(None).await, Ok(3));
        cluster.acquainted().await;
        // Alone it has nobody to hand over to: the claim is free with the incarnation.
        b.member.leave(LEASE).await;
        assert_eq!(cluster.ready("a").await.register(None).await, Ok(4));
    });
}

#[test]
fn an_orderly_end_does_not_wait_for_an_owner() {
    play(async |cluster| {
        let a = cluster.ready("a").await;
        assert_eq!(a.register(None).await, Ok(1));
        let b = cluster.start_with("b", |_| pending().boxed(), |_| async { true }.boxed(), None);
        b.until_ready().await;
        let begun = Instant::now();
        let leaves = async {
            sleep(Duration::from_millis(100)).await;
            b.member.leave(LEASE).await;
        };
        let (refused, ()) = tokio::join!(b.register(None), leaves);
        assert_eq!(refused, Err(ClaimRefusal::Leaving));
        drop(b);
        // Its record says that it has left.
        let _b = cluster.ready("b").await;
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        assert!(a.serves());
    });
}
