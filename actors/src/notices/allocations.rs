//! Allocations that were made or ended, and asks that ended.

use std::borrow::Cow;
use std::sync::Arc;

use monoceros_rules::allocations::Allocation;
use monoceros_rules::allocations::course::Course;
use monoceros_rules::applications::application::Application as Book;
use monoceros_rules::specs::ask::{AskSpec, Form};
use monoceros_rules::values::ids::AllocationId;

/// Owner of an ask or an allocation: its application, with queue, user and group.
///
/// # Why
/// Each ask and each decision is sent to another thread. Four names are four reference counts,
/// which both threads change, so that they travel between processors; an owner has one.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) application: Arc<str>,
    /// Path of the application's leaf.
    pub(crate) queue: Arc<str>,
    pub(crate) user: Arc<str>,
    /// The group that the application counts for, if it does for one.
    pub(crate) group: Option<Arc<str>>,
}

impl Owner {
    /// The owner of the asks and allocations of this application, while it counts for this group.
    pub(crate) fn of(book: &Book, group: Option<Arc<str>>) -> Self {
        Self {
            application: Arc::clone(&book.id),
            queue: Arc::clone(&book.queue),
            user: Arc::clone(&book.user),
            group,
        }
    }
}

/// An allocation that exists from now on.
#[derive(Debug)]
pub(crate) struct Allocated {
    pub(crate) owner: Arc<Owner>,
    /// The specification of the ask, with the allocated amount.
    pub(crate) spec: Arc<AskSpec>,
    pub(crate) uuid: Arc<str>,
    pub(crate) node: Arc<str>,
    /// ns since the epoch.
    pub(crate) at_ns: i64,
    /// Times of the placement on its way here; `None` unless the placement is traced.
    pub(crate) course: Option<Box<(AllocationId, Course)>>,
}

/// Cause of the end of an allocation or ask, as reported to the RM: it decides the termination type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    StoppedByRm,
    Timeout,
    Replaced,
    Preempted,
}

/// Message of a release that the RM asked for itself.
pub(crate) const RELEASED_BY_RM: &str = "released by the resource manager";

/// An allocation that ends.
#[derive(Debug)]
pub(crate) struct Released {
    pub(crate) application: Arc<str>,
    /// The form in which its ask, or the allocation itself, was received.
    pub(crate) form: Form,
    pub(crate) key: Arc<str>,
    pub(crate) uuid: Arc<str>,
    pub(crate) ending: Ending,
    pub(crate) message: Cow<'static, str>,
    /// The allocation that replaces this one, if it is a placeholder.
    pub(crate) replaced_by: Option<Successor>,
}

/// An allocation that replaces a placeholder.
#[derive(Debug)]
pub(crate) struct Successor {
    /// The key of its ask.
    pub(crate) key: Arc<str>,
    /// The id of the node on which it will run.
    pub(crate) node: Arc<str>,
}

/// A pending ask that ends.
#[derive(Debug)]
pub(crate) struct AskReleased {
    pub(crate) form: Form,
    pub(crate) key: Arc<str>,
    pub(crate) application: Arc<str>,
    pub(crate) ending: Ending,
    pub(crate) message: &'static str,
}

impl Released {
    /// The end of an allocation of an application.
    pub(crate) fn of(
        application: &Arc<str>,
        entry: &Allocation,
        ending: Ending,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            application: Arc::clone(application),
            form: entry.spec.form,
            key: Arc::clone(entry.key()),
            uuid: Arc::clone(&entry.uuid),
            ending,
            message: message.into(),
            replaced_by: None,
        }
    }

    /// The end of an allocation that the RM reported as existing, and released before the
    /// application had taken it.
    pub(crate) fn of_waiting(application: &Arc<str>, spec: &AskSpec, uuid: &Arc<str>) -> Self {
        Self {
            application: Arc::clone(application),
            form: spec.form,
            key: Arc::clone(&spec.key),
            uuid: Arc::clone(uuid),
            ending: Ending::StoppedByRm,
            message: RELEASED_BY_RM.into(),
            replaced_by: None,
        }
    }
}
