//! The specification of an ask, as the RM sent it: one value, shared by the ask and its
//! allocations.
//!
//! # Why shared
//! An ask, its allocations and the RM's notifications of them have the same content: key, amount,
//! priority, tags and so on. All of them hold one [`AskSpec`] behind an `Arc`, so that an attribute
//! is written where it comes in and read where it matters, and nowhere else. Values that may differ
//! from one holder to another (outstanding number, name, time) are the holder's own.

use std::hash::{Hash, Hasher};
use std::num::NonZeroU64;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::specs::arrival::Arrival;
use crate::specs::constraint::AskConstraint;
use crate::specs::quotas;
use crate::specs::tags::Tags;
use crate::values::rare::{Nothing, Rare};
use crate::values::resources::Resources;

/// The specification of an ask, as the RM sent it. Attributes that few asks have are in its
/// [`Particulars`], to which it dereferences.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AskSpec {
    /// The RM's key, unique within the application.
    pub key: Arc<str>,
    /// The amount of each allocation. Many asks share one.
    pub resources: Arc<Resources>,
    /// The number of allocations that are wanted.
    pub instances: u32,
    /// Higher is more important.
    pub priority: i32,
    /// Creation time as the RM stated it, ns since the epoch; `None`: the arrival.
    pub created_ns: Option<i64>,
    /// Whether it is the driver or first task of its application.
    pub originator: bool,
    /// The preemption policy.
    pub preemption: Preemption,
    /// Whether it is a placeholder for a member of its task group, which it then has.
    pub placeholder: bool,
    /// The kind of message in which the RM sent it, which decides its answer.
    pub form: Form,
    /// The tags as sent.
    pub tags: Option<Tags>,
    /// Attributes that few asks have.
    #[serde(default)]
    pub particulars: Rare<Particulars>,
}

/// Attributes that few asks have.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Particulars {
    /// The only node that may be used.
    pub required_node: Option<Arc<str>>,
    /// The task group it is a member of.
    pub task_group: Option<TaskGroup>,
    /// The running time after which each allocation is ended, ms; `None`: never.
    pub execution_timeout_ms: Option<NonZeroU64>,
    /// The placement constraint.
    #[serde(default)]
    pub constraint: Option<Arc<AskConstraint>>,
    /// Times of a traced ask. Not part of the request, and not serialized.
    #[serde(skip)]
    pub arrival: Option<Box<Arrival>>,
}

impl Particulars {
    /// Returns the form in which an ask keeps them: nothing if no attribute is set.
    pub fn kept(self) -> Rare<Self> {
        let Self { required_node, task_group, execution_timeout_ms, constraint, arrival } = &self;
        let is_about_places = required_node.is_some() || constraint.is_some();
        let is_other = task_group.is_some() || execution_timeout_ms.is_some() || arrival.is_some();
        if is_about_places || is_other { Rare::of(self) } else { Rare::default() }
    }
}

impl Nothing for Particulars {
    const NOTHING: &'static Self = &Self {
        required_node: None,
        task_group: None,
        execution_timeout_ms: None,
        constraint: None,
        arrival: None,
    };
}

impl Deref for AskSpec {
    type Target = Particulars;

    fn deref(&self) -> &Particulars {
        &self.particulars
    }
}

/// The form in which an ask or allocation came in, which decides its answer: see
/// `docs/applications.md#three-forms-of-asking`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Form {
    /// An `AllocationAsk`, which may be for several allocations. Each of them is answered.
    Ask,
    /// An `Allocation` with a UUID: it runs already, and is not answered, because its RM would
    /// start it again.
    Recovered,
    /// An internal ask, which no RM sent: the scheduler asks for a member of a declared gang whose
    /// own ask is missing, and holds a place for it. Its RM is never notified of it.
    Internal,
    /// An `Allocation` without a UUID. Without a node it asks for one allocation, with a node it
    /// reports one; either way it is answered.
    Unified,
}

/// The name of a task group.
pub type TaskGroup = Arc<String>;

impl AskSpec {
    /// Returns the task group of the member for which this internal ask holds a place; `None` for
    /// other asks.
    pub fn holds_for(&self) -> Option<&str> {
        let group = self.task_group.as_deref().filter(|_| self.form == Form::Internal);
        group.map(String::as_str)
    }

    /// Builds an ask for one allocation of this amount, with defaults for everything else.
    pub fn new(key: impl Into<Arc<str>>, resources: impl Into<Arc<Resources>>) -> Self {
        Self {
            key: key.into(),
            resources: resources.into(),
            instances: 1,
            priority: 0,
            created_ns: None,
            originator: false,
            preemption: Preemption::default(),
            placeholder: false,
            form: Form::Ask,
            tags: None,
            particulars: Rare::default(),
        }
    }

    /// Returns the ask with changed particulars.
    ///
    /// ```
    /// use monoceros_rules::specs::ask::AskSpec;
    /// use monoceros_rules::values::resources::Resources;
    /// let ask = AskSpec::new("a", Resources::new()).with(|it| it.required_node = Some("n1".into()));
    /// assert_eq!(ask.required_node.as_deref(), Some("n1"));
    /// ```
    #[must_use]
    pub fn with(mut self, say: impl FnOnce(&mut Particulars)) -> Self {
        say(self.particulars.make());
        self
    }

    /// Returns its memory, bytes, about. Of all that may change later only the tags matter.
    pub fn bytes(&self) -> u64 {
        let texts = self.key.len()
            + self.required_node.as_ref().map_or(0, |node| node.len())
            + self.task_group.as_ref().map_or(0, |group| group.len());
        let tags = self.tags.iter().map(|tags| quotas::bytes_of_texts(tags.iter())).sum::<u64>();
        let constraint = self.constraint.iter().map(|it| it.constraint().bytes()).sum::<u64>();
        quotas::ASK_BYTES + texts as u64 + tags + constraint
    }

    /// Whether a repetition changes priority, policy or tags. Only one with a policy can change
    /// these; without, it is about the size alone.
    pub fn is_restated_by(&self, said: &Self) -> bool {
        let differs = || {
            let (now, then) = ((self.priority, self.preemption), (said.priority, said.preemption));
            now != then || self.tags != said.tags
        };
        said.preemption.is_said() && differs()
    }

    /// Whether a request with the same key asks for the same: equal in tags and in everything that
    /// decides whether and where it can be placed.
    pub(crate) fn is_repeated_by(self: &Arc<Self>, said: &Arc<Self>) -> bool {
        Shape::of(self, 0) == Shape::of(said, 0) && self.tags == said.tags
    }

    /// Takes over priority, policy and tags of a repetition. Values read from the tags of the first
    /// request stay: node, creation time, constraint.
    pub fn restate(&mut self, said: &Self) {
        (self.priority, self.preemption) = (said.priority, said.preemption);
        self.tags.clone_from(&said.tags);
    }

    /// Returns the creation time as decisions count it, for an ask that arrived then: the stated
    /// one, but never later than the arrival. Otherwise an ask of an RM whose clock is ahead would
    /// never be old enough.
    ///
    /// ```
    /// use monoceros_rules::specs::ask::AskSpec;
    /// use monoceros_rules::values::resources::Resources;
    /// let ask = AskSpec { created_ns: Some(70), ..AskSpec::new("a", Resources::new()) };
    /// assert_eq!((ask.counted_creation_ns(100), ask.counted_creation_ns(50)), (70, 50));
    /// ```
    pub fn counted_creation_ns(&self, arrived_ns: i64) -> i64 {
        self.created_ns.map_or(arrived_ns, |stated| stated.min(arrived_ns))
    }

    /// Returns namespace and name of the pod that asks, as `NAMESPACE/NAME`; `None` if it is no
    /// pod.
    pub fn pod(&self) -> Option<&Arc<str>> {
        self.tags.as_ref().and_then(|tags| tags.pod())
    }

    /// Returns the task group of a placeholder.
    #[inline]
    pub fn place_in(&self) -> Option<&TaskGroup> {
        self.task_group.as_ref().filter(|_| self.placeholder)
    }

    /// Returns the task group in which a real member takes a placeholder's place.
    #[inline]
    pub fn member_of(&self) -> Option<&TaskGroup> {
        self.task_group.as_ref().filter(|_| !self.placeholder)
    }
}

/// Whether an ask may be preempted, and whether it may preempt others. One byte, since every ask
/// has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Preemption {
    /// Neither.
    Neither,
    /// The ask may be preempted.
    #[default]
    Itself,
    /// The ask may preempt others.
    Others,
    /// Both.
    Both,
    /// No policy was sent: it may be preempted.
    Unsaid,
    /// No policy was sent, and by its tag it may not be preempted.
    UnsaidAndTagged,
}

impl Preemption {
    /// Builds the policy as the interface has it.
    pub fn new(itself: bool, others: bool) -> Self {
        match (itself, others) {
            (false, false) => Self::Neither,
            (true, false) => Self::Itself,
            (false, true) => Self::Others,
            (true, true) => Self::Both,
        }
    }

    /// Builds the policy of an ask without one, which only a tag may protect.
    pub fn without_policy(itself: bool) -> Self {
        if itself { Self::Unsaid } else { Self::UnsaidAndTagged }
    }

    /// Whether there is a policy.
    pub fn is_said(self) -> bool {
        !matches!(self, Self::Unsaid | Self::UnsaidAndTagged)
    }

    /// Whether it may be preempted.
    pub fn of_itself(self) -> bool {
        matches!(self, Self::Itself | Self::Both | Self::Unsaid)
    }

    /// Whether it may preempt others.
    pub fn of_others(self) -> bool {
        matches!(self, Self::Others | Self::Both)
    }
}

/// The shape of a class: everything that decides whether and where one of its members can be
/// placed. It is read off the specification of one member; two shapes are equal if these parts are.
#[derive(Clone, Debug)]
pub struct Shape {
    spec: Arc<AskSpec>,
    /// The sequence number of an ask that was singled out; 0 for all others.
    single: u64,
}

impl Shape {
    /// The shape of an ask; `single` is its sequence number where it is alone in its class, else 0.
    pub(crate) fn of(spec: &Arc<AskSpec>, single: u64) -> Self {
        Self { spec: Arc::clone(spec), single }
    }

    /// The amount of each allocation.
    pub fn resources(&self) -> &Resources {
        &self.spec.resources
    }

    /// Higher is more important.
    pub fn priority(&self) -> i32 {
        self.spec.priority
    }

    /// The only node that may be used.
    pub fn required_node(&self) -> Option<&Arc<str>> {
        self.spec.required_node.as_ref()
    }

    /// The task group in which its asks take a placeholder's place.
    pub fn member_of(&self) -> Option<&TaskGroup> {
        self.spec.member_of()
    }

    fn parts(&self) -> impl Hash + Eq + '_ {
        let group = self.spec.task_group.as_ref();
        let (placeholder, constraint) = (self.spec.placeholder, self.spec.constraint.as_deref());
        let named = (self.required_node(), group, constraint);
        let may_preempt = self.spec.preemption.of_others();
        (self.resources(), self.priority(), named, placeholder, may_preempt, self.single)
    }
}

impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        // Without particulars, the usual case, these are all of its parts.
        let (spec, others) = (&*self.spec, &*other.spec);
        let is_plain = !spec.particulars.is_there() && !others.particulars.is_there();
        if is_plain {
            return spec.resources == others.resources
                && (spec.priority, spec.placeholder, self.single)
                    == (others.priority, others.placeholder, other.single)
                && spec.preemption.of_others() == others.preemption.of_others();
        }
        self.parts() == other.parts()
    }
}

impl Eq for Shape {}

impl Hash for Shape {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}
