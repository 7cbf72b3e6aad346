//! A part of a resource manager's work: applications that ask, release, change their requests and
//! end.
//!
//! A client's actions depend on its seed. Only its releases depend on its allocations so far.

use std::collections::{BTreeMap, BTreeSet};

use monoceros_proto::si::v1 as si;

use super::document::{GROUPS, USERS, any_leaf, leaf};
use crate::harness::{Dice, Rm, Seen, application, ask, old_ask, release};

/// The state of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestState {
    /// The request was withdrawn, or its application removed: it need not be allocated.
    pub(crate) is_withdrawn: bool,
    /// The release of its allocation was requested.
    pub(crate) is_released: bool,
}

/// The requests of one client, by key.
#[derive(Default)]
pub(crate) struct Client {
    name: usize,
    dice: Option<Dice>,
    pub(crate) requests: BTreeMap<String, RequestState>,
    /// Accepted applications that were not removed, with their keys.
    pub(crate) applications: BTreeMap<String, Vec<String>>,
    pub(crate) n_submitted: usize,
    pub(crate) n_rejected: usize,
}

impl Client {
    pub(crate) fn new(name: usize, seed: u64) -> Self {
        Self { name, dice: Some(Dice(seed)), ..Self::default() }
    }

    /// Submits an application with some requests. Other applications have requests withdrawn or
    /// allocations released, or are removed.
    pub(crate) async fn round(&mut self, rm: &Rm, round: usize) {
        let mut dice = self.dice.take().unwrap();
        self.submit(rm, round, &mut dice).await;
        self.withdraw(rm, &mut dice).await;
        self.release(rm, &mut dice).await;
        if dice.one_in(4) {
            self.remove(rm, &mut dice).await;
        }
        self.dice = Some(dice);
    }

    /// Waits until all messages sent before it have had their effect, and all answers are received.
    pub(crate) async fn barrier(&mut self, rm: &Rm, name: &str) {
        let key = format!("{name}-k");
        let new = application(name, &leaf([0; 4]));
        rm.send_applications(vec![new], vec![]).await;
        rm.until(name, |seen| seen.accepted_applications.iter().any(|id| id == name)).await;
        self.n_submitted += 1;
        rm.send_allocations(vec![], vec![ask(name, &key)], vec![]).await;
        rm.until(name, |seen| seen.new.iter().any(|new| new.allocation_key == key)).await;
        rm.send_allocations(vec![], vec![], vec![release(name, &key)]).await;
        rm.until(name, |seen| seen.released.iter().any(|gone| gone.allocation_key == key)).await;
        self.requests.insert(key, RequestState { is_withdrawn: false, is_released: true });
    }

    async fn submit(&mut self, rm: &Rm, round: usize, dice: &mut Dice) {
        let id = format!("c{}-a{round}", self.name);
        let user = dice.below(USERS);
        let ugi = si::UserGroupInformation {
            user: format!("u{user}"),
            groups: vec![format!("g{}", user % GROUPS)],
        };
        let mut new =
            si::AddApplicationRequest { ugi: Some(ugi), ..application(&id, &leaf(any_leaf(dice))) };
        if dice.one_in(4) {
            new.queue_name.clear();
            new.tags.insert("namespace".to_owned(), format!("ns-{}", dice.below(8)));
        }
        rm.send_applications(vec![new], vec![]).await;
        self.n_submitted += 1;
        let accepted = |seen: &Seen| seen.accepted_applications.contains(&id);
        rm.until("an answer", |seen| accepted(seen) || seen.reason(&id).is_some()).await;
        if !rm.read(accepted) {
            self.n_rejected += 1;
            return;
        }
        let key = |n: usize| format!("{id}-k{n}");
        let n_asks = 1 + dice.below(6);
        let asks = (0..n_asks).map(|n| ask(&id, &key(n))).collect();
        let old = old_ask(&id, &key(n_asks), 1);
        rm.send_allocations(vec![old], asks, vec![]).await;
        let keys: Vec<String> = (0..=n_asks).map(key).collect();
        self.requests.extend(keys.iter().map(|key| (key.clone(), RequestState::default())));
        self.applications.insert(id, keys);
    }

    /// Withdraws a request in both forms, since it may have been allocated already.
    async fn withdraw(&mut self, rm: &Rm, dice: &mut Dice) {
        let Some(id) = self.any_application(dice) else { return };
        let keys = &self.applications[&id];
        let (Some(newer), Some(older)) = (keys.first(), keys.last()) else { return };
        if self.requests[newer].is_released || self.requests[older].is_released {
            return;
        }
        let ask = si::AllocationAskRelease {
            application_id: id.clone(),
            allocation_key: older.clone(),
            partition_name: "default".to_owned(),
            termination_type: si::TerminationType::StoppedByRm.into(),
            ..Default::default()
        };
        let releases = si::AllocationReleasesRequest {
            allocations_to_release: vec![release(&id, newer)],
            allocation_asks_to_release: vec![ask],
        };
        let request = si::AllocationRequest {
            releases: Some(releases),
            rm_id: rm.id.clone(),
            ..Default::default()
        };
        rm.allocations.send(request).await.unwrap();
        self.requests.get_mut(older).unwrap().is_withdrawn = true;
        *self.requests.get_mut(newer).unwrap() =
            RequestState { is_withdrawn: true, is_released: true };
    }

    /// Releases all allocations of an application so far.
    async fn release(&mut self, rm: &Rm, dice: &mut Dice) {
        let Some(id) = self.any_application(dice) else { return };
        let held: BTreeSet<String> = rm.read(|seen| {
            let of_it = seen.new.iter().filter(|new| new.application_id == id);
            of_it.map(|new| new.allocation_key.clone()).collect()
        });
        let mut releases = Vec::new();
        for key in held {
            let request = self.requests.get_mut(&key).unwrap();
            if !request.is_released {
                request.is_released = true;
                releases.push(release(&id, &key));
            }
        }
        rm.send_allocations(vec![], vec![], releases).await;
    }

    async fn remove(&mut self, rm: &Rm, dice: &mut Dice) {
        let Some(id) = self.any_application(dice) else { return };
        self.remove_application(rm, &id).await;
    }

    /// Removes an application with its allocations and requests.
    pub(crate) async fn remove_application(&mut self, rm: &Rm, id: &str) {
        let keys = self.applications.remove(id).unwrap();
        let remove = si::RemoveApplicationRequest {
            application_id: id.to_owned(),
            partition_name: "default".to_owned(),
        };
        rm.send_applications(vec![], vec![remove]).await;
        for key in keys {
            *self.requests.get_mut(&key).unwrap() =
                RequestState { is_withdrawn: true, is_released: true };
        }
    }

    fn any_application(&self, dice: &mut Dice) -> Option<String> {
        let n = self.applications.len();
        (n > 0).then(|| self.applications.keys().nth(dice.below(n)).unwrap().clone())
    }
}
