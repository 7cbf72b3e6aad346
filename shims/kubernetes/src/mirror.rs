//! What the API server has, followed by watches.
//!
//! # Invariants
//! * A watch that breaks begins anew by itself; what vanished meanwhile is told as gone.
//! * Each kind says once that it has been read in full.
//! * What goes wrong is told in the log at most once a minute for a kind.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kube::core::DynamicResourceScope;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use rustc_hash::FxHashMap;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::objects::{
    ConfigMap, CsiNode, Meta, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, PodGroup, PriorityClass, Read, StorageClass,
};
use crate::shim::{Change, Key};
use crate::translate::CONFIG_MAPS;

/// Changes that wait to be dealt with: watches are read on when they are.
pub const CHANGES_AHEAD: usize = 10_000;
/// The first pause after a failure.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Between two complaints about one kind.
const COMPLAINTS: Duration = Duration::from_secs(60);

/// What a watch tells.
#[derive(Clone, Debug)]
pub enum Seen {
    /// Something is otherwise than before.
    Change(Change),
    /// A kind has been read in full for the first time.
    Synced(&'static str),
}

/// Begins to follow the cluster; ConfigMaps are those of `namespace`. Returns how many kinds will say that
/// they are read.
pub async fn follow(
    client: &Client,
    namespace: &str,
    seen: &Sender<Seen>,
    stop: &CancellationToken,
) -> usize {
    let mut mirror = Mirror { client, seen, stop, kinds: 0 };
    mirror.all(|name, node: Option<Arc<Node>>| Change::Node(name, node));
    mirror.all(|name, it: Option<Arc<Namespace>>| Change::Namespace(name, it));
    mirror.all(|name, it: Option<Arc<PriorityClass>>| Change::PriorityClass(name, it));
    mirror.all(|name, it: Option<Arc<PodDisruptionBudget>>| Change::Budget(name, it));
    mirror.all(|name, it: Option<Arc<PersistentVolumeClaim>>| Change::Claim(name, it));
    mirror.all(|name, it: Option<Arc<PersistentVolume>>| Change::Volume(name, it));
    mirror.all(|name, it: Option<Arc<StorageClass>>| Change::StorageClass(name, it));
    mirror.all(|name, it: Option<Arc<CsiNode>>| Change::CsiNode(name, it));
    for map in CONFIG_MAPS {
        let api = Api::namespaced_with(client.clone(), namespace, &());
        let config = watcher::Config::default().fields(&format!("metadata.name={map}"));
        mirror.watch(api, config, |name, it: Option<Arc<ConfigMap>>| Change::ConfigMap(name, it));
    }
    if has_pod_groups(client).await {
        mirror.all(|name, it: Option<Arc<PodGroup>>| Change::Group(name, it));
    }
    mirror.pods();
    mirror.kinds
}

/// Whether the server has groups of pods in the version that is read.
async fn has_pod_groups(client: &Client) -> bool {
    let version = format!("{}/{}", PodGroup::GROUP, PodGroup::VERSION);
    let served = client.list_api_group_resources(&version).await;
    let has = |list: &k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList| {
        list.resources.iter().any(|resource| resource.name == PodGroup::PLURAL)
    };
    if served.as_ref().is_ok_and(has) {
        return true;
    }
    let groups = client.list_api_groups().await;
    let older = groups.iter().flat_map(|all| &all.groups);
    let older = older.filter(|group| group.name == PodGroup::GROUP);
    let versions = older.flat_map(|group| &group.versions).map(|version| version.version.as_str());
    let alpha: Vec<_> = versions.filter(|version| version.contains("alpha")).collect();
    if !alpha.is_empty() {
        tracing::info!(
            versions = alpha.join(", "),
            "PodGroups are read from scheduling.k8s.io/v1beta1 on; the server has only older versions"
        );
    }
    false
}

struct Mirror<'m> {
    client: &'m Client,
    seen: &'m Sender<Seen>,
    stop: &'m CancellationToken,
    kinds: usize,
}

impl Mirror<'_> {
    /// All objects of a kind, by `namespace/name`.
    fn all<K>(&mut self, change: impl Fn(String, Option<Arc<K>>) -> Change + Send + 'static)
    where
        K: Kind,
    {
        let api = Api::all_with(self.client.clone(), &());
        self.watch(api, watcher::Config::default(), change);
    }

    fn watch<K: Kind>(
        &mut self,
        api: Api<K>,
        config: watcher::Config,
        change: impl Fn(String, Option<Arc<K>>) -> Change + Send + 'static,
    ) {
        self.follow(api, config, move |name, object| {
            [Some(change(name.to_owned(), object.cloned())), None]
        });
    }

    /// Pods, by UID: one that is made again under the same name is another.
    fn pods(&mut self) {
        let api = Api::<Pod>::all_with(self.client.clone(), &());
        let mut uids: FxHashMap<String, Key> = FxHashMap::default();
        self.follow(api, watcher::Config::default(), move |name, pod| {
            let Some(pod) = pod else {
                let gone = uids.remove(name).map(|uid| Change::Pod(uid, None));
                return [gone, None];
            };
            let uid = match uids.get(name) {
                Some(uid) if **uid == *pod.uid() => Arc::clone(uid),
                _ => Key::from(pod.uid()),
            };
            let before = if pod.is_over() {
                uids.remove(name)
            } else {
                uids.insert(name.to_owned(), Arc::clone(&uid))
            };
            let before = before.filter(|before| *before != uid);
            let gone = before.map(|before| Change::Pod(before, None));
            [gone, Some(Change::Pod(uid, Some(Arc::clone(pod))))]
        });
    }

    fn follow<K: Kind>(
        &mut self,
        api: Api<K>,
        config: watcher::Config,
        mut changes: impl FnMut(&str, Option<&Arc<K>>) -> [Option<Change>; 2] + Send + 'static,
    ) {
        self.kinds += 1;
        let seen = self.seen.clone();
        let mut stream = watcher(api, config).backoff(Pause::default()).boxed();
        let follow = async move {
            // Names, and in which reading they were there last.
            let mut known: FxHashMap<String, u64> = FxHashMap::default();
            let (mut reading, mut is_synced) = (0, false);
            let mut complained: Option<Instant> = None;
            while let Some(event) = stream.next().await {
                let (mut told, mut is_read) = (Vec::new(), false);
                match event {
                    Ok(Event::Init) => reading += 1,
                    Ok(Event::InitApply(object) | Event::Apply(object)) => {
                        let name = full_name(&object);
                        told.extend(changes(&name, Some(&Arc::new(object))).into_iter().flatten());
                        known.insert(name, reading);
                    }
                    Ok(Event::Delete(object)) => {
                        let name = full_name(&object);
                        known.remove(&name);
                        told.extend(changes(&name, None).into_iter().flatten());
                    }
                    Ok(Event::InitDone) => {
                        is_read = true;
                        let vanished = known.iter().filter(|(_, last)| **last < reading);
                        let vanished: Vec<_> = vanished.map(|(name, _)| name.clone()).collect();
                        for name in vanished {
                            known.remove(&name);
                            told.extend(changes(&name, None).into_iter().flatten());
                        }
                    }
                    Err(why) => {
                        if complained.is_none_or(|last| last.elapsed() >= COMPLAINTS) {
                            complained = Some(Instant::now());
                            let why = in_short(&why);
                            warn!(kind = K::KIND, why, "a watch is interrupted, and tried again");
                        }
                        continue;
                    }
                }
                for change in told {
                    if seen.send(Seen::Change(change)).await.is_err() {
                        return;
                    }
                }
                if is_read && !std::mem::replace(&mut is_synced, true) {
                    seen.send(Seen::Synced(K::KIND)).await.ok();
                }
            }
        };
        tokio::spawn(self.stop.clone().run_until_cancelled_owned(follow));
    }
}

/// How long a watch waits that has failed: longer each time, and never long.
#[derive(Debug, Default)]
struct Pause {
    failures: u32,
}

impl Iterator for Pause {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = SHORTEST_PAUSE * 2_u32.saturating_pow(self.failures.min(10));
        self.failures += 1;
        Some(pause.min(LONGEST_PAUSE))
    }
}

impl Backoff for Pause {
    fn reset(&mut self) {
        self.failures = 0;
    }
}

/// What the server says, or what happened on the way to it.
fn in_short(error: &watcher::Error) -> String {
    use watcher::Error::{
        InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed,
    };
    match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
        | WatchFailed(kube::Error::Api(status))
        | WatchError(status) => status.message.clone(),
        InitialListFailed(_) | WatchStartFailed(_) | WatchFailed(_) | NoResourceVersion => {
            with_causes(error)
        }
    }
}

/// A kind that can be watched.
trait Kind:
    kube::Resource<DynamicType = (), Scope = DynamicResourceScope>
    + Meta
    + Read
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl<K> Kind for K where
    K: kube::Resource<DynamicType = (), Scope = DynamicResourceScope>
        + Meta
        + Read
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static
{
}

fn full_name(object: &impl Meta) -> String {
    match object.namespace() {
        "" => object.name().to_owned(),
        namespace => format!("{namespace}/{}", object.name()),
    }
}

/// An error with what caused it, in one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
