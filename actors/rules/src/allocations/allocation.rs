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

/// Why the scheduler has asked the RM to end an allocation. It has asked once; until the RM
/// confirms it, the allocation holds what it held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// Its deadline has passed, or a member takes its place.
    Released,
    /// Preemption.
    Preempted,
}

/// The part of an allocation in the replacement of a placeholder. A placeholder and the real
/// allocation that takes its place name each other, until the RM has confirmed that the placeholder
/// is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pairing {
    /// No part.
    #[default]
    None,
    /// A placeholder: this one takes its place.
    GivesWay(AllocationId),
    /// The allocation takes the place of this placeholder. It holds nothing yet; on its way to
    /// another node, it holds its amount on that node alone.
    Takes {
        /// The placeholder.
        placeholder: AllocationId,
        /// The allocation stays on the placeholder's node, in the placeholder's capacity.
        in_place: bool,
    },
    /// The allocation belongs to a bundle that has places, and waits until the RM's predicates have
    /// passed for all of it.
    InBundle,
    /// The allocation has taken the place of a placeholder that was created then, ns since the
    /// epoch.
    Took {
        /// Creation time of the placeholder's ask, as its RM stated it.
        created_ns: i64,
    },
}

/// The relation of a placement to allocations on other nodes, in numbers of the RM's own choice,
/// *topics*. One that both a placement affects and an answer depends on is where the one matters to
/// the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elsewhere {
    /// The topics that the answer depends on.
    pub depends_on: Vec<u64>,
    /// The topics that the placement affects, when it is made and when it ends.
    pub affects: Vec<u64>,
}

/// An allocation, a placement that waits for the RM's predicate, or one that waits for the
/// placeholder whose place it takes. Attributes that most lack are in its [`Circumstances`], to
/// which it dereferences.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// The application that it belongs to.
    pub application: ApplicationSlot,
    /// The node that it is on.
    pub node: NodeSlot,
    /// The specification, with the amount that this allocation holds: the ask may want another by
    /// now, and one that is reported in another size gets a specification of its own.
    pub spec: Arc<AskSpec>,
    /// The allocation's own name within the application; the key until it is settled.
    pub uuid: Arc<str>,
    /// Creation time of the ask, or its arrival where that is earlier, ns since the epoch. Orders
    /// allocations by age.
    pub created_ns: i64,
    /// When it was bound, ns since the epoch.
    pub bound_ns: i64,
    /// Its RM counts it as running on its node, and was not notified of it as an allocation (yet).
    pub is_assumed: bool,
    /// Attributes that most allocations do not have.
    pub circumstances: Rare<Circumstances>,
}

/// Attributes that most allocations do not have.
#[derive(Clone, Debug)]
pub struct Circumstances {
    /// The question whose answer it waits for; `None` once it is settled.
    pub question: Option<u64>,
    /// The scheduler has asked the RM to end it and waits for the confirmation.
    pub leaving: Option<Leaving>,
    /// The preemptor, and the rule by which it is preempted.
    pub preempted_for: Option<Arc<Grounds>>,
    /// The time until which the allocation is not preempted again, ns since the epoch: it was told
    /// to end, and its RM reported that it stays.
    pub stays_until_ns: i64,
    /// The part in the replacement of a placeholder.
    pub pairing: Pairing,
    /// The deadline that ends it, while one is set.
    pub deadline: Option<u64>,
    /// The relation to other nodes, as far as the RM stated it; `None`: it may affect anything.
    pub elsewhere: Option<Arc<Elsewhere>>,
    /// The times of a traced placement, until it is reported.
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
    /// An allocation that is made now on a node. Its name is the key of the ask until it gets
    /// another.
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
            circumstances: Rare::default(),
        }
    }

    /// Creation time of the ask as its RM stated it, ns since the epoch: for people, since it may
    /// lie ahead.
    pub fn stated_creation_ns(&self) -> i64 {
        self.spec.created_ns.unwrap_or(self.created_ns)
    }

    /// Mutable access to the circumstances.
    pub fn change(&mut self) -> &mut Circumstances {
        self.circumstances.make()
    }

    /// Marks the allocation as preempted, until its RM confirms that it is gone or says that it stays.
    pub fn preempt(&mut self, grounds: &Arc<Grounds>) {
        let circumstances = self.change();
        circumstances.leaving = Some(Leaving::Preempted);
        circumstances.preempted_for = Some(Arc::clone(grounds));
    }

    /// Records that the allocation stays although it was preempted, and protects it until that time, ns
    /// since the epoch. Returns whether it was preempted.
    pub fn stay(&mut self, until_ns: i64) -> bool {
        let was_preempted = self.leaving == Some(Leaving::Preempted);
        if was_preempted {
            let circumstances = self.change();
            (circumstances.leaving, circumstances.preempted_for) = (None, None);
            circumstances.stays_until_ns = until_ns;
        }
        was_preempted
    }

    /// Records that the answer to its question has come.
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

    /// The placeholder whose place it takes, as long as that is still there.
    pub fn takes(&self) -> Option<AllocationId> {
        match self.pairing {
            Pairing::Takes { placeholder, .. } => Some(placeholder),
            _ => None,
        }
    }

    /// The allocation that takes its place, of a placeholder.
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
        // Names of places of a group end in their numbers.
        (self.bound_ns, self.uuid.len(), &*self.uuid)
    }

    /// Whether it is an allocation that the RM was notified of: it waits neither for a predicate
    /// nor for a placeholder to end.
    pub fn is_booked(&self) -> bool {
        self.question.is_none() && self.takes().is_none() && !self.is_in_bundle()
    }

    /// Whether it waits for the predicates of others, too.
    pub fn is_in_bundle(&self) -> bool {
        self.pairing == Pairing::InBundle
    }

    /// The amount that it holds on its node now; `None` while it shares the node of its
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
