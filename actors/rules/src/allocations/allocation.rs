//! An allocation, or a placement that is still to become one.
//!
//! The identity towards an RM is (application, UUID); two applications may use equal keys.

use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::course::Course;
use super::grounds::Grounds;
use crate::specs::ask::{AskSpec, Form};
use crate::values::ids::{AllocationId, ApplicationSlot, NodeSlot};
use crate::values::rare::{Nothing, Rare};
use crate::values::resources::Resources;
use crate::values::usual::is_usual;

/// Why the scheduler has asked the RM to end an allocation. It asks once; until the RM confirms the
/// end, the allocation keeps its amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leaving {
    /// Its deadline has passed, or a member replaces it.
    Released,
    /// It is preempted.
    Preempted,
}

/// The part of an allocation in the replacement of a placeholder. A placeholder and the real
/// allocation that replaces it refer to each other, until the RM has confirmed the end of the
/// placeholder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pairing {
    /// No part.
    #[default]
    None,
    /// A placeholder, and the allocation that replaces it.
    GivesWay(AllocationId),
    /// The allocation replaces this placeholder. On the placeholder's node it holds nothing of its
    /// own yet; on another node it already holds its amount there.
    Takes {
        /// The placeholder.
        placeholder: AllocationId,
        /// The allocation stays on the placeholder's node, and uses the placeholder's capacity.
        in_place: bool,
    },
    /// The allocation belongs to a bundle whose members all have nodes. It waits until the RM's
    /// predicates have passed for every member.
    InBundle,
    /// The allocation has replaced a placeholder that was created at this time, ns since the epoch.
    Took {
        /// Creation time of the placeholder's ask, as its RM stated it.
        created_ns: i64,
    },
}

/// The relation of a placement to allocations on other nodes, in *topics*: numbers that the RM
/// chooses. A placement may change an answer about another node if it affects a topic on which that
/// answer depends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elsewhere {
    /// The topics that the answer depends on.
    pub depends_on: Vec<u64>,
    /// The topics that the placement affects, when it is made and when it ends.
    pub affects: Vec<u64>,
}

/// An allocation, a placement that waits for the RM's predicate, or one that waits for the
/// placeholder that it replaces. It dereferences to its [`Circumstances`], the attributes that most
/// allocations do not have.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Allocation {
    /// The application that it belongs to.
    pub application: ApplicationSlot,
    /// The node that it is on.
    pub node: NodeSlot,
    /// The specification, with the amount that this allocation holds. The ask may request another
    /// amount since; an allocation that is reported with another amount gets its own specification.
    pub spec: Arc<AskSpec>,
    /// The allocation's own name within the application; the key of the ask until it is settled.
    pub uuid: Arc<str>,
    /// Creation time of the ask, or its arrival if that is earlier, ns since the epoch. Orders
    /// allocations by age.
    pub created_ns: i64,
    /// The time at which the allocation was made on its node, ns since the epoch.
    pub bound_ns: i64,
    /// Whether its RM counts it as running on its node without having been notified of it as an
    /// allocation.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub is_assumed: bool,
    /// Whether it ran before its RM reported it, so that `bound_ns` is the time of the report.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub ran_before: bool,
    /// Attributes that most allocations do not have.
    #[serde(default, skip_serializing_if = "Rare::is_nothing")]
    pub circumstances: Rare<Circumstances>,
}

/// Attributes that most allocations do not have.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Circumstances {
    /// The question whose answer it waits for; `None` once it is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<u64>,
    /// The scheduler has asked the RM to end it and waits for the confirmation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaving: Option<Leaving>,
    /// The preemptor, and the rule by which it is preempted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preempted_for: Option<Arc<Grounds>>,
    /// The time until which an allocation is not preempted again, ns since the epoch. Set when it
    /// was preempted and its RM reported that it stays.
    pub stays_until_ns: i64,
    /// The part in the replacement of a placeholder.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub pairing: Pairing,
    /// The number of the deadline that ends it, while one is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<u64>,
    /// The relation to other nodes, if the RM stated one. `None`: it may affect any answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<Arc<Elsewhere>>,
    /// The times of a traced placement, until it is reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<Box<Course>>,
}

impl Circumstances {
    const NONE: Self = Self {
        question: None,
        leaving: None,
        preempted_for: None,
        stays_until_ns: i64::MIN,
        pairing: Pairing::None,
        deadline: None,
        elsewhere: None,
        course: None,
    };
}

impl Default for Circumstances {
    fn default() -> Self {
        Self::NONE
    }
}

impl Nothing for Circumstances {
    const NOTHING: &'static Self = &Self::NONE;
}

impl Deref for Allocation {
    type Target = Circumstances;

    fn deref(&self) -> &Circumstances {
        &self.circumstances
    }
}

impl Allocation {
    /// Builds an allocation that is made now on a node. Its name is the key of the ask until it
    /// gets another.
    pub fn new(
        application: ApplicationSlot,
        spec: Arc<AskSpec>,
        node: NodeSlot,
        created_ns: i64,
        now_ns: i64,
    ) -> Self {
        Self {
            application,
            node,
            uuid: Arc::clone(&spec.key),
            spec,
            created_ns,
            bound_ns: now_ns,
            is_assumed: false,
            ran_before: false,
            circumstances: Rare::default(),
        }
    }

    /// Returns the creation time of the ask as its RM stated it, ns since the epoch. It is only
    /// shown, since it may be in the future.
    pub fn stated_creation_ns(&self) -> i64 {
        self.spec.created_ns.unwrap_or(self.created_ns)
    }

    /// Mutable access to the circumstances.
    pub fn change(&mut self) -> &mut Circumstances {
        self.circumstances.make()
    }

    /// Marks the allocation as preempted, until its RM confirms its end or reports that it stays.
    pub fn preempt(&mut self, grounds: &Arc<Grounds>) {
        let circumstances = self.change();
        circumstances.leaving = Some(Leaving::Preempted);
        circumstances.preempted_for = Some(Arc::clone(grounds));
    }

    /// Records that the allocation stays although it was preempted, and protects it until
    /// `until_ns`, ns since the epoch. Returns whether it was preempted.
    pub fn stay(&mut self, until_ns: i64) -> bool {
        let was_preempted = self.leaving == Some(Leaving::Preempted);
        if was_preempted {
            let circumstances = self.change();
            (circumstances.leaving, circumstances.preempted_for) = (None, None);
            circumstances.stays_until_ns = until_ns;
        }
        was_preempted
    }

    /// Records that its question is answered.
    pub fn answered(&mut self) {
        if let Some(circumstances) = self.circumstances.find_mut() {
            circumstances.question = None;
        }
    }

    /// Sets the times of this placement, if it is traced.
    pub fn follow(&mut self, course: Option<Box<Course>>) {
        if course.is_some() {
            self.change().course = course;
        }
    }

    /// Returns the times of a traced placement, to be continued.
    pub fn course_mut(&mut self) -> Option<&mut Course> {
        self.circumstances.find_mut()?.course.as_deref_mut()
    }

    /// Takes the times of a traced placement, to be reported.
    pub fn take_course(&mut self) -> Option<Box<Course>> {
        self.circumstances.find_mut()?.course.take()
    }

    /// The RM's key of the ask.
    pub fn key(&self) -> &Arc<str> {
        &self.spec.key
    }

    /// The amount that it holds.
    pub fn resources(&self) -> &Resources {
        &self.spec.resources
    }

    /// The placeholder that it replaces, until that has ended.
    pub fn takes(&self) -> Option<AllocationId> {
        match self.pairing {
            Pairing::Takes { placeholder, .. } => Some(placeholder),
            _ => None,
        }
    }

    /// The allocation that replaces it, if it is a placeholder.
    pub fn gives_way_to(&self) -> Option<AllocationId> {
        match self.pairing {
            Pairing::GivesWay(real) => Some(real),
            _ => None,
        }
    }

    /// Whether it holds a place for a member of a declared gang. Its RM does not know of it.
    pub fn is_hold(&self) -> bool {
        self.spec.form == Form::Internal
    }

    /// Sort key among held places: the newest has the greatest.
    pub fn newness(&self) -> impl Ord + '_ {
        // Names of places held for one group end in their numbers.
        (self.bound_ns, self.uuid.len(), &*self.uuid)
    }

    /// Whether it is an allocation that the RM was notified of: it waits neither for a predicate
    /// nor for a placeholder to end.
    pub fn is_booked(&self) -> bool {
        self.question.is_none() && self.takes().is_none() && !self.is_in_bundle()
    }

    /// Whether it waits for the predicates of the other members of its bundle.
    pub fn is_in_bundle(&self) -> bool {
        self.pairing == Pairing::InBundle
    }

    /// The amount that it holds on its node now; `None` while it uses the capacity of its
    /// placeholder.
    pub fn held_on_node(&self) -> Option<&Resources> {
        match self.pairing {
            Pairing::Takes { in_place: true, .. } => None,
            _ => Some(self.resources()),
        }
    }

    /// Sets the amount that it holds.
    pub fn resize(&mut self, to: Resources) {
        Arc::make_mut(&mut self.spec).resources = Arc::new(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_preempted_allocation_can_stay() {
        let spec = Arc::new(AskSpec::new("a", Resources::of(&[("vcore", 1)])));
        let (application, node) = (ApplicationSlot::at(0), NodeSlot::at(0));
        let mut allocation = Allocation::new(application, spec, node, 0, 0);
        assert!(!allocation.stay(9));
        let grounds = Arc::new(Grounds::Quota { queue: Arc::from("root.a") });
        allocation.preempt(&grounds);
        assert_eq!(allocation.leaving, Some(Leaving::Preempted));
        assert!(allocation.preempted_for.is_some() && allocation.stay(9));
        assert!(allocation.leaving.is_none() && allocation.preempted_for.is_none());
        assert_eq!(allocation.stays_until_ns, 9);
    }
}
