//! What the resource manager knows: what it has said, and what it was answered.
//!
//! # Invariants
//! * Keys of requests and ids of applications are never used again, ids of nodes are.
//! * Each request gets one allocation at most, and whatever was allocated is released once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::oldest::Mouth;

/// Of a node, in thousandths of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) capacity: i64,
    pub(crate) is_open: bool,
    /// What belongs to nobody here, by key.
    pub(crate) foreign: BTreeMap<String, i64>,
}

/// Of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Application {
    pub(crate) queue: String,
    pub(crate) wishes: BTreeMap<String, Wish>,
}

/// Of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    /// In thousandths of a core.
    pub(crate) size: i64,
    /// Where it runs.
    pub(crate) placed: Option<Place>,
    /// Its end was asked for, or its node is gone.
    pub(crate) is_ending: bool,
    /// It was reported as running, which is answered like a placement.
    is_reported: bool,
}

/// Of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) node: String,
    /// In the oldest dialect, how it is called.
    pub(crate) uuid: String,
}

/// Something that a resource manager says.
#[derive(Clone, Debug)]
pub(crate) enum Saying {
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
    /// All of them; a new one, one of another size, or one less.
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
    /// What waits is no longer wanted.
    Withdraw {
        application: String,
        key: String,
    },
}

/// Something that a resource manager is answered.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Placed { key: String, application: String, node: String, uuid: String },
    Released { key: String, why: String },
    Rejected { key: String, why: String },
    ApplicationRejected { id: String, why: String },
    NodeRejected { id: String, why: String },
}

/// What is known, and how it came to be.
#[derive(Default)]
pub(crate) struct Belief {
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) applications: BTreeMap<String, Application>,
    /// Where what is said goes, in the oldest dialect.
    pub(crate) mouth: Mouth,
    /// Nodes that have gone in this session, also if they came again.
    went: BTreeSet<String>,
    /// What the allocations of removed applications were called, in the oldest dialect.
    uuids: BTreeMap<String, String>,
    /// Keys of applications that are gone: they may be placed once more, if they are released too.
    ghosts: BTreeMap<String, bool>,
    history: Vec<String>,
    /// What must not have happened.
    pub(crate) faults: Vec<String>,
}

/// The same for all that take part.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<Belief>>);

impl Shared {
    pub(crate) fn get(&self) -> MutexGuard<'_, Belief> {
        self.0.lock().unwrap()
    }
}

impl Belief {
    /// Keeps in mind what happened, for whoever reads the failure.
    pub(crate) fn note(&mut self, what: &impl Debug) {
        self.history.push(format!("{what:?}"));
    }

    pub(crate) fn history(&self) -> String {
        self.history.join("\n")
    }

    /// What is said is so from now on.
    pub(crate) fn say(&mut self, saying: &Saying) {
        self.note(saying);
        match saying {
            Saying::NodeComes { id, capacity } => {
                let node = Node { capacity: *capacity, is_open: true, foreign: BTreeMap::new() };
                self.nodes.entry(id.clone()).or_insert(node);
            }
            Saying::NodeOpens { id, open } => {
                self.nodes.get_mut(id).unwrap().is_open = *open;
            }
            Saying::NodeGoes { id } => {
                self.nodes.remove(id);
                self.went.insert(id.clone());
                let wishes = self.applications.values_mut().flat_map(|it| it.wishes.values_mut());
                for wish in wishes {
                    wish.is_ending |= wish.placed.as_ref().is_some_and(|place| place.node == *id);
                }
            }
            Saying::Foreign { node, key, size } => {
                let foreign = &mut self.nodes.get_mut(node).unwrap().foreign;
                match size {
                    Some(size) => foreign.insert(key.clone(), *size),
                    None => foreign.remove(key),
                };
            }
            Saying::ApplicationComes { id, queue } => {
                let new = Application { queue: queue.clone(), wishes: BTreeMap::new() };
                self.applications.entry(id.clone()).or_insert(new);
            }
            Saying::ApplicationGoes { id } => {
                let gone = self.applications.remove(id).unwrap();
                // What was reported as running may still be answered like a placement.
                let is_told = |wish: &Wish| wish.placed.is_some() && !wish.is_reported;
                let ghosts = gone.wishes.into_iter();
                self.ghosts.extend(ghosts.map(|(key, wish)| (key, is_told(&wish))));
            }
            Saying::Ask { application, key, size } => {
                let wish = Wish { size: *size, placed: None, is_ending: false, is_reported: false };
                let wishes = &mut self.applications.get_mut(application).unwrap().wishes;
                wishes.entry(key.clone()).or_insert(wish);
            }
            Saying::Release { application, key, .. } | Saying::Withdraw { application, key } => {
                let application = self.applications.get_mut(application).unwrap();
                application.wishes.get_mut(key).unwrap().is_ending = true;
            }
        }
    }

    /// Takes in what is answered.
    pub(crate) fn hear(&mut self, answer: Answer) {
        self.note(&answer);
        match answer {
            Answer::Placed { key, application, node, uuid } => {
                self.uuids.insert(uuid.clone(), key.clone());
                let Some(wish) = self.wish(&application, &key) else {
                    let twice = self.ghosts.insert(key.clone(), true).is_none_or(|placed| placed);
                    if twice {
                        self.fault(format!("`{key}` is placed, unasked for"));
                    }
                    return;
                };
                if wish.is_reported && wish.placed.as_ref().is_some_and(|it| it.node == node) {
                    wish.is_reported = false;
                    return;
                }
                if wish.placed.is_some() {
                    return self.fault(format!("`{key}` is placed twice"));
                }
                wish.placed = Some(Place { node: node.clone(), uuid });
                // It had not heard yet that the node goes, when it decided.
                if !self.nodes.contains_key(&node) {
                    self.wish(&application, &key).unwrap().is_ending = true;
                }
            }
            Answer::Released { key, why } => {
                let owner = self.applications.values_mut().find(|it| it.wishes.contains_key(&key));
                match owner {
                    Some(application) => {
                        let wish = application.wishes.remove(&key).unwrap();
                        // The answer may be older than the node that is there now.
                        let node = wish.placed.as_ref().map(|place| &place.node);
                        let went = node.is_some_and(|node| self.went.contains(node));
                        if !wish.is_ending && !went {
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
                let owner = self.applications.values().find(|it| it.wishes.contains_key(&key));
                if owner.is_some() || self.ghosts.remove(&key).is_none() {
                    self.fault(format!("`{key}` is rejected: {why}"));
                }
            }
            // What was both reported and said while a session began is there already.
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

    /// A session begins, and what is about to be reported is all there is: what was to end has.
    pub(crate) fn begin_session(&mut self) {
        self.note(&"a session begins");
        self.ghosts.clear();
        self.went.clear();
        for application in self.applications.values_mut() {
            application.wishes.retain(|_, wish| !wish.is_ending);
            for wish in application.wishes.values_mut() {
                wish.is_reported = wish.placed.is_some();
            }
        }
    }

    /// All is quiet: what was withdrawn is gone.
    pub(crate) fn settle(&mut self) {
        self.note(&"both sides agree");
        for application in self.applications.values_mut() {
            application.wishes.retain(|key, wish| {
                if wish.is_ending {
                    self.ghosts.insert(key.clone(), wish.placed.is_some());
                }
                !wish.is_ending
            });
        }
    }

    /// The key of an allocation by its UUID.
    pub(crate) fn key_of(&self, uuid: &str) -> Option<String> {
        self.uuids.get(uuid).cloned()
    }

    pub(crate) fn is_ending(&self, application: &str, key: &str) -> bool {
        let wish = self.applications.get(application).and_then(|it| it.wishes.get(key));
        wish.is_some_and(|wish| wish.is_ending)
    }

    fn wish(&mut self, application: &str, key: &str) -> Option<&mut Wish> {
        self.applications.get_mut(application)?.wishes.get_mut(key)
    }

    pub(crate) fn fault(&mut self, what: String) {
        self.note(&what);
        self.faults.push(what);
    }
}
