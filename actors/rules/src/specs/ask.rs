//! The specification of an ask, as the RM sent it: one value, shared by the ask and its
//! allocations.
//!
//! # Why shared
//! An ask, its allocations and the RM's notifications of them have the same content: key, amount,
//! priority, tags and so on. All of them hold one [`AskSpec`] behind an `Arc`, so that an attribute
//! is written once, on arrival, and read wherever it matters. Values that may differ from one
//! holder to another (outstanding number, name, time) are in the holders.

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
use crate::values::usual::is_usual;

/// The specification of an ask, as the RM sent it. Attributes that few asks have are in its
/// [`Particulars`], to which it dereferences.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AskSpec {
    /// The RM's key, unique within the application.
    pub key: Arc<str>,
    /// The amount of each allocation. Many asks share one value.
    pub resources: Arc<Resources>,
    /// The number of requested allocations.
    pub instances: u32,
    /// The priority; higher is more important.
    pub priority: i32,
    /// The creation time as the RM stated it, ns since the epoch; `None`: the arrival counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_ns: Option<i64>,
    /// Whether it is the driver or first task of its application.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub originator: bool,
    /// Whether it may be preempted, and may preempt others.
    pub preemption: Preemption,
    /// Whether it is a placeholder for a member of its task group; it then has a task group.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub placeholder: bool,
    /// The kind of message in which the RM sent it, which decides its answer.
    pub form: Form,
    /// The tags as sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Tags>,
    /// Attributes that few asks have.
    #[serde(default, skip_serializing_if = "Rare::is_nothing")]
    pub particulars: Rare<Particulars>,
}

/// Attributes that few asks have.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Particulars {
    /// The only node that may be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_node: Option<Arc<str>>,
    /// The task group of which it is a member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_group: Option<TaskGroup>,
    /// The running time after which each of its allocations is ended, ms; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_timeout_ms: Option<NonZeroU64>,
    /// The longest time that each of its allocations runs, as its RM claims, ms; `None`: no claim.
    /// Nothing ends because of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_time_limit_ms: Option<NonZeroU64>,
    /// The placement constraint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraint: Option<Arc<AskConstraint>>,
    /// The times of a traced ask. Not part of the request, and not serialized.
    #[serde(skip)] // a trace ends with its process
    pub arrival: Option<Box<Arrival>>,
}

impl Particulars {
    /// Returns the attributes as an ask stores them: nothing if none is set.
    pub fn kept(self) -> Rare<Self> {
        let Self {
            required_node,
            task_group,
            execution_timeout_ms,
            run_time_limit_ms,
            constraint,
            arrival,
        } = &self;
        let is_about_places = required_node.is_some() || constraint.is_some();
        let is_about_time = execution_timeout_ms.is_some() || run_time_limit_ms.is_some();
        let is_other = task_group.is_some() || arrival.is_some();
        if is_about_places || is_about_time || is_other { Rare::of(self) } else { Rare::default() }
    }
}

impl Nothing for Particulars {
    const NOTHING: &'static Self = &Self {
        required_node: None,
        task_group: None,
        execution_timeout_ms: None,
        run_time_limit_ms: None,
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

/// The kind of message in which an ask or allocation was sent, which decides its answer: see
/// `docs/applications.md#three-forms-of-asking`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Form {
    /// An `AllocationAsk`, which may be for several allocations. Each of them is answered.
    Ask,
    /// An `Allocation` with a UUID: it runs already. It is not answered, because its RM would start
    /// it again.
    Recovered,
    /// An internal ask, which no RM sent: the scheduler made it for a member of a declared gang
    /// that has no ask yet, and holds a place for the member. Its RM is never notified of it.
    Internal,
    /// An `Allocation` without a UUID. Without a node it asks for one allocation, with a node it
    /// reports one. In both cases it is answered.
    Unified,
}

/// The name of a task group.
pub type TaskGroup = Arc<String>;

impl AskSpec {
    /// Returns the task group whose member this internal ask holds a place for; `None` for all
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

    /// Returns its approximate memory in bytes. Of the attributes that may change later, only the
    /// tags matter.
    pub fn bytes(&self) -> u64 {
        let texts = self.key.len()
            + self.required_node.as_ref().map_or(0, |node| node.len())
            + self.task_group.as_ref().map_or(0, |group| group.len());
        let tags = self.tags.iter().map(|tags| quotas::bytes_of_texts(tags.iter())).sum::<u64>();
        let constraint = self.constraint.iter().map(|it| it.constraint().bytes()).sum::<u64>();
        quotas::ASK_BYTES + texts as u64 + tags + constraint
    }

    /// Whether a repeated request changes priority, policy or tags. Only one that has a policy can
    /// change these; without a policy, it changes only the size.
    pub fn is_restated_by(&self, said: &Self) -> bool {
        let differs = || {
            let (now, then) = ((self.priority, self.preemption), (said.priority, said.preemption));
            now != then || self.tags != said.tags
        };
        said.preemption.is_said() && differs()
    }

    /// Whether a request with the same key asks for the same: its tags are equal, and all
    /// attributes that decide whether and where it can be placed.
    pub(crate) fn is_repeated_by(self: &Arc<Self>, said: &Arc<Self>) -> bool {
        Shape::of(self, 0) == Shape::of(said, 0) && self.tags == said.tags
    }

    /// Takes over priority, policy and tags of a repeated request. Values that were read from the
    /// tags of the first request stay: node, creation time, constraint.
    pub fn restate(&mut self, said: &Self) {
        (self.priority, self.preemption) = (said.priority, said.preemption);
        self.tags.clone_from(&said.tags);
    }

    /// Returns the creation time that decisions use, for an ask that arrived at `arrived_ns`: the
    /// stated one, but never later than the arrival. Otherwise an ask of an RM whose clock is ahead
    /// would never be old enough.
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

    /// Returns namespace and name of the pod that asks, as `NAMESPACE/NAME`; `None` if the ask is
    /// not for a pod.
    pub fn pod(&self) -> Option<&Arc<str>> {
        self.tags.as_ref().and_then(|tags| tags.pod())
    }

    /// Returns the task group, if it is a placeholder.
    #[inline]
    pub fn place_in(&self) -> Option<&TaskGroup> {
        self.task_group.as_ref().filter(|_| self.placeholder)
    }

    /// Returns the task group, if it is a real member, which may replace a placeholder.
    #[inline]
    pub fn member_of(&self) -> Option<&TaskGroup> {
        self.task_group.as_ref().filter(|_| !self.placeholder)
    }
}

/// Whether an ask may be preempted, and whether it may preempt others. One byte, since every ask
/// has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Preemption {
    /// It may not be preempted, and may not preempt others.
    Neither,
    /// It may be preempted, and may not preempt others.
    #[default]
    Itself,
    /// It may preempt others, and may not be preempted.
    Others,
    /// It may be preempted, and may preempt others.
    Both,
    /// No policy was sent: it may be preempted, and may not preempt others.
    Unsaid,
    /// No policy was sent, and a tag forbids that it is preempted.
    UnsaidAndTagged,
}

impl Preemption {
    /// Builds the policy from the two flags of the interface.
    pub fn new(itself: bool, others: bool) -> Self {
        match (itself, others) {
            (false, false) => Self::Neither,
            (true, false) => Self::Itself,
            (false, true) => Self::Others,
            (true, true) => Self::Both,
        }
    }

    /// Builds the policy of an ask that has none; only a tag may protect it.
    pub fn without_policy(itself: bool) -> Self {
        if itself { Self::Unsaid } else { Self::UnsaidAndTagged }
    }

    /// Whether a policy was sent.
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

/// The shape of a class: all attributes that decide whether and where one of its members can be
/// placed. It is read from the specification of one member; two shapes are equal if these
/// attributes are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shape {
    spec: Arc<AskSpec>,
    /// The sequence number of the ask, if it is alone in its class; 0 for all others.
    single: u64,
}

impl Shape {
    /// Returns the shape of an ask; `single` is its sequence number if it is alone in its class,
    /// else 0.
    pub(crate) fn of(spec: &Arc<AskSpec>, single: u64) -> Self {
        Self { spec: Arc::clone(spec), single }
    }

    /// The amount of each allocation.
    pub fn resources(&self) -> &Resources {
        &self.spec.resources
    }

    /// The priority; higher is more important.
    pub fn priority(&self) -> i32 {
        self.spec.priority
    }

    /// The only node that may be used.
    pub fn required_node(&self) -> Option<&Arc<str>> {
        self.spec.required_node.as_ref()
    }

    /// The task group whose placeholders its asks may replace.
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
        // Without particulars, the usual case, a shape has only these parts.
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
