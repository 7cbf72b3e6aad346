//! Owners of applications and their groups, with a resolver that may be slow, fail or never answer.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_actors::snapshot::ApplicationSnapshot;
use monoceros_actors::{
    Lookup, LookupError, Scheduler, SchedulerHandle, UpdateError, UserGroupResolver,
};
use monoceros_proto::si::v1 as si;
use tokio::time::{Instant, sleep};

use crate::recording_callback::RecordingCallback;
use crate::world::{in_virtual_time, register, send_lines};

/// The name of a user decides the result of a lookup: `slow` takes 5 s, `slower` 8 s, `fails`,
/// `panics` and `hangs` do so. All others are resolved at once, to two groups.
#[derive(Default)]
struct Scripted {
    asked: Mutex<Vec<String>>,
}

impl Scripted {
    /// Users that were looked up since the last call.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

struct Asked(Arc<Scripted>);

impl UserGroupResolver for Asked {
    fn look_up(&self, user: &str) -> Lookup {
        self.0.asked.lock().unwrap().push(user.to_owned());
        let groups = vec![user.to_owned(), "staff".to_owned()];
        match user {
            "slow" => Box::pin(async { after(5, groups).await }),
            "slower" => Box::pin(async { after(8, groups).await }),
            "fails" => Box::pin(async {
                let (why, groups) = ("no such user".to_owned(), vec!["partial".to_owned()]);
                Err(LookupError { why, groups })
            }),
            "panics" => panic!("as told"),
            "hangs" => Box::pin(pending()),
            _ => Box::pin(async { Ok(groups) }),
        }
    }
}

async fn after(seconds: u64, groups: Vec<String>) -> Result<Vec<String>, LookupError> {
    sleep(Duration::from_secs(seconds)).await;
    Ok(groups)
}

const SCRIPTED: &str = "
partitions:
  - name: default
    usergroupresolver: { type: scripted }
    queues:
      - { name: root, submitacl: '*', queues: [ { name: a } ] }
";

struct Cluster {
    scheduler: SchedulerHandle,
    recorder: Arc<RecordingCallback>,
    scripted: Arc<Scripted>,
    start: Instant,
}

impl Cluster {
    async fn new() -> Self {
        Self::with(SCRIPTED).await
    }

    async fn with(config: &str) -> Self {
        let scripted = Arc::new(Scripted::default());
        let scheduler = Scheduler::builder()
            .user_group_resolver("scripted", Arc::new(Asked(Arc::clone(&scripted))))
            .start_local()
            .unwrap();
        let recorder = Arc::new(RecordingCallback::default());
        register(&scheduler, "rm", config, recorder.clone()).await;
        Self { scheduler, recorder, scripted, start: Instant::now() }
    }

    /// Another RM with the same configuration.
    async fn other(&self) -> Arc<RecordingCallback> {
        let recorder = Arc::new(RecordingCallback::default());
        register(&self.scheduler, "other", SCRIPTED, recorder.clone()).await;
        recorder
    }

    /// Sends applications and waits until no further decision is possible; returns the
    /// notifications.
    async fn submit(&self, new: Vec<si::AddApplicationRequest>) -> Vec<String> {
        send(&self.scheduler, "rm", new).await.unwrap();
        self.scheduler.settle().await;
        received(&self.recorder)
    }

    async fn application(&self, id: &str) -> ApplicationSnapshot {
        let mut all = self.scheduler.all_applications("[rm]default").await.unwrap();
        all.retain(|application| application.application_id == id);
        all.remove(0)
    }

    /// Virtual seconds since the start.
    fn seconds(&self) -> u64 {
        self.start.elapsed().as_secs()
    }
}

async fn send(
    scheduler: &SchedulerHandle,
    rm: &str,
    new: Vec<si::AddApplicationRequest>,
) -> Result<(), UpdateError> {
    let rm_id = rm.to_owned();
    let request = si::ApplicationRequest { rm_id, new, ..Default::default() };
    scheduler.update_application(request).await
}

/// An application of this user and these groups, named like the user.
fn app(user: &str, groups: &[&str]) -> si::AddApplicationRequest {
    let groups = groups.iter().map(|&group| group.to_owned()).collect();
    si::AddApplicationRequest {
        application_id: user.to_owned(),
        queue_name: "root.a".to_owned(),
        ugi: Some(si::UserGroupInformation { user: user.to_owned(), groups }),
        ..Default::default()
    }
}

fn named(id: &str, app: si::AddApplicationRequest) -> si::AddApplicationRequest {
    si::AddApplicationRequest { application_id: id.to_owned(), ..app }
}

fn forced(app: si::AddApplicationRequest) -> si::AddApplicationRequest {
    let tags = [("application.create.force".to_owned(), "true".to_owned())].into();
    si::AddApplicationRequest { tags, ..app }
}

fn received(recorder: &RecordingCallback) -> Vec<String> {
    recorder.take().iter().map(ToString::to_string).collect()
}

#[test]
fn messages_behind_a_slow_lookup_wait_in_order() {
    in_virtual_time(async {
        let cluster = Cluster::new().await;
        let Cluster { scheduler, recorder, .. } = &cluster;
        send_lines(scheduler, "rm", "node n1 vcore=4").await;
        recorder.take();
        let (a, b, c) = tokio::join!(
            send(scheduler, "rm", vec![app("slow", &[])]),
            async {
                // This application does not wait although its own user is known at once.
                let taken = send(scheduler, "rm", vec![app("quick", &["given"])]).await;
                (taken, cluster.seconds())
            },
            // In order: a request is sent when the call is made, not when it is awaited.
            async {
                scheduler
                    .update_allocation(si::AllocationRequest {
                        rm_id: "rm".to_owned(),
                        asks: vec![si::AllocationAsk {
                            allocation_key: "k".to_owned(),
                            application_id: "slow".to_owned(),
                            resource_ask: Some(si::Resource {
                                resources: [("vcore".to_owned(), si::Quantity { value: 1 })].into(),
                            }),
                            max_allocations: 1,
                            ..Default::default()
                        }],
                        ..Default::default()
                    })
                    .await
            },
        );
        assert_eq!((a, b, c), (Ok(()), (Ok(()), 5), Ok(())));
        scheduler.settle().await;
        assert_eq!(
            received(recorder),
            [
                "slow accepted",
                "quick accepted",
                "slow is Accepted",
                "slow is Running",
                "slow/k placed on n1"
            ]
        );
        assert_eq!(cluster.application("slow").await.groups, ["slow", "staff"]);
    });
}

#[test]
fn other_rms_do_not_wait_for_a_slow_lookup() {
    in_virtual_time(async {
        let cluster = Cluster::new().await;
        let other = cluster.other().await;
        let scheduler = &cluster.scheduler;
        tokio::join!(
            async { send(scheduler, "rm", vec![app("slow", &[])]).await.unwrap() },
            async {
                send(scheduler, "other", vec![app("quick", &[])]).await.unwrap();
                scheduler.settle_resource_manager("other").await.unwrap();
                assert_eq!(cluster.seconds(), 0);
                assert_eq!(received(&other), ["quick accepted"]);
                assert_eq!(received(&cluster.recorder), [""; 0]);
            },
        );
        assert_eq!(cluster.seconds(), 5);
    });
}

#[test]
fn users_of_one_request_are_resolved_once() {
    in_virtual_time(async {
        let cluster = Cluster::new().await;
        let new = vec![
            app("slower", &[]),
            app("slow", &[]),
            named("again", app("slow", &[])),
            app("quick", &[]),
            app("given", &["g"]),
            app("", &[]),
        ];
        assert_eq!(
            cluster.submit(new).await,
            [
                "slower accepted",
                "slow accepted",
                "again accepted",
                "quick accepted",
                "given accepted",
                " rejected: R_APP_ID"
            ]
        );
        assert_eq!(cluster.seconds(), 8);
        assert_eq!(cluster.scripted.asked(), ["quick", "slow", "slower"]);
        assert_eq!(cluster.application("again").await.groups, ["slow", "staff"]);
    });
}

#[test]
fn supplied_groups_are_used_without_a_lookup() {
    in_virtual_time(async {
        let cluster = Cluster::new().await;
        assert_eq!(cluster.submit(vec![app("hangs", &["g2", "g1"])]).await, ["hangs accepted"]);
        assert_eq!(cluster.application("hangs").await.groups, ["g2", "g1"]);
        // The groups are cached as if the resolver had returned them.
        let later = named("later", app("hangs", &[]));
        assert_eq!(cluster.submit(vec![later]).await, ["later accepted"]);
        assert_eq!(cluster.application("later").await.groups, ["g2", "g1"]);
        assert_eq!(cluster.scripted.asked(), [""; 0]);
        let bad = named("bad", app("bad><+", &["g"]));
        assert_eq!(cluster.submit(vec![bad]).await, ["bad rejected: R_USER E_USER_NAME"]);
    });
}

#[test]
fn unresolvable_users_are_rejected_or_without_groups() {
    in_virtual_time(async {
        let cluster = Cluster::new().await;
        for (user, seconds) in [("fails", 0), ("panics", 0), ("hangs", 10)] {
            let (began, forced_id) = (cluster.seconds(), format!("forced-{user}"));
            let new = vec![app(user, &[]), forced(named(&forced_id, app(user, &[])))];
            let expected = [
                format!("{user} rejected: R_USER E_USER_RESOLVE"),
                format!("{forced_id} accepted"),
            ];
            assert_eq!(cluster.submit(new).await, expected);
            assert_eq!(cluster.seconds() - began, seconds, "{user}");
            let application = cluster.application(&forced_id).await;
            assert_eq!(application.groups, ["nogroup"], "not even those that were found");
            assert_eq!(application.user, user);
        }
        let new = vec![app("", &[]), forced(named("nobodys", app("", &[])))];
        cluster.submit(new).await;
        let nobodys = cluster.application("nobodys").await;
        assert_eq!((&*nobodys.user, nobodys.groups), ("nobody", vec!["nogroup".to_owned()]));
    });
}

#[test]
fn a_failure_is_remembered_for_30_seconds() {
    in_virtual_time(async {
        let cluster = Cluster::new().await;
        let rejected = ["fails rejected: R_USER E_USER_RESOLVE"];
        assert_eq!(cluster.submit(vec![app("fails", &[])]).await, rejected);
        assert_eq!(cluster.scripted.asked(), ["fails"]);
        sleep(Duration::from_secs(29)).await;
        assert_eq!(cluster.submit(vec![app("fails", &[])]).await, rejected);
        assert_eq!(cluster.scripted.asked(), [""; 0]);
        sleep(Duration::from_secs(2)).await;
        assert_eq!(cluster.submit(vec![app("fails", &[])]).await, rejected);
        assert_eq!(cluster.scripted.asked(), ["fails"]);
    });
}

#[test]
fn users_are_resolved_again_after_301_seconds() {
    in_virtual_time(async {
        let cluster = Cluster::new().await;
        let other = cluster.other().await;
        cluster.submit(vec![app("quick", &[])]).await;
        sleep(Duration::from_secs(299)).await;
        cluster.submit(vec![named("remembered", app("quick", &[]))]).await;
        // The result of the resolver is shared by all RMs.
        send(&cluster.scheduler, "other", vec![app("quick", &[])]).await.unwrap();
        cluster.scheduler.settle().await;
        assert_eq!(received(&other), ["quick accepted"]);
        assert_eq!(cluster.scripted.asked(), ["quick"]);
        sleep(Duration::from_secs(2)).await;
        cluster.submit(vec![named("later", app("quick", &[]))]).await;
        assert_eq!(cluster.scripted.asked(), ["quick"]);
        assert_eq!(cluster.application("later").await.groups, ["quick", "staff"]);
    });
}

#[test]
fn entries_expiring_during_a_lookup_are_resolved_too() {
    in_virtual_time(async {
        let cluster = Cluster::new().await;
        cluster.submit(vec![app("quick", &[])]).await;
        sleep(Duration::from_secs(298)).await;
        let new = vec![app("slow", &[]), named("later", app("quick", &[]))];
        assert_eq!(cluster.submit(new).await, ["slow accepted", "later accepted"]);
        assert_eq!(cluster.scripted.asked(), ["quick", "slow", "quick"]);
    });
}

#[test]
fn another_resolver_type_is_ignored_until_a_restart() {
    in_virtual_time(async {
        let cluster = Cluster::new().await;
        let config = SCRIPTED.replace("type: scripted", "type: ''");
        let request =
            si::UpdateConfigurationRequest { rm_id: "rm".to_owned(), config, ..Default::default() };
        assert!(cluster.scheduler.update_configuration(request).await.unwrap().changed);
        cluster.submit(vec![app("quick", &[])]).await;
        assert_eq!(cluster.application("quick").await.groups, ["quick", "staff"]);
    });
}

#[test]
fn a_configuration_waits_its_turn_behind_a_lookup() {
    in_virtual_time(async {
        let cluster = Cluster::new().await;
        let scheduler = &cluster.scheduler;
        let config = SCRIPTED.replace("name: a", "name: b");
        let request =
            si::UpdateConfigurationRequest { rm_id: "rm".to_owned(), config, ..Default::default() };
        let ((), updated) = tokio::join!(
            async { send(scheduler, "rm", vec![app("slow", &[])]).await.unwrap() },
            scheduler.update_configuration(request),
        );
        assert!(updated.unwrap().changed);
        assert_eq!(cluster.seconds(), 5);
        scheduler.settle().await;
        // The application was placed in the queue that the new configuration no longer has.
        assert_eq!(received(&cluster.recorder), ["slow accepted"]);
    });
}

#[test]
fn an_ending_session_does_not_wait_for_lookups() {
    in_virtual_time(async {
        let cluster = Cluster::new().await;
        let scheduler = &cluster.scheduler;
        let again = Arc::new(RecordingCallback::default());
        let (first, second, ()) = tokio::join!(
            send(scheduler, "rm", vec![app("hangs", &[])]),
            send(scheduler, "rm", vec![app("quick", &[])]),
            async { register(scheduler, "rm", SCRIPTED, again.clone()).await },
        );
        assert_eq!(first, Err(UpdateError::NotRegistered("rm".to_owned())));
        assert_eq!(second, first);
        send(scheduler, "rm", vec![app("quick", &[])]).await.unwrap();
        scheduler.settle().await;
        assert_eq!(cluster.seconds(), 0);
        assert_eq!(received(&again), ["quick accepted"]);
        assert_eq!(received(&cluster.recorder), [""; 0]);
    });
}
