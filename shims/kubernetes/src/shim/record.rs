//! What is remembered of a pod, of an application, and of a node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use monoceros_proto::si::v1::TerminationType;
use tokio_util::sync::DropGuard;

use super::gathering::{Gathered, GroupTold, Share};
use super::said::Key;
use super::waiting::{Why, WhyTold};
use crate::objects::{Meta as _, Node, Pod};
use crate::translate::{Amounts, DeclaredGang, node_amounts};

/// Where a pod stands among those of its application: by the second in which it was created, then in the order
/// in which pods came.
pub(super) type Place = (i64, u64, Key);

/// A pod that somebody schedules, and that has not run to its end.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) pod: Arc<Pod>,
    /// The number of pods that came before it.
    pub(super) number: u64,
    /// Its application; none for what others schedule.
    pub(super) application: Option<Arc<str>>,
    pub(super) told: Told,
    /// What was told of it, in short.
    pub(super) said: u64,
    pub(super) hand: Hand,
    /// Dropped, it calls off what the hand does.
    pub(super) wanted: Option<DropGuard>,
    /// Where it is being bound to, until what came of that is known and told.
    pub(super) target: Option<Arc<str>>,
    /// What it counts for in its application.
    pub(super) share: Share,
    /// The engine wants it to go.
    pub(super) ending: Option<Ending>,
    /// The pod is over: what the engine has of it ends.
    pub(super) is_gone: bool,
    /// How the pod ends, by its status.
    pub(super) end: End,
    /// It is not asked for before.
    pub(super) not_before: Duration,
    /// When it was there first.
    pub(super) seen: Duration,
    /// The engine refuses it.
    pub(super) refused: Option<String>,
    /// How often in a row it did.
    pub(super) refusals: u32,
    /// The engine has an allocation of it, and not only been told of one.
    pub(super) is_held: bool,
    /// What it takes on its node was refused, and is said again then.
    pub(super) say_again: Option<Duration>,
    /// Why it is not asked for.
    pub(super) waits_for: Option<Why>,
    /// When it was asked for.
    pub(super) asked: Duration,
    /// More machines would help.
    pub(super) wants_nodes: bool,
    /// Why it waits, as it was told last.
    pub(super) why: Option<WhyTold>,
    /// When its waiting is looked at next.
    pub(super) due: Option<Duration>,
}

/// Why the engine wants a pod to go.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) type_: TerminationType,
    pub(super) message: String,
    /// An event has told of it.
    pub(super) is_told: bool,
}

/// How a pod ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The pod succeeds, somebody deletes it, or nothing is known.
    ByItself,
    /// The pod fails or is disrupted: a gang that needs it has lost it.
    Lost,
}

/// What the engine has of a pod, as far as it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Nothing,
    /// A request.
    Asked,
    /// An allocation.
    Placed(Arc<str>),
    /// Something that takes room.
    Foreign(Arc<str>),
    /// It was told to drop it, and has not said that it has.
    Leaving,
}

/// What is done for a pod at the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hand {
    Idle,
    Binding,
    /// The binding has succeeded; the watch has not told yet.
    Bound,
    Evicting,
}

impl Record {
    pub(super) fn new(
        pod: Arc<Pod>,
        number: u64,
        application: Option<Arc<str>>,
        now: Duration,
    ) -> Self {
        Self {
            pod,
            number,
            application,
            told: Told::Nothing,
            said: 0,
            hand: Hand::Idle,
            wanted: None,
            target: None,
            share: Share::default(),
            ending: None,
            is_gone: false,
            end: End::ByItself,
            not_before: Duration::ZERO,
            seen: now,
            refused: None,
            refusals: 0,
            is_held: false,
            say_again: None,
            waits_for: None,
            asked: now,
            wants_nodes: false,
            why: None,
            due: None,
        }
    }

    /// Where it stands among the pods of its application.
    pub(super) fn place(&self, key: &Key) -> Place {
        (self.pod.created(), self.number, Arc::clone(key))
    }

    /// Whether it is not asked for because of what it, or its application, says.
    pub(super) fn is_refused(&self) -> bool {
        const REASONS: [&str; 5] =
            ["Refused", "ApplicationRefused", "NotSupported", "GroupNotSupported", "Unreadable"];
        let why = self.waits_for.as_ref().filter(|_| self.told == Told::Nothing && !self.is_gone);
        why.is_some_and(|why| REASONS.contains(&&*why.reason))
    }

    /// Whatever the engine wanted to end of it does not end any more, and nobody sees to that. Returns how it
    /// was to end.
    pub(super) fn let_stay(&mut self) -> Option<Ending> {
        if self.hand == Hand::Evicting {
            self.hand = Hand::Idle;
            self.wanted = None;
        }
        self.ending.take()
    }
}

/// An application.
#[derive(Debug, Default)]
pub(super) struct Application {
    /// That of its pods.
    pub(super) namespace: String,
    /// Its id, as its pods say it.
    pub(super) said: String,
    /// Its pods, oldest first.
    pub(super) pods: BTreeSet<Place>,
    /// What they count for together.
    pub(super) gathered: Gathered,
    pub(super) told: AppTold,
    /// The gang, as it was told.
    pub(super) gang: Option<DeclaredGang>,
    /// The engine has taken it.
    pub(super) is_accepted: bool,
    /// Nobody has asked for anything of it yet.
    pub(super) is_new: bool,
    /// Since when pods name a task group that no pod declares.
    pub(super) undeclared: Option<Duration>,
    /// How often in a row it was refused.
    pub(super) refusals: u32,
    /// Who declared the gang.
    pub(super) declared_by: DeclaredBy,
    /// How often it was declared anew, for pods that are larger than their groups say.
    pub(super) resized: u32,
    /// Warnings that were told, and are not told again.
    pub(super) told_once: BTreeSet<String>,
    /// How its PodGroup was told to stand.
    pub(super) group_told: Option<GroupTold>,
    /// Its PodGroup was told that it is preempted.
    pub(super) is_disrupted: bool,
}

impl Application {
    /// What pods of the namespace mean by this id.
    pub(super) fn new(namespace: &str, said: &str) -> Self {
        Self { namespace: namespace.to_owned(), said: said.to_owned(), ..Self::default() }
    }

    /// Orders applications by their oldest pods.
    pub(super) fn age(&self) -> impl Ord + '_ {
        (self.pods.first().map(|(created, ..)| *created), &self.namespace, &self.said)
    }
}

/// Who declared the gang of an application.
#[derive(Debug, Default)]
pub(super) struct DeclaredBy {
    /// The UID of a controller, or of a pod.
    pub(super) uid: String,
    /// It was told that somebody else declares a gang for the application, too.
    pub(super) is_other_told: bool,
}

/// What the engine has of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum AppTold {
    #[default]
    Nothing,
    Told,
    /// It was refused, and is tried again then.
    Refused(String, Duration),
    /// It has failed, and is not tried again while its pods are there.
    Failed(String),
}

/// A node.
#[derive(Debug)]
pub(super) struct NodeRecord {
    pub(super) node: Arc<Node>,
    /// The engine has it.
    pub(super) is_told: bool,
    /// The engine may place something there.
    pub(super) is_open: bool,
    pub(super) attributes: BTreeMap<String, String>,
    pub(super) amounts: Amounts,
}

impl NodeRecord {
    pub(super) fn new(node: Arc<Node>) -> Self {
        let attributes = crate::translate::attributes(&node);
        let amounts = node_amounts(&node).unwrap_or_default();
        Self { node, is_told: false, is_open: false, attributes, amounts }
    }
}
