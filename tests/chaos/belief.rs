//! The resource manager's belief: its own requests and the answers to them.
//!
//! # Invariants
//! * Keys of requests and ids of applications are never used again. Ids of nodes are.
//! * Each request gets at most one allocation, and each allocation is released once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::oldest::Outgoing;

/// A node, in thousandths of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) capacity: i64,
    pub(crate) is_open: bool,
    /// Foreign allocations by key.
    pub(crate) foreign: BTreeMap<String, i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Application {
    pub(crate) queue: String,
    pub(crate) requests: BTreeMap<String, KnownRequest>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownRequest {
    /// In thousandths of a core.
    pub(crate) size: i64,
    /// The node of its allocation.
    pub(crate) placed: Option<Place>,
    /// The allocation's release was requested, or its node was removed.
    pub(crate) is_ending: bool,
    /// The allocation was reported as running. Such a report is answered like a placement.
    is_reported: bool,
}

/// An allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) node: String,
    /// Its UUID in the oldest dialect.
    pub(crate) uuid: String,
}

/// A message of the resource manager.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    NodeComes {
        id: String,
        capacity: i64,
    },
    NodeOpens {
        id: String,
        open: bool,
    },
    NodeGoes {
        id: String,
    },
    /// Foreign allocations on a node: a new one, a resized one, or one less.
    Foreign {
        node: String,
        key: String,
        size: Option<i64>,
    },
    ApplicationComes {
        id: String,
        queue: String,
    },
    ApplicationGoes {
        id: String,
    },
    Ask {
        application: String,
        key: String,
        size: i64,
    },
    Release {
        application: String,
        key: String,
        uuid: String,
    },
    /// A pending request is withdrawn.
    Withdraw {
        application: String,
        key: String,
    },
}

/// An answer to the resource manager.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Placed { key: String, application: String, node: String, uuid: String },
    Released { key: String, why: String },
    Rejected { key: String, why: String },
    ApplicationRejected { id: String, why: String },
    NodeRejected { id: String, why: String },
}

/// The belief, and the history that led to it.
#[derive(Default)]
pub(crate) struct Belief {
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) applications: BTreeMap<String, Application>,
    /// The open stream in the oldest dialect.
    pub(crate) outgoing: Outgoing,
    /// Nodes that were removed in this session, even if they were added again.
    went: BTreeSet<String>,
    /// UUIDs of removed applications' allocations, in the oldest dialect.
    uuids: BTreeMap<String, String>,
    /// Keys of removed applications and of ended requests, with whether each was placed. Late
    /// answers may name them: a placement if there was none yet, a release or a rejection.
    ghosts: BTreeMap<String, bool>,
    history: Vec<String>,
    /// Violations of the invariants.
    pub(crate) faults: Vec<String>,
}

/// The belief, shared between tasks.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<Belief>>);

impl Shared {
    pub(crate) fn get(&self) -> MutexGuard<'_, Belief> {
        self.0.lock().unwrap()
    }
}

impl Belief {
    /// Records an event for the message of a failure.
    pub(crate) fn note(&mut self, what: &impl Debug) {
        self.history.push(format!("{what:?}"));
    }

    pub(crate) fn history(&self) -> String {
        self.history.join("\n")
    }

    /// Applies a message of the resource manager.
    pub(crate) fn apply(&mut self, order: &Order) {
        self.note(order);
        match order {
            Order::NodeComes { id, capacity } => {
                let node = Node { capacity: *capacity, is_open: true, foreign: BTreeMap::new() };
                self.nodes.entry(id.clone()).or_insert(node);
            }
            Order::NodeOpens { id, open } => {
                self.nodes.get_mut(id).unwrap().is_open = *open;
            }
            Order::NodeGoes { id } => {
                self.nodes.remove(id);
                self.went.insert(id.clone());
                let requests =
                    self.applications.values_mut().flat_map(|it| it.requests.values_mut());
                for request in requests {
                    request.is_ending |=
                        request.placed.as_ref().is_some_and(|place| place.node == *id);
                }
            }
            Order::Foreign { node, key, size } => {
                let foreign = &mut self.nodes.get_mut(node).unwrap().foreign;
                match size {
                    Some(size) => foreign.insert(key.clone(), *size),
                    None => foreign.remove(key),
                };
            }
            Order::ApplicationComes { id, queue } => {
                let new = Application { queue: queue.clone(), requests: BTreeMap::new() };
                self.applications.entry(id.clone()).or_insert(new);
            }
            Order::ApplicationGoes { id } => {
                let gone = self.applications.remove(id).unwrap();
                // Requests that were reported as running may still be answered like a placement.
                let was_reported =
                    |request: &KnownRequest| request.placed.is_some() && !request.is_reported;
                let ghosts = gone.requests.into_iter();
                self.ghosts.extend(ghosts.map(|(key, request)| (key, was_reported(&request))));
            }
            Order::Ask { application, key, size } => {
                let request = KnownRequest {
                    size: *size,
                    placed: None,
                    is_ending: false,
                    is_reported: false,
                };
                let requests = &mut self.applications.get_mut(application).unwrap().requests;
                requests.entry(key.clone()).or_insert(request);
            }
            Order::Release { application, key, .. } | Order::Withdraw { application, key } => {
                let application = self.applications.get_mut(application).unwrap();
                application.requests.get_mut(key).unwrap().is_ending = true;
            }
        }
    }

    pub(crate) fn receive(&mut self, answer: Answer) {
        self.note(&answer);
        match answer {
            Answer::Placed { key, application, node, uuid } => {
                self.uuids.insert(uuid.clone(), key.clone());
                let Some(request) = self.request(&application, &key) else {
                    let twice = self.ghosts.insert(key.clone(), true).is_none_or(|placed| placed);
                    if twice {
                        self.fault(format!("`{key}` is placed, unasked for"));
                    }
                    return;
                };
                if request.is_reported && request.placed.as_ref().is_some_and(|it| it.node == node)
                {
                    request.is_reported = false;
                    return;
                }
                if request.placed.is_some() {
                    return self.fault(format!("`{key}` is placed twice"));
                }
                request.placed = Some(Place { node: node.clone(), uuid });
                // It was decided before the scheduler learned of the node's removal.
                if !self.nodes.contains_key(&node) {
                    self.request(&application, &key).unwrap().is_ending = true;
                }
            }
            Answer::Released { key, why } => {
                let owner =
                    self.applications.values_mut().find(|it| it.requests.contains_key(&key));
                match owner {
                    Some(application) => {
                        let request = application.requests.remove(&key).unwrap();
                        // The answer may be older than the present node.
                        let node = request.placed.as_ref().map(|place| &place.node);
                        let went = node.is_some_and(|node| self.went.contains(node));
                        if !request.is_ending && !went {
                            self.fault(format!("`{key}` is released without a reason: {why}"));
                        }
                    }
                    None if self.ghosts.remove(&key).is_none() => {
                        self.fault(format!("`{key}` is released, and was not there: {why}"));
                    }
                    None => {}
                }
            }
            Answer::Rejected { key, why } => {
                let owner = self.applications.values().find(|it| it.requests.contains_key(&key));
                if owner.is_some() || self.ghosts.remove(&key).is_none() {
                    self.fault(format!("`{key}` is rejected: {why}"));
                }
            }
            // Allocations that were reported and answered while a session began exist already.
            Answer::ApplicationRejected { id, why } => {
                if !why.contains("R_APP_EXISTS") {
                    self.fault(format!("application `{id}` is rejected: {why}"));
                }
            }
            Answer::NodeRejected { id, why } => {
                if !why.contains("R_NODE_EXISTS") {
                    self.fault(format!("node `{id}` is rejected: {why}"));
                }
            }
        }
    }

    /// Starts a session. Only reported items exist in it, so allocations that were to be released
    /// no longer do.
    pub(crate) fn begin_session(&mut self) {
        self.note(&"a session begins");
        self.ghosts.clear();
        self.went.clear();
        for application in self.applications.values_mut() {
            application.requests.retain(|_, request| !request.is_ending);
            for request in application.requests.values_mut() {
                request.is_reported = request.placed.is_some();
            }
        }
    }

    /// Forgets requests that were to end. Called at rest, when the scheduler has ended them.
    pub(crate) fn settle(&mut self) {
        self.note(&"both sides agree");
        for application in self.applications.values_mut() {
            application.requests.retain(|key, request| {
                if request.is_ending {
                    self.ghosts.insert(key.clone(), request.placed.is_some());
                }
                !request.is_ending
            });
        }
    }

    /// Returns the key of an allocation by its UUID.
    pub(crate) fn key_of(&self, uuid: &str) -> Option<String> {
        self.uuids.get(uuid).cloned()
    }

    pub(crate) fn is_ending(&self, application: &str, key: &str) -> bool {
        let request = self.applications.get(application).and_then(|it| it.requests.get(key));
        request.is_some_and(|request| request.is_ending)
    }

    fn request(&mut self, application: &str, key: &str) -> Option<&mut KnownRequest> {
        self.applications.get_mut(application)?.requests.get_mut(key)
    }

    pub(crate) fn fault(&mut self, what: String) {
        self.note(&what);
        self.faults.push(what);
    }
}
