//! PodGroups, which not every server serves, or not from the start.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_kubernetes::mirror::{WatchEvent, follow};
use monoceros_kubernetes::shim::Change;
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::log::Log;
use crate::replicas::in_virtual_time;
use crate::stub::{Answer, client, refusal};

const SECOND: Duration = Duration::from_secs(1);
const GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1";

/// Answer of the server to the question whether it serves PodGroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Has {
    Them,
    Alphas,
    Nothing,
    Fails,
    Hangs,
}

struct Mirror {
    has: Arc<Mutex<Has>>,
    events: Receiver<WatchEvent>,
    stop: CancellationToken,
    kinds: usize,
    /// Kinds that have been read.
    synced: Vec<&'static str>,
    groups: Vec<String>,
}

async fn answer(has: Has, path: &str) -> Answer {
    if path.contains("watch=true") {
        return std::future::pending().await;
    }
    match path {
        GROUPS => match has {
            Has::Them => (
                200,
                json!({"groupVersion": "scheduling.k8s.io/v1beta1", "resources": [
                {"name": "podgroups", "singularName": "", "namespaced": true, "kind": "PodGroup", "verbs": []}]}),
            ),
            Has::Alphas | Has::Nothing => refusal(404),
            Has::Fails => refusal(503),
            Has::Hangs => std::future::pending().await,
        },
        "/apis" => {
            let versions = match has {
                Has::Alphas => json!([
                    {"groupVersion": "scheduling.k8s.io/v1", "version": "v1"},
                    {"groupVersion": "scheduling.k8s.io/v1alpha3", "version": "v1alpha3"}]),
                _ => json!([{"groupVersion": "scheduling.k8s.io/v1", "version": "v1"}]),
            };
            (200, json!({"groups": [{"name": "scheduling.k8s.io", "versions": versions}]}))
        }
        path => {
            let group =
                json!({"metadata": {"namespace": "ns", "name": "g", "resourceVersion": "1"}});
            let items = if path.contains("podgroups") { json!([group]) } else { json!([]) };
            (200, json!({"metadata": {"resourceVersion": "1"}, "items": items}))
        }
    }
}

impl Mirror {
    fn begin(has: Has) -> Self {
        let has = Arc::new(Mutex::new(has));
        let answers = Arc::clone(&has);
        let client = client(move |_, path, _: Value| {
            let has = *answers.lock().unwrap();
            async move { answer(has, &path).await }
        });
        let (watch, events) = channel(100);
        let stop = CancellationToken::new();
        let (_, awaited) = tokio::sync::watch::channel(None);
        let kinds = follow(&client, "ns", &watch, awaited, &stop);
        Self { has, events, stop, kinds, synced: Vec::new(), groups: Vec::new() }
    }

    fn becomes(&self, has: Has) {
        *self.has.lock().unwrap() = has;
    }

    async fn pass(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            tokio::select! {
                () = sleep_until(until) => return,
                events = self.events.recv() => match events {
                    Some(WatchEvent::Synced(kind)) => self.synced.push(kind),
                    Some(WatchEvent::Change(Change::Group(name, _))) => self.groups.push(name),
                    Some(WatchEvent::Change(change)) => panic!("{change:?}"),
                    Some(WatchEvent::CaughtUp) => panic!("nobody waits for it"),
                    None => return,
                },
            }
        }
    }

    fn are_groups_synced(&self) -> bool {
        self.synced.contains(&"PodGroup")
    }
}

#[test]
fn served_groups_are_read_before_the_start() {
    in_virtual_time(async {
        let mut mirror = Mirror::begin(Has::Them);
        mirror.pass(SECOND).await;
        assert_eq!(mirror.synced.len(), mirror.kinds);
        assert!(mirror.are_groups_synced());
        assert_eq!(mirror.groups, ["ns/g"]);
    });
}

#[test]
fn groups_are_read_once_the_server_serves_them() {
    in_virtual_time(async {
        let log = Log::begin();
        let mut mirror = Mirror::begin(Has::Nothing);
        mirror.pass(SECOND).await;
        assert_eq!(mirror.synced.len(), mirror.kinds, "nobody waits for what is not there");
        mirror.becomes(Has::Alphas);
        mirror.pass(600 * SECOND).await;
        assert_eq!(log.lines("only older versions").len(), 1);
        assert_eq!(log.lines("versions=\"v1alpha3\"").len(), 1);
        assert_eq!(mirror.groups, [""; 0]);
        mirror.becomes(Has::Them);
        mirror.pass(61 * SECOND).await;
        assert_eq!(mirror.groups, ["ns/g"]);
        assert_eq!(mirror.synced.len(), mirror.kinds, "each kind says it once");
    });
}

#[test]
fn error_does_not_mean_that_groups_are_missing() {
    in_virtual_time(async {
        let log = Log::begin();
        for has in [Has::Fails, Has::Hangs] {
            let mut mirror = Mirror::begin(has);
            mirror.pass(170 * SECOND).await;
            assert_eq!(mirror.synced.len(), mirror.kinds - 1);
            assert!(!mirror.are_groups_synced(), "{has:?}: nobody knows yet");
            mirror.becomes(Has::Them);
            mirror.pass(20 * SECOND).await;
            assert_eq!(
                (mirror.synced.len(), &*mirror.groups),
                (mirror.kinds, &["ns/g".to_owned()][..])
            );
        }
        assert_eq!(log.lines("whether there are PodGroups cannot be asked").len(), 6);
        assert_eq!(log.lines("a refusal with 503").len(), 3);
        assert_eq!(log.lines("no answer in time").len(), 3);
    });
}

#[test]
fn stop_ends_the_watch_in_every_state() {
    for has in [Has::Them, Has::Alphas, Has::Fails, Has::Hangs] {
        in_virtual_time(async {
            let mut mirror = Mirror::begin(has);
            mirror.pass(5 * SECOND).await;
            mirror.stop.cancel();
            mirror.pass(SECOND).await;
            assert!(mirror.events.is_closed(), "{has:?}: nobody follows anything any more");
        });
    }
}
