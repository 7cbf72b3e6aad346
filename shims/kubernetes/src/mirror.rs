//! Reads the objects of the API server and follows them by watches.
//!
//! # Invariants
//! * A broken watch restarts by itself; objects that vanished while it was broken are reported as
//!   deleted.
//! * Each kind reports once that it has been read in full. A kind that the server does not serve
//!   reports it too, and is followed as soon as the server serves it.
//! * Failures of one kind are logged at most once a minute.
//! * All changes go through one queue. So what is said of progress follows the changes it is about.

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
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::catch_up::Progress;
use crate::connect::OnceAMinute;
use crate::objects::{
    ConfigMap, CsiNode, Meta, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    PodDisruptionBudget, PodGroup, PriorityClass, Read, StorageClass,
};
use crate::shim::{Change, Key};
use crate::translate::CONFIG_MAPS;

/// Most changes that wait for the shim. Watches pause while the queue is full.
pub const CHANGES_AHEAD: usize = 10_000;
/// The first pause after a failure.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Timeout of a request for the served kinds.
const REQUEST: Duration = Duration::from_secs(10);
/// Pause before the server is asked again whether it serves a kind.
const LOOK: Duration = Duration::from_secs(60);

/// An item of the watches.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    /// An object was added, changed or deleted.
    Change(Change),
    /// A kind has been read in full for the first time.
    Synced(&'static str),
    /// All changes of pods up to the version that was awaited have been sent.
    CaughtUp,
}

/// Starts to follow the cluster, and the ConfigMaps of `namespace`. Returns how many kinds will
/// report [`WatchEvent::Synced`]. Each version of `awaited` is answered by one
/// [`WatchEvent::CaughtUp`].
pub fn follow(
    client: &Client,
    namespace: &str,
    events: &Sender<WatchEvent>,
    awaited: watch::Receiver<Option<u64>>,
    stop: &CancellationToken,
) -> usize {
    let mut mirror = Mirror { client, events, stop, kinds: 0 };
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
    mirror.pod_groups();
    mirror.pods(awaited);
    mirror.kinds
}

/// Waits until the server serves PodGroups in the version that is read. If it does not yet, reports
/// the kind as synced. Returns whether it was reported.
async fn until_served(client: &Client, events: &Sender<WatchEvent>) -> bool {
    let (mut pause, mut complaints) = (Pause::default(), OnceAMinute::default());
    let (mut is_reported, mut are_alphas_logged) = (false, false);
    loop {
        let served = timeout(REQUEST, served_groups(client)).await;
        let served = served.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        match served {
            Ok(Served::AsRead) => return is_reported,
            Ok(Served::Otherwise(alphas)) => {
                if !alphas.is_empty() && !std::mem::replace(&mut are_alphas_logged, true) {
                    info!(
                        versions = alphas.join(", "),
                        "PodGroups are read from scheduling.k8s.io/v1beta1 on; the server has only older versions"
                    );
                }
                if !std::mem::replace(&mut is_reported, true) {
                    events.send(WatchEvent::Synced(PodGroup::KIND)).await.ok();
                }
                pause.reset();
                sleep(LOOK).await;
            }
            Err(why) => {
                if complaints.is_due() {
                    warn!(why, "whether there are PodGroups cannot be asked, and is tried again");
                }
                sleep(pause.next().unwrap_or(LONGEST_PAUSE)).await;
            }
        }
    }
}

/// Whether the server serves PodGroups.
enum Served {
    /// In the version that is read.
    AsRead,
    /// Not in that version. Holds the alpha versions that it serves.
    Otherwise(Vec<String>),
}

async fn served_groups(client: &Client) -> Result<Served, String> {
    let version = format!("{}/{}", PodGroup::GROUP, PodGroup::VERSION);
    match client.list_api_group_resources(&version).await {
        Ok(list) if list.resources.iter().any(|resource| resource.name == PodGroup::PLURAL) => {
            return Ok(Served::AsRead);
        }
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(why) => return Err(describe(&why)),
    }
    let groups = client.list_api_groups().await.map_err(|why| describe(&why))?;
    let groups = groups.groups.into_iter().filter(|group| group.name == PodGroup::GROUP);
    let versions = groups.flat_map(|group| group.versions).map(|version| version.version);
    Ok(Served::Otherwise(versions.filter(|version| version.contains("alpha")).collect()))
}

struct Mirror<'m> {
    client: &'m Client,
    events: &'m Sender<WatchEvent>,
    stop: &'m CancellationToken,
    kinds: usize,
}

impl Mirror<'_> {
    /// Watches all objects of a kind, keyed by `namespace/name`.
    fn all<K>(&mut self, change: impl Fn(String, Option<Arc<K>>) -> Change + Send + 'static)
    where
        K: Watched,
    {
        self.watch(self.api(), watcher::Config::default(), change);
    }

    fn watch<K: Watched>(
        &mut self,
        api: Api<K>,
        config: watcher::Config,
        change: impl Fn(String, Option<Arc<K>>) -> Change + Send + 'static,
    ) {
        let changes = move |name: &str, object: Option<&Arc<K>>| {
            [Some(change(name.to_owned(), object.cloned())), None]
        };
        self.follow(api, config, changes, None);
    }

    /// Watches pods, keyed by UID: a pod created again under the same name is another pod.
    fn pods(&mut self, awaited: watch::Receiver<Option<u64>>) {
        let mut uids: FxHashMap<String, Key> = FxHashMap::default();
        let changes = move |name: &str, pod: Option<&Arc<Pod>>| {
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
        };
        let progress = Some(Progress::new(awaited));
        self.follow(self.api(), watcher::Config::default(), changes, progress);
    }

    /// Watches PodGroups, which not every server serves.
    fn pod_groups(&mut self) {
        self.kinds += 1;
        let (client, events) = (self.client.clone(), self.events.clone());
        let follow = async move {
            let is_synced = until_served(&client, &events).await;
            let api = Api::<PodGroup>::all_with(client, &());
            let change = |name: &str, group: Option<&Arc<PodGroup>>| {
                [Some(Change::Group(name.to_owned(), group.cloned())), None]
            };
            follow_kind(api, watcher::Config::default(), change, None, events, is_synced).await;
        };
        self.spawn(follow);
    }

    fn follow<K: Watched>(
        &mut self,
        api: Api<K>,
        config: watcher::Config,
        changes: impl FnMut(&str, Option<&Arc<K>>) -> [Option<Change>; 2] + Send + 'static,
        progress: Option<Progress>,
    ) {
        self.kinds += 1;
        let follow = follow_kind(api, config, changes, progress, self.events.clone(), false);
        self.spawn(follow);
    }

    fn api<K: Watched>(&self) -> Api<K> {
        Api::all_with(self.client.clone(), &())
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(self.stop.clone().run_until_cancelled_owned(task));
    }
}

/// Sends the changes of one kind, and reports it as synced after the first full read, unless
/// `is_synced`. Reports what `progress` awaits.
async fn follow_kind<K: Watched>(
    api: Api<K>,
    config: watcher::Config,
    mut changes: impl FnMut(&str, Option<&Arc<K>>) -> [Option<Change>; 2] + Send,
    mut progress: Option<Progress>,
    events: Sender<WatchEvent>,
    mut is_synced: bool,
) {
    let begin = || watcher(api.clone(), config.clone()).backoff(Pause::default()).boxed();
    let mut stream = begin();
    // The name of each object, and the number of the listing that last had it.
    let mut known: FxHashMap<String, u64> = FxHashMap::default();
    let mut reading = 0;
    let mut complaints = OnceAMinute::default();
    loop {
        let event = tokio::select! {
            event = stream.next() => event,
            is_behind = is_behind(progress.as_mut()) => {
                if is_behind {
                    stream = begin();
                }
                if !report_progress(progress.as_mut(), &events).await {
                    return;
                }
                continue;
            }
        };
        let Some(event) = event else { return };
        let (mut updates, mut is_read) = (Vec::new(), false);
        if let (Some(progress), Ok(event)) = (&mut progress, &event) {
            note(progress, event);
        }
        match event {
            Ok(Event::Init) => reading += 1,
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                let name = full_name(&object);
                updates.extend(changes(&name, Some(&Arc::new(object))).into_iter().flatten());
                known.insert(name, reading);
            }
            Ok(Event::Delete(object)) => {
                let name = full_name(&object);
                known.remove(&name);
                updates.extend(changes(&name, None).into_iter().flatten());
            }
            Ok(Event::InitDone) => {
                is_read = true;
                for (name, _) in known.extract_if(|_, last| *last < reading) {
                    updates.extend(changes(&name, None).into_iter().flatten());
                }
            }
            Err(why) => {
                if complaints.is_due() {
                    let why = describe_watch(&why);
                    warn!(kind = K::KIND, why, "a watch is interrupted, and tried again");
                }
                continue;
            }
        }
        for change in updates {
            if events.send(WatchEvent::Change(change)).await.is_err() {
                return;
            }
        }
        if is_read && !std::mem::replace(&mut is_synced, true) {
            events.send(WatchEvent::Synced(K::KIND)).await.ok();
        }
        if !report_progress(progress.as_mut(), &events).await {
            return;
        }
    }
}

/// Notes what is about to be delivered. It counts when it is reported, after that.
fn note(progress: &mut Progress, event: &Event<impl Meta>) {
    match event {
        Event::Init => progress.list_begins(),
        Event::InitApply(object) => progress.lists(object),
        Event::InitDone => progress.list_ends(),
        Event::Apply(object) | Event::Delete(object) => progress.delivers(object),
    }
}

/// Waits as [`Progress::is_behind`] does. Never returns for a kind whose progress nobody awaits.
async fn is_behind(progress: Option<&mut Progress>) -> bool {
    match progress {
        Some(progress) => progress.is_behind().await,
        None => std::future::pending().await,
    }
}

/// Reports that the awaited version is reached, if it is. Returns whether somebody listens.
async fn report_progress(progress: Option<&mut Progress>, events: &Sender<WatchEvent>) -> bool {
    if progress.is_none_or(|progress| !progress.take_reached()) {
        return true;
    }
    events.send(WatchEvent::CaughtUp).await.is_ok()
}

/// Growing pause of a watch that fails, up to [`LONGEST_PAUSE`].
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

/// Returns the server's message, or the error of the transport with its causes.
pub(crate) fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        _ => with_causes(error),
    }
}

/// Same as [`describe`], for the error of a watch.
fn describe_watch(error: &watcher::Error) -> String {
    use watcher::Error::{
        InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed,
    };
    match error {
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => describe(error),
        WatchError(status) => status.message.clone(),
        NoResourceVersion => with_causes(error),
    }
}

/// A kind that can be watched.
trait Watched:
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

impl<K> Watched for K where
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

/// Returns an error and its causes in one line.
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
