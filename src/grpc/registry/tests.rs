//! Sessions of a registry with a scheduler, in virtual time.

mod in_cluster;

use super::super::end::Cause;
use super::super::in_virtual_time::with_registry;
use super::super::kind::{Allocations, Applications, Dialect, Nodes};
use super::super::session::Binding;
use super::super::session::attempt::Attempt;
use super::super::session::state::SessionState;
use super::super::stream_handle::StreamHandle;
use super::*;
use crate::settings::PolicyGroupConflict;

/// The registry and a scheduler with one RM, `rm`, that has a node and an application.
struct World {
    registry: Arc<Registry>,
    handle: SchedulerHandle,
}

fn play<F: Future<Output = ()>>(extra: &[(&str, &str)], story: impl FnOnce(World) -> F) {
    play_with(|_| {}, extra, story);
}

fn play_with<F: Future<Output = ()>>(
    set: impl FnOnce(&mut Settings),
    extra: &[(&str, &str)],
    story: impl FnOnce(World) -> F,
) {
    with_registry(set, async |handle, registry| {
        let world = World { registry, handle };
        world.register(extra, Origin::default()).await.unwrap();
        world.report().await;
        story(world).await;
    });
}

fn vcore(value: i64) -> si::Resource {
    si::Resource { resources: [("vcore".to_owned(), si::Quantity { value })].into() }
}

impl World {
    async fn register(
        &self,
        extra: &[(&str, &str)],
        origin: Origin,
    ) -> Result<Registered, RegistrationRefusal> {
        let extra = extra.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let request = si::RegisterResourceManagerRequest {
            rm_id: "rm".to_owned(),
            extra_config: extra.collect(),
            ..Default::default()
        };
        let deadline = self.registry.registration_deadline();
        self.registry.register(request, origin, deadline).await
    }

    /// Registers another RM with a queue configuration.
    async fn register_other(
        &self,
        rm_id: &str,
        config: &str,
    ) -> Result<Registered, RegistrationRefusal> {
        let request = si::RegisterResourceManagerRequest {
            rm_id: rm_id.to_owned(),
            config: config.to_owned(),
            ..Default::default()
        };
        let deadline = self.registry.registration_deadline();
        self.registry.register(request, Origin::default(), deadline).await
    }

    async fn report(&self) {
        let node = si::NodeInfo {
            node_id: "n1".to_owned(),
            action: si::node_info::ActionFromRm::Create.into(),
            schedulable_resource: Some(vcore(100_000)),
            ..Default::default()
        };
        let nodes = si::NodeRequest { nodes: vec![node], rm_id: "rm".into(), ..Default::default() };
        self.handle.update_node(nodes).await.unwrap();
        let ugi = si::UserGroupInformation { user: "ada".to_owned(), groups: Vec::new() };
        let application = si::AddApplicationRequest {
            application_id: "app".to_owned(),
            ugi: Some(ugi),
            tags: [("namespace".to_owned(), "lab".to_owned())].into(),
            ..Default::default()
        };
        let applications = si::ApplicationRequest {
            new: vec![application],
            rm_id: "rm".into(),
            ..Default::default()
        };
        self.handle.update_application(applications).await.unwrap();
    }

    async fn ask(&self, key: &str, n: i32) {
        let ask = si::AllocationAsk {
            allocation_key: key.to_owned(),
            application_id: "app".to_owned(),
            resource_ask: Some(vcore(1)),
            max_allocations: n,
            ..Default::default()
        };
        let asks =
            si::AllocationRequest { asks: vec![ask], rm_id: "rm".into(), ..Default::default() };
        self.handle.update_allocation(asks).await.unwrap();
    }

    fn session(&self) -> Arc<Session> {
        self.registry.session("rm").unwrap()
    }

    /// Opens an allocation stream.
    fn stream(&self) -> Arc<StreamHandle> {
        let stream = Arc::new(StreamHandle::new());
        self.session().bind::<Allocations>(&stream, Binding::default()).unwrap();
        stream
    }

    /// The number of new allocations queued for the stream.
    async fn placed(&self, stream: &Arc<StreamHandle>) -> usize {
        self.handle.settle().await;
        let session = self.session();
        let replies = std::iter::from_fn(|| session.take::<Allocations>(stream, |_| {}));
        replies.map(|reply| reply.decoded().into_message().new.len()).sum()
    }

    /// The number of allocations in the scheduler.
    async fn allocations(&self) -> usize {
        self.handle.settle().await;
        let nodes = self.handle.nodes("default").await.unwrap();
        nodes.iter().map(|node| node.allocations.len()).sum()
    }

    /// Advances the time until all other tasks are idle.
    async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
}

#[test]
fn no_decisions_without_an_allocation_stream() {
    play(&[], async |world| {
        world.ask("a", 1).await;
        assert_eq!(world.allocations().await, 0);
        let stream = world.stream();
        assert_eq!(world.placed(&stream).await, 1);
    });
}

#[test]
fn paused_session_keeps_state_and_decides_nothing() {
    play(&[], async |world| {
        let stream = world.stream();
        world.ask("a", 1).await;
        assert_eq!(world.placed(&stream).await, 1);
        world.session().release::<Allocations>(&stream);
        assert_eq!(world.session().state(), SessionState::Paused);
        world.ask("b", 1).await;
        world.pass(100).await;
        assert_eq!(world.allocations().await, 1);
        let stream = world.stream();
        assert_eq!(world.session().state(), SessionState::Running);
        assert_eq!(world.placed(&stream).await, 2, "`a` once more, and `b`");
    });
}

#[test]
fn absent_client_is_stopped_and_learns_why() {
    play(&[], async |world| {
        let stream = world.stream();
        let nodes = Arc::new(StreamHandle::new());
        world.session().bind::<Nodes>(&nodes, Binding::default()).unwrap();
        let number = world.session().number().to_string();
        world.session().release::<Allocations>(&stream);
        world.pass(119).await;
        assert_eq!(world.session().state(), SessionState::Paused);
        world.pass(2).await;
        assert!(world.registry.session("rm").is_none());
        assert!(world.handle.partitions().await.is_empty());
        let stopped = |end: StreamEnd| {
            let by = match end {
                StreamEnd::NotRegistered { stopped_by, .. }
                | StreamEnd::SessionStale { stopped_by, .. } => stopped_by,
                _ => None,
            };
            by.as_deref() == Some("pauseTimeout")
        };
        assert!(nodes.end().is_some_and(stopped), "a stream that was still open");
        for named in [None, Some(&*number)] {
            assert!(world.registry.find("rm", named).await.is_err_and(stopped));
        }
        world.register(&[], Origin::default()).await.unwrap();
        let stale = world.registry.find("rm", Some(&number)).await;
        assert!(matches!(stale, Err(StreamEnd::SessionStale { current: Some(_), .. })));
        world.registry.find("rm", None).await.unwrap();
    });
}

#[test]
fn session_without_streams_is_paused_then_stopped() {
    play(&[("session.attachTimeout", "10s"), ("session.pauseTimeout", "20s")], async |world| {
        world.pass(9).await;
        assert_eq!(world.session().state(), SessionState::Unattached);
        world.pass(2).await;
        assert_eq!(world.session().state(), SessionState::Paused);
        world.pass(20).await;
        assert!(world.registry.session("rm").is_none());
    });
}

#[test]
fn slow_reader_pauses_decisions() {
    let own = [("session.outboxItems", "100")];
    play(&own, async |world| {
        let stream = world.stream();
        let applications = Arc::new(StreamHandle::new());
        world.session().bind::<Applications>(&applications, Binding::default()).unwrap();
        for n in 0..20 {
            world.ask(&format!("a{n}"), 5).await;
            world.handle.settle().await;
        }
        let (so_far, waiting) = (world.allocations().await, world.session().status().outbox_items);
        assert!((50..100).contains(&so_far), "{so_far}");
        assert!(waiting >= 50, "{waiting}");
        let mut taken = 0;
        while taken < 100 {
            let more = world.placed(&stream).await;
            assert!(more > 0, "stuck after {taken}");
            taken += more;
        }
        assert_eq!(taken, 100);
        assert_eq!(world.session().state(), SessionState::Running);
    });
}

#[test]
fn deregistration_releases_everything() {
    play(&[], async |world| {
        let stream = world.stream();
        let wrong = world.session().number() + 1;
        assert!(world.registry.stop("rm", Some(wrong), "operator").await.is_none());
        let stopped = world.registry.stop("rm", None, "operator").await.unwrap();
        assert_eq!(stopped.0.state(), SessionState::Stopped);
        assert!(matches!(stream.end(), Some(StreamEnd::Deregistered)));
        assert!(world.handle.partitions().await.is_empty());
        assert!(world.registry.stop("rm", None, "operator").await.is_none());
        assert!(world.registry.slots().is_empty());
        let late = world.registry.find("rm", None).await;
        let by = "operator";
        assert!(
            matches!(late, Err(StreamEnd::NotRegistered { stopped_by: Some(it), .. }) if it == by)
        );
    });
}

#[test]
fn attach_continues_and_takeover_ends_the_session() {
    play(&[], async |world| {
        let session = world.session();
        let stream = world.stream();
        let attach = Origin {
            mode: RegistrationMode::Attach,
            instance: Some("second".to_owned()),
            ..Origin::default()
        };
        let registered = world.register(&[], attach.clone()).await.unwrap();
        assert_eq!(registered.outcome, RegisterOutcome::Attached);
        assert_eq!(registered.session, session.number());
        assert_eq!(session.status().instance.as_deref(), Some("second"));
        assert!(stream.end().is_none());

        let takeover = Origin {
            mode: RegistrationMode::Takeover,
            instance: Some("third".to_owned()),
            ..Origin::default()
        };
        let registered = world.register(&[], takeover).await.unwrap();
        assert_eq!(registered.outcome, RegisterOutcome::Replaced);
        let by = "third";
        assert!(matches!(stream.end(), Some(StreamEnd::Superseded { by: Some(it) }) if it == by));

        // A session that lost messages cannot be continued.
        world.session().mark_items_lost();
        let registered = world.register(&[], attach).await.unwrap();
        assert_eq!(registered.outcome, RegisterOutcome::Replaced);
    });
}

#[test]
fn registration_of_an_earlier_attempt_is_refused() {
    play(&[], async |world| {
        let of = |attempt: &str, mode| {
            let attempt = Some(Attempt::parse(attempt).unwrap());
            Origin { mode, attempt, instance: Some("pod".to_owned()), ..Origin::default() }
        };
        for mode in [RegistrationMode::Takeover, RegistrationMode::Attach] {
            world.register(&[], of("client.2", mode)).await.unwrap();
            let stream = world.stream();
            let late = world.register(&[], of("client.1", mode)).await;
            assert!(matches!(late, Err(RegistrationRefusal::LeftOver)));
            assert!(stream.end().is_none());
        }
        world.register(&[], of("client.3", RegistrationMode::Takeover)).await.unwrap();
        world.register(&[], of("restarted.1", RegistrationMode::Takeover)).await.unwrap();
    });
}

#[test]
fn late_registration_changes_nothing() {
    play(&[], async |world| {
        let session = world.session();
        let stream = world.stream();
        for mode in [RegistrationMode::Takeover, RegistrationMode::Attach] {
            let origin = Origin { mode, instance: Some("late".to_owned()), ..Origin::default() };
            let request =
                si::RegisterResourceManagerRequest { rm_id: "rm".into(), ..Default::default() };
            let late = world.registry.register(request, origin, Instant::now()).await;
            assert!(matches!(late, Err(RegistrationRefusal::TooSlow(_))));
        }
        assert_eq!(world.session().number(), session.number());
        assert_eq!(session.status().instance, None);
        assert!(stream.end().is_none());
        world.ask("a", 1).await;
        assert_eq!(world.placed(&stream).await, 1);
    });
}

#[test]
fn concurrent_registrations_respect_the_limit() {
    let two = |settings: &mut Settings| settings.grpc.max_sessions = 2.try_into().unwrap();
    play_with(two, &[], async |world| {
        let [one, other, third] = ["one", "other", "third"].map(|rm| world.register_other(rm, ""));
        let (one, other, third) = tokio::join!(one, other, third);
        let outcomes = [one, other, third];
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
        let refused =
            |outcome: &&_| matches!(outcome, Err(RegistrationRefusal::TooManySessions(2)));
        assert_eq!(outcomes.iter().filter(refused).count(), 2);
        // Failed registrations have released their reserved entries.
        world.registry.stop("one", None, "operator").await.unwrap();
        world.register_other("bad", "partitions: 7").await.err().unwrap();
        world.register_other("other", "").await.unwrap();
        world.register(&[], Origin::default()).await.unwrap();
    });
}

#[test]
fn policy_group_uses_the_latest_configuration() {
    let reject = |settings: &mut Settings| {
        settings.registration.policy_group_conflict = PolicyGroupConflict::Reject;
    };
    let queues = |name: &str| {
        format!(
            "partitions:\n- name: default\n  queues:\n  - name: root\n    queues:\n    - name: {name}\n"
        )
    };
    let (before, now) = (queues("a"), queues("b"));
    play_with(reject, &[], async |world| {
        world.register_other("one", &before).await.unwrap();
        world.registry.reconfigured("one", now.clone(), &BTreeMap::new());
        let old = world.register_other("other", &before).await;
        assert!(
            matches!(old, Err(RegistrationRefusal::PolicyGroupConflict { other, .. }) if other == "one")
        );
        world.register_other("other", &now).await.unwrap();
    });
}

#[test]
fn session_numbers_rise_over_restarts() {
    let second = 1_700_000_000_000_000_000;
    let first = first_session_number(second);
    assert_eq!(first >> 24, 1_700_000_000);
    let millisecond_later = first_session_number(second + 1_000_000);
    assert!(first + 10_000 < millisecond_later, "many sessions of the earlier run come before");
    assert!(millisecond_later < first_session_number(second + 1_000_000_000));
    assert_eq!(first_session_number(-1), 1);
}

#[test]
fn resync_keeps_allocations_for_a_while() {
    play(&[], async |world| {
        let stream = world.stream();
        world.ask("a", 1).await;
        assert_eq!(world.placed(&stream).await, 1);
        assert_eq!(world.registry.resync("rm", "an operator wants it"), 1);
        assert!(matches!(stream.end(), Some(StreamEnd::ResyncRequired(Cause::Asked(_)))));
        assert_eq!(world.registry.resync("nobody", ""), 0);
        assert_eq!(world.session().state(), SessionState::Paused);
        assert_eq!(world.allocations().await, 1);
        world.pass(121).await;
        assert!(world.registry.session("rm").is_none());
    });
}

#[test]
fn session_lost_by_the_scheduler_is_stopped() {
    play(&[], async |world| {
        let session = world.session();
        let stream = world.stream();
        world.registry.scheduler_lost(&session).await;
        assert!(matches!(stream.end(), Some(StreamEnd::Internal(_))));
        assert!(world.registry.session("rm").is_none());
    });
}

#[test]
fn update_changes_the_terms_of_the_session() {
    play(&[], async |world| {
        let stream = world.stream();
        world.session().release::<Allocations>(&stream);
        world.pass(10).await;
        let extra = [("session.pauseTimeout".to_owned(), "20s".to_owned())];
        world.registry.reconfigured("rm", String::new(), &extra.into());
        world.pass(9).await;
        assert_eq!(world.session().state(), SessionState::Paused);
        world.pass(2).await;
        assert!(world.registry.session("rm").is_none());
    });
}

#[test]
fn session_list_shows_identity_and_status() {
    play(&[], async |world| {
        world.stream();
        let list = world.registry.list();
        let [status] = &*list else { panic!("{list:?}") };
        assert_eq!(status.registrant.rm_id, "rm");
        assert_eq!(status.registrant.policy_group, "queues");
        assert_eq!((status.state, status.paused_at_ns), (SessionState::Running, None));
        assert_eq!(status.open_streams, ["allocation"]);
        assert_eq!(status.dialect.map(Dialect::name), Some("split"));
    });
}
