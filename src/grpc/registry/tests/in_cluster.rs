//! Registrations at a member of a cluster.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::Request;

use super::*;
use crate::grpc::end::ClaimRefusal;
use crate::grpc::stubs::scheduler_server::Scheduler as _;
use crate::grpc::{GrpcEdge, Service};
use crate::identity::Identity;

/// A member whose claims are won one after another, as the test lets them.
struct Member {
    /// One permit for each claim that may be won.
    claims: Semaphore,
    /// Times that the member finds its lease not over.
    times_leased: AtomicUsize,
    next: AtomicU64,
}

impl Claims for Member {
    fn claim(&self, claimant: Claimant) -> BoxFuture<'_, Result<u64, ClaimRefusal>> {
        async move {
            let permit = claimant.abandoned.run_until_cancelled(self.claims.acquire()).await;
            let Some(permit) = permit else { return Err(ClaimRefusal::Abandoned) };
            permit.unwrap().forget();
            Ok(self.next.fetch_add(1, Ordering::Relaxed))
        }
        .boxed()
    }

    fn free<'a>(&'a self, _: &'a str, _: u64) -> BoxFuture<'a, ()> {
        async {}.boxed()
    }

    fn holds(&self, _: &str, _: u64) -> bool {
        true
    }

    fn may_decide(&self) -> bool {
        let less = |times: usize| times.checked_sub(1);
        self.times_leased.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn incarnation(&self) -> AsciiMetadataValue {
        AsciiMetadataValue::from_static("first")
    }

    fn members(&self) -> Vec<String> {
        Vec::new()
    }

    fn serve(&self, _: &Arc<Registry>) {}
}

/// Runs a test at a member that takes one resource manager at most.
fn play_in_cluster<F: Future<Output = ()>>(story: impl FnOnce(World, Arc<Member>) -> F) {
    let one = |settings: &mut Settings| settings.grpc.max_sessions = 1.try_into().unwrap();
    with_registry(one, async |handle, registry| {
        let (claims, times_leased) = (Semaphore::new(0), AtomicUsize::new(usize::MAX));
        let member = Arc::new(Member { claims, times_leased, next: AtomicU64::new(1) });
        let registry = Arc::into_inner(registry).unwrap();
        let registry = registry.with_claims(Some(Arc::clone(&member) as _));
        story(World { registry, handle }, member).await;
    });
}

#[test]
fn refused_registration_leaves_the_entry_of_another() {
    play_in_cluster(async |world, member| {
        let first = world.register_other("rm", "");
        let others = async {
            world.register_other("rm", "partitions: 7").await.err().unwrap();
            let other = world.register_other("other", "").await;
            assert!(matches!(other, Err(RegistrationRefusal::TooManySessions(1))));
            member.claims.add_permits(1);
        };
        let (first, ()) = tokio::join!(first, others);
        assert_eq!(first.unwrap().session, 1);
        // A registration that found no session, and then the session of the first.
        drop(world.registry.reserve("rm", "").unwrap());
        assert_eq!(world.session().number(), 1);
        world.registry.stop("rm", None, "operator").await.unwrap();
        assert!(world.registry.current().is_empty());
    });
}

#[test]
fn no_registration_is_answered_once_the_lease_is_over() {
    play_in_cluster(async |world, member| {
        member.claims.add_permits(3);
        for times in [0, 1] {
            member.times_leased.store(times, Ordering::Relaxed);
            let late = world.register(&[], Origin::default()).await;
            assert!(matches!(late, Err(RegistrationRefusal::Claim(ClaimRefusal::Fenced))));
            assert!(world.registry.session("rm").is_none());
            assert!(world.handle.resource_managers().is_empty());
        }
        member.times_leased.store(usize::MAX, Ordering::Relaxed);
        assert_eq!(world.register(&[], Origin::default()).await.unwrap().session, 3);
    });
}

#[test]
fn a_call_that_is_dropped_abandons_its_registration() {
    play_in_cluster(async |world, member| {
        let World { registry, handle } = world;
        let (other, shutdown) = (Arc::clone(&registry), CancellationToken::new());
        let service = Service(Arc::new(GrpcEdge { handle, registry, traces: None, shutdown }));
        let rm_id = "rm".to_owned();
        let mut request =
            Request::new(si::RegisterResourceManagerRequest { rm_id, ..Default::default() });
        request.extensions_mut().insert(Identity::anybody());
        let registers = service.register_resource_manager(request);
        timeout(Duration::from_secs(1), registers).await.unwrap_err();
        sleep(Duration::from_millis(1)).await;
        member.claims.add_permits(1);
        sleep(Duration::from_secs(1)).await;
        assert_eq!(member.claims.available_permits(), 1, "nothing was claimed");
        assert!(other.session("rm").is_none());
    });
}
