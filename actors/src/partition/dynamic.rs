//! Queues that exist only while applications need them: `docs/placement.md#dynamic-queues`.
//!
//! A dynamic leaf begins with the settings of the nearest template above, as configured at that
//! time, and then takes the quotas that its applications bring for their namespaces. It is removed
//! when it has been empty for [`CLEANING_INTERVAL`], so that consecutive applications find their
//! queue; dynamic queues above that are empty then are removed with it.
//!
//! * A dynamic leaf exists while an application is in it, and at most [`CLEANING_INTERVAL`] longer.
//! * While no dynamic queue is empty, no queue waits to be removed and no deadline is armed.

use monoceros_config::{dynamic_queue, recovery_queue};
use std::sync::Arc;

use monoceros_config::placement::{NamespaceTags, QueueTree, creation};
use monoceros_config::reload;
use monoceros_rules::applications::application::NewApplication;
use monoceros_rules::queues::{QueueConfig, Template};
use monoceros_rules::specs::rejection::Rejection;
use monoceros_rules::values::names::RECOVERY;

use super::deadlines::CLEANING_INTERVAL;
use super::surveys::Refresh;
use super::{Partition, Task};
use crate::queue::QueueFacts;
use crate::step::{Alarm, Baton, Directory, QueueSlot};

impl Partition {
    /// Notes the queue if it is dynamic and empty, and arms the deadline of its removal.
    pub(super) fn may_be_empty(&mut self, slot: QueueSlot, baton: &mut Baton) {
        let entry = baton.directory.queue(slot);
        if !entry.facts.config.is_dynamic || !entry.is_empty() {
            return;
        }
        if self.empty.note(slot, baton.now_ns) {
            baton.effects.remind(CLEANING_INTERVAL, Alarm::CleanQueues);
        }
    }

    /// Removes the queues that have been empty for [`CLEANING_INTERVAL`], and arms a deadline for
    /// the next.
    pub(super) fn clean_queues(&mut self, baton: &mut Baton) {
        let interval_ns = i64::try_from(CLEANING_INTERVAL.as_nanos()).unwrap_or(i64::MAX);
        let is_dynamic = |slot| baton.directory.queue(slot).facts.config.is_dynamic;
        let checked = self.empty.check(interval_ns, baton.now_ns, is_dynamic);
        self.agenda.extend(checked.over.into_iter().map(Task::RemoveQueue));
        if let Some(next_ns) = checked.next_ns {
            baton.effects.remind_at(next_ns, baton.now_ns, Alarm::CleanQueues);
        }
    }

    /// Applies to a dynamic leaf the quotas that a new application brings for its namespace.
    pub(super) fn take_namespace(
        &mut self,
        new: &NewApplication,
        leaf: QueueSlot,
        baton: &mut Baton,
    ) {
        let Some(tags) = &new.tags else { return };
        let entry = baton.directory.queue_mut(leaf);
        if !entry.facts.config.is_dynamic {
            return;
        }
        let (said, warnings) = NamespaceTags::read(tags, &self.names);
        for warning in warnings {
            tracing::warn!(application = %new.id, %warning, "tag of a namespace");
        }
        let Some(config) = said.changed(&entry.facts.config) else { return };
        let treats_otherwise = !reload::treats_applications_alike(&entry.facts.config, &config);
        let facts = QueueFacts::clone(&entry.facts);
        entry.facts = Arc::new(QueueFacts { config: Arc::new(config), ..facts });
        self.agenda.push_back(Task::survey(Refresh::of_path(leaf, treats_otherwise)));
    }
}

/// Returns the queues to be created so that the application's leaf exists, the upper ones first.
pub(super) fn missing_queues(
    path: &str,
    new: &NewApplication,
    directory: &Directory,
) -> Result<Vec<Arc<QueueConfig>>, Rejection> {
    if path == RECOVERY {
        return Ok(vec![Arc::new(recovery_queue())]);
    }
    let missing = creation(path, &new.user, &new.groups, directory).map_err(|error| {
        let (id, why, cause) = (Arc::clone(&new.id), error.to_string(), error.cause().into());
        Rejection::QueueCreate { id, why, cause }
    })?;
    let template = missing.first().and_then(|topmost| {
        let (parent, _) = topmost.rsplit_once('.')?;
        template_above(directory.find(parent)?, directory)
    });
    let made = missing
        .iter()
        .map(|queue| Arc::new(dynamic_queue(queue, queue == path, template.as_deref())));
    Ok(made.collect())
}

/// Returns the template of the queue, or else that of the nearest queue above it that has one.
fn template_above(queue: QueueSlot, directory: &Directory) -> Option<Arc<Template>> {
    directory.upward(queue).find_map(|facts| facts.config.template.clone())
}
