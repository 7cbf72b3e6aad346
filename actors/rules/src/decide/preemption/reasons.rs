//! Why nothing is preempted, and for whom something is.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Why an ask, or a gang, does not preempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NoPreemption {
    /// Preemption is switched off in the partition.
    SwitchedOff,
    /// It may not, by its policy.
    MayNotPreempt,
    /// Victims leave for it already.
    HasPreempted,
    /// It requires a node, and takes room there in another way.
    RequiresNode,
    /// A start of it failed, and none has succeeded since.
    StartFailed,
    /// It is too young: not before that time, ns since the epoch.
    TooYoung {
        /// That time.
        until_ns: i64,
    },
    /// It was looked for in vain a moment ago: not before that time, ns since the epoch.
    TriedLately {
        /// That time.
        until_ns: i64,
    },
    /// It was looked for in vain, and nothing has changed since.
    NothingChanged,
    /// What the limits of its user or group leave beside what others were promised is not enough.
    OverLimits,
    /// What a queue on its path leaves beside what others were promised is not enough.
    OverMaximum,
    /// Others leave already, for nobody, and what they hold is enough for it.
    RoomIsComing,
    /// Whatever may leave the node that it requires, it would not fit there.
    NotOnItsNode,
    /// Its application does not run yet, and as many do as may.
    MayNotStart,
    /// It waits until another is placed, for which something was taken from its application.
    GivesWay,
    /// There is no guarantee on its path.
    NoGuarantee,
    /// A queue on its path bars it, or is at its maximum, and all below that is its own leaf.
    AtItsFence {
        /// The queue.
        queue: Arc<str>,
    },
    /// It does not fit what is left of the guarantee.
    BeyondGuarantee,
    /// Nothing may be taken from anybody.
    NoCandidates,
    /// No node has enough that may be taken.
    NoNode,
    /// No node has, but some that would do are reserved by asks for which victims leave. This is no
    /// try in vain: it may try again as soon as one of these is placed.
    NodesArePromised,
    /// The RM refused every node that would do.
    Refused,
    /// The RM let it have too little room.
    Short,
    /// It fits without any victim.
    NotNeeded,
    /// Its application would get back what it lost to another a moment ago.
    Loop {
        /// The other application.
        with: Arc<str>,
    },
    /// What was planned had changed before it could be done, again and again.
    Stale(Stale),
}

/// How often a plan is made anew at once because it was out of date, before that counts as a try in
/// vain.
pub const PLANNED_ANEW: u32 = 3;

/// What of a plan is no longer so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stale {
    /// A victim is gone, leaves, or may not be taken any more.
    Victim,
    /// A node is gone, closed, reserved by another, or does not suit any more.
    Node,
    /// A queue would fall below its guarantee.
    Guarantee,
    /// What would be free is too little now.
    Room,
    /// There is room without any victim.
    NotNeeded,
}

impl fmt::Display for NoPreemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SwitchedOff => f.write_str("preemption is switched off in this partition"),
            Self::MayNotPreempt => f.write_str("its policy does not allow it to preempt others"),
            Self::HasPreempted => f.write_str("victims are leaving for it already"),
            Self::RequiresNode => f.write_str("it requires a node, and may only take room there"),
            Self::StartFailed => {
                f.write_str("its last start failed, and it takes nothing from others before one succeeds")
            }
            Self::TooYoung { .. } => f.write_str("it has not waited for the preemption delay yet"),
            Self::TriedLately { .. } => f.write_str("it has looked for victims a moment ago, and does so once in 15 seconds"),
            Self::NothingChanged => f.write_str("nothing has changed since it was tried in vain"),
            Self::OverLimits => f.write_str("the limits of its user or group leave too little for it"),
            Self::OverMaximum => f.write_str("a queue on its path leaves too little for it"),
            Self::RoomIsComing => f.write_str(
                "others are leaving already whose room nobody was promised, and it is enough",
            ),
            Self::NotOnItsNode => f.write_str(
                "whatever may leave the node that it requires, it would not fit there: others are more \
                 important, require that node, too, hold too little, or stayed a moment ago",
            ),
            Self::MayNotStart => {
                f.write_str("its application does not run yet, and as many run as may")
            }
            Self::GivesWay => f.write_str(
                "something was taken from its application for another, which is still to be placed",
            ),
            Self::NoGuarantee => f.write_str("neither its queue nor one above it is guaranteed anything"),
            Self::AtItsFence { queue } => {
                write!(f, "queue `{queue}` is at its maximum or a fence, and nothing is below but its own")
            }
            Self::BeyondGuarantee => {
                f.write_str("it does not fit what its queue has left of the guarantee")
            }
            Self::NoCandidates => f.write_str(
                "no allocation may be taken: others are within their guarantees, more important, \
                 protected, or stayed a moment ago",
            ),
            Self::NoNode => f.write_str("no node would have room for it, whatever may be taken there"),
            Self::NodesArePromised => f.write_str(
                "the nodes that would do are reserved by asks for which victims are leaving",
            ),
            Self::Refused => f.write_str("the resource manager refused every node that would do"),
            Self::Short => f.write_str("preemption would help, but leave it short of resources"),
            Self::NotNeeded => f.write_str("it fits without preemption"),
            Self::Loop { with } => write!(
                f,
                "its application would get back from application `{with}` what it lost a moment \
                 ago: they would take from each other in turns"
            ),
            Self::Stale(stale) => write!(f, "what was planned was no longer so: {stale}"),
        }
    }
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Victim => "a victim had left or may not be taken any more",
            Self::Node => "the node may not be used any more",
            Self::Guarantee => "a queue would have fallen below its guarantee",
            Self::Room => "there would have been too little room",
            Self::NotNeeded => "there is room without a victim",
        })
    }
}

/// For whom an allocation was preempted, and by which rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Grounds {
    /// A queue gets back what it is guaranteed.
    Guarantee {
        /// The application that asked.
        application: Arc<str>,
        /// The key of its ask; of a gang, none.
        key: Option<Arc<str>>,
        /// Namespace and name of its pod, where it is one.
        #[serde(default)]
        pod: Option<Arc<str>>,
        /// The queue.
        queue: Arc<str>,
    },
    /// An ask needs the node on which it was.
    RequiredNode {
        /// The application that asked.
        application: Arc<str>,
        /// The key of its ask.
        key: Arc<str>,
        /// Namespace and name of its pod, where it is one.
        #[serde(default)]
        pod: Option<Arc<str>>,
        /// The node.
        node: Arc<str>,
    },
    /// A queue was above its maximum.
    Quota {
        /// The queue.
        queue: Arc<str>,
    },
}

impl fmt::Display for Grounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guarantee { application, key: Some(key), pod, queue } => write!(
                f,
                "preempted for {} of application `{application}`: queue `{queue}` takes \
                 back what it is guaranteed",
                Who { key, pod: pod.as_deref() }
            ),
            Self::Guarantee { application, key: None, queue, .. } => write!(
                f,
                "preempted for the gang of application `{application}`: queue `{queue}` takes back \
                 what it is guaranteed"
            ),
            Self::RequiredNode { application, key, pod, node } => write!(
                f,
                "preempted for {} of application `{application}`, which runs on node `{node}` only",
                Who { key, pod: pod.as_deref() }
            ),
            Self::Quota { queue } => {
                write!(f, "preempted because queue `{queue}` is above its maximum")
            }
        }
    }
}

/// An ask as people know it.
struct Who<'a> {
    key: &'a str,
    pod: Option<&'a str>,
}

impl fmt::Display for Who<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pod {
            Some(pod) => write!(f, "pod `{pod}`"),
            None => write!(f, "ask `{}`", self.key),
        }
    }
}
