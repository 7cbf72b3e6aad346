//! Registrations that wait for another member.

use std::future::pending;

use tokio_util::sync::CancellationToken;

use super::*;

/// The origin of a call whose client gives up when the token is cancelled.
fn origin(abandoned: &CancellationToken) -> Origin {
    Origin { abandoned: abandoned.clone(), ..Origin::default() }
}

fn is_abandoned(registered: &Result<Registered, RegistrationRefusal>) -> bool {
    matches!(registered, Err(RegistrationRefusal::Claim(ClaimRefusal::Abandoned)))
}

#[test]
fn a_client_that_gives_up_leaves_nothing_under_way() {
    play(async |cluster| {
        let a = cluster.ready("a").await;
        assert_eq!(a.register(None).await, Ok(1));
        // It never learns whether it reaches the owner.
        let b = cluster.start_with("b", |_| pending().boxed(), |_| async { true }.boxed(), None);
        b.until_ready().await;
        // The second one is not refused because of the first.
        for _ in 0..2 {
            let (begun, abandoned) = (Instant::now(), CancellationToken::new());
            let gives_up = async {
                sleep(Duration::from_secs(1)).await;
                abandoned.cancel();
            };
            let registers = b.register_with("", origin(&abandoned));
            let (registered, ()) = tokio::join!(registers, gives_up);
            assert!(is_abandoned(&registered));
            let took = begun.elapsed();
            assert!((1_000..1_100).contains(&took.as_millis()), "{took:?}");
        }
        sleep(LEASE).await;
        assert_eq!(cluster.claim().await.wanted_by, None);
        assert!(a.serves());
    });
}

#[test]
fn a_client_that_has_given_up_claims_nothing() {
    play(async |cluster| {
        let a = cluster.ready("a").await;
        let abandoned = CancellationToken::new();
        abandoned.cancel();
        assert!(is_abandoned(&a.register_with("", origin(&abandoned)).await));
        assert_eq!(a.register(None).await, Ok(1), "the first claim");
        assert!(is_abandoned(&a.register_with("", origin(&abandoned)).await));
        assert!(a.serves());
        assert_eq!(cluster.claim().await.epoch.0, 1);
    });
}

#[test]
fn a_forward_that_panics_counts_as_unanswered() {
    play(async |cluster| {
        let a = cluster.ready("a").await;
        assert_eq!(a.register(None).await, Ok(1));
        let b = cluster.start_with("b", |_| panic!("probe"), |_| async { true }.boxed(), None);
        b.until_ready().await;
        let unreachable = ClaimRefusal::OwnerUnreachable { member: "a".to_owned() };
        for _ in 0..2 {
            assert_eq!(b.register(None).await, Err(unreachable.clone()));
        }
        assert!(cluster.claim().await.wanted_by.is_some());
    });
}
