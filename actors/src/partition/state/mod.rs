//! The partition's own state, as plain structs: no actor, no baton, no clock.

mod controls;
mod deadlines;
mod empty_queues;
mod ended;
mod foreign;
mod inquiries;
mod observed;
mod proposal;
mod scale_up;
mod task;

pub(super) use controls::Controls;
pub(super) use deadlines::{DeadlineList, DueAlarm};
pub(super) use empty_queues::EmptyQueues;
pub(super) use ended::Kept;
pub(super) use foreign::ForeignTable;
pub(super) use inquiries::Inquiries;
pub(crate) use observed::ObservedKind;
pub(super) use observed::ObservedTable;
pub(super) use proposal::Proposal;
pub(super) use scale_up::Signal;
pub(super) use task::Task;
