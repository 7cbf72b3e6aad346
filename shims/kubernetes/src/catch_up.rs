//! Waits, after the lease was taken, until the mirror has every binding of the last leader.
//!
//! # Why
//! The last leader may have bound pods just before its end, and a watch may be behind. A leader that
//! does not know of them would give their room away a second time.
//!
//! # How
//! A list of one pod that is requested with the lease in hand names the newest resource version.
//! Every change that has a node behind it is older. The mirror has all of them as soon as it has
//! delivered a change of a pod with that version or a later one, since a watch keeps their order.
//! On a quiet cluster no pod changes. So the leader labels its own pod after the list, which is such
//! a change.
//!
//! Without one within [`PASSES_WITHIN`] pods are listed again in full: the process does not know its
//! pod, the label was there before, the watch is broken, or the version is no number.
//!
//! # Invariants
//! * Objects of a list count once the list is complete: its pages are not in the order of versions.
//! * A list counts as newer than the lease only if it was begun after the version was known.

use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{info, warn};

use crate::connect::OnceAMinute;
use crate::mirror::describe;
use crate::objects::{Meta, Pod};

/// How long a change of a pod is awaited before all pods are listed again.
pub const PASSES_WITHIN: Duration = Duration::from_secs(1);
/// Timeout of the list.
const REQUEST: Duration = Duration::from_secs(2);
/// Pause after a list that failed.
const AGAIN: Duration = Duration::from_millis(200);
/// Version in place of one that is no number. No object has it.
const UNREADABLE: u64 = u64::MAX;

/// Returns the newest resource version of the server's pods, as soon as the server answers.
pub async fn newest_version(client: &Client) -> u64 {
    let api = Api::<Pod>::all_with(client.clone(), &());
    let mut complaints = OnceAMinute::default();
    loop {
        let listed = timeout(REQUEST, api.list(&ListParams::default().limit(1))).await;
        let why = match listed {
            Ok(Ok(list)) => return number(list.metadata.resource_version.as_deref()),
            Ok(Err(why)) => describe(&why),
            Err(_) => "no answer in time".to_owned(),
        };
        if complaints.is_due() {
            warn!(why, "how far the cluster is cannot be asked, and is tried again");
        }
        sleep(AGAIN).await;
    }
}

fn number(version: Option<&str>) -> u64 {
    version.and_then(|version| version.parse().ok()).unwrap_or(UNREADABLE)
}

/// How far pods have been read, and how far they have to be.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The version that has to be reached. `None` while nobody waits for one.
    target: watch::Receiver<Option<u64>>,
    awaited: Option<Awaited>,
    /// Newest version that was delivered.
    delivered: u64,
    /// Newest version in the list that is being read.
    listed: u64,
}

#[derive(Debug)]
struct Awaited {
    version: u64,
    /// When pods are listed again. `None` once they are.
    until: Option<Instant>,
    /// Whether the list that is being read was begun later.
    has_list: bool,
    is_reached: bool,
}

impl Progress {
    pub(crate) fn new(target: watch::Receiver<Option<u64>>) -> Self {
        Self { target, awaited: None, delivered: 0, listed: 0 }
    }

    /// Waits until the target changes, or until pods have to be listed again because it was not
    /// reached. Returns whether they have to.
    pub(crate) async fn is_behind(&mut self) -> bool {
        let until = self.awaited.as_ref().and_then(|awaited| awaited.until);
        tokio::select! {
            changed = self.target.changed() => {
                if changed.is_err() {
                    // The run has ended, and nobody waits.
                    std::future::pending::<()>().await;
                }
                let version = *self.target.borrow_and_update();
                self.awaited = version.map(|version| Awaited {
                    version,
                    until: Some(Instant::now() + PASSES_WITHIN),
                    has_list: false,
                    is_reached: self.delivered >= version,
                });
                false
            }
            () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {
                if let Some(awaited) = &mut self.awaited {
                    awaited.until = None;
                }
                info!("no pod has changed since the lease was taken: pods are listed again");
                true
            }
        }
    }

    /// Notes that a list is begun.
    pub(crate) fn list_begins(&mut self) {
        self.listed = 0;
        if let Some(awaited) = &mut self.awaited {
            awaited.has_list = true;
        }
    }

    /// Notes an object of a list.
    pub(crate) fn lists(&mut self, object: &impl Meta) {
        self.listed = self.listed.max(version_of(object));
    }

    /// Notes that everything in the list was delivered.
    pub(crate) fn list_ends(&mut self) {
        self.reach(self.listed);
        if let Some(awaited) = &mut self.awaited {
            awaited.is_reached |= awaited.has_list;
        }
    }

    /// Notes a change that the watch has delivered.
    pub(crate) fn delivers(&mut self, object: &impl Meta) {
        self.reach(version_of(object));
    }

    fn reach(&mut self, version: u64) {
        self.delivered = self.delivered.max(version);
        if let Some(awaited) = &mut self.awaited {
            awaited.is_reached |= self.delivered >= awaited.version;
        }
    }

    /// Returns whether the target is reached, once for each target.
    pub(crate) fn take_reached(&mut self) -> bool {
        self.awaited.take_if(|awaited| awaited.is_reached).is_some()
    }
}

/// Returns the version of an object; 0 if it is no number.
fn version_of(object: &impl Meta) -> u64 {
    let version = object.metadata().resource_version.as_deref();
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(version: &str) -> Pod {
        serde_json::from_value(serde_json::json!({"metadata": {"resourceVersion": version}}))
            .unwrap()
    }

    /// Makes a progress that awaits this version, after `before` has happened.
    async fn awaiting(version: u64, before: impl FnOnce(&mut Progress)) -> Progress {
        let (target, awaited) = watch::channel(None);
        let mut progress = Progress::new(awaited);
        before(&mut progress);
        target.send_replace(Some(version));
        assert!(!progress.is_behind().await);
        progress
    }

    #[tokio::test(start_paused = true)]
    async fn change_of_the_version_or_a_later_one_reaches_it() {
        for (version, is_reached) in [("6", false), ("7", true), ("10", true), ("x", false)] {
            let mut progress = awaiting(7, |_| {}).await;
            progress.delivers(&pod(version));
            assert_eq!(progress.take_reached(), is_reached, "{version}");
            assert!(!progress.take_reached(), "it is said once");
            let mut progress = awaiting(7, |before| before.delivers(&pod(version))).await;
            assert_eq!(progress.take_reached(), is_reached, "{version}, before it was asked for");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn objects_of_a_list_count_at_its_end() {
        let mut progress = awaiting(7, Progress::list_begins).await;
        progress.lists(&pod("8"));
        assert!(!progress.take_reached(), "older ones may be on the next page");
        progress.list_ends();
        assert!(progress.take_reached());
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_list_begun_afterwards_is_as_new() {
        let mut progress = awaiting(7, Progress::list_begins).await;
        progress.lists(&pod("3"));
        progress.list_ends();
        assert!(!progress.take_reached(), "it may have been read before");
        progress.list_begins();
        progress.lists(&pod("3"));
        progress.list_ends();
        assert!(progress.take_reached());
    }

    #[tokio::test(start_paused = true)]
    async fn pods_are_listed_again_once_after_a_while() {
        let (target, awaited) = watch::channel(None);
        let mut progress = Progress::new(awaited);
        target.send_replace(Some(UNREADABLE));
        assert!(!progress.is_behind().await);
        let begun = Instant::now();
        assert!(progress.is_behind().await);
        assert_eq!(begun.elapsed(), PASSES_WITHIN);
        let again = timeout(100 * PASSES_WITHIN, progress.is_behind()).await;
        assert!(again.is_err(), "the watch repeats a list that fails");
        progress.list_begins();
        progress.list_ends();
        assert!(progress.take_reached());
    }
}
