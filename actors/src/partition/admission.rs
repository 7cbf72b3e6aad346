//! Who may join which leaf (applications chapter, 1.4; queues-and-config chapter, 6.4 and 6.6).
//!
//! Without placement rules in the configuration there is one implicit rule: `provided` without
//! creation, with `root.default` as the last resort where that exists. Applications that run already
//! (`application.create.force`) have one more: `root.@recovery@`, which is planted for the first of
//! them and goes with the last.

use std::collections::BTreeSet;
use std::sync::Arc;

use actix::Actor;
use monoceros_rules::allocations::ApplicationSlot;
use monoceros_rules::application::{Application as Book, NewApplication};
use monoceros_rules::application_state::ApplicationState;
use monoceros_rules::config::{QueueConfig, RECOVERY};
use monoceros_rules::object_state::ObjectState;
use monoceros_rules::rejection::Rejection;

use super::early::Awaited;
use super::{Partition, Task};
use crate::application::Application;
use crate::baton::{ApplicationEntry, Baton, Directory, QueueSlot, Saying};
use crate::events::{Event, Message, Row};

/// The leaf for applications whose own choice cannot be used.
const LAST_RESORT: &str = "root.default";

impl Partition {
    pub(super) fn add_application(&mut self, new: NewApplication, baton: &mut Baton) {
        let id = Arc::clone(&new.id);
        let admitted =
            self.takes_new("application", &new.id).and_then(|()| admit(&new, &baton.directory));
        if let Err(reason) = &admitted
            && needs_recovery(&new, reason, &baton.directory)
        {
            self.agenda.push_back(Task::Plant(Arc::new(QueueConfig::recovery())));
            self.agenda.push_back(Task::Refresh(BTreeSet::new()));
            self.agenda.push_back(Task::Add(Box::new(new)));
            return;
        }
        match admitted {
            Ok(leaf) => {
                let queue = Arc::clone(&baton.directory.queue(leaf).facts.config.path);
                let slot = enter_directory(new, leaf, baton);
                self.agenda.push_back(Task::Attach(slot));
                baton.happens(|at| Event::of(Row::AppNew, &id, at).in_queue(&queue));
                baton.happens(|at| Event::of(Row::QueueAppAdded, &queue, at).referring(&id));
                baton.directory.counts(leaf).moved(None, Some(ApplicationState::New));
                baton.tally.application_new();
                let (id, queue) = (Arc::clone(&id), Some(queue));
                baton.said.push(Saying::ApplicationPlaced { id: Arc::clone(&id), queue });
                baton.said.push(Saying::ApplicationAccepted(Arc::clone(&id)));
                self.join_early(&Awaited::Application(id), baton);
            }
            Err(reason) => {
                baton.directory.rejected += 1;
                baton.happens(|at| Event::of(Row::AppNew, &id, at));
                baton.happens(|at| {
                    let why = Message::Rejected(Box::new(reason.clone()));
                    Event::of(Row::AppState(ApplicationState::Rejected), &id, at).saying(why)
                });
                baton.tally.application_rejected();
                let exists = matches!(reason, Rejection::ApplicationExists(_));
                baton.said.push(Saying::ApplicationRejected { id: Arc::clone(&id), reason });
                if !exists {
                    self.application_gone(&id, baton);
                }
            }
        }
    }
}

fn enter_directory(new: NewApplication, leaf: QueueSlot, baton: &mut Baton) -> ApplicationSlot {
    let directory = &mut baton.directory;
    let free = directory.free_applications.pop();
    let slot = ApplicationSlot(free.unwrap_or_else(|| {
        directory.applications.push(None);
        u32::try_from(directory.applications.len() - 1).expect("applications fit u32")
    }));
    let queue = directory.queue_mut(leaf);
    queue.applications += 1;
    let (leaf_address, facts) = (Arc::clone(&queue.address), Arc::clone(&queue.facts));
    let id = Arc::clone(&new.id);
    let metrics = Arc::clone(baton.tally.shared());
    let book = Book::new(new, Arc::clone(&facts.config.path), baton.now_ns);
    let address = Arc::new(Application::new(slot, book, leaf_address, facts, metrics).start());
    directory.application_by_id.insert(Arc::clone(&id), slot);
    directory.applications[slot.0 as usize] = Some(ApplicationEntry { id, leaf, address });
    slot
}

/// The leaf the application joins, or why none will have it.
fn admit(new: &NewApplication, directory: &Directory) -> Result<QueueSlot, Rejection> {
    if directory.application_by_id.contains_key(&new.id) {
        return Err(Rejection::ApplicationExists(Arc::clone(&new.id)));
    }
    let own_choice = match provided(new) {
        Ok(wanted) => wanted.map(|path| usable(&path, new, directory)),
        // No other rule is asked.
        Err(reason) if !is_forced(new) => return Err(reason),
        Err(reason) => Some(Err(reason)),
    };
    if let Some(Ok(slot)) = own_choice {
        return Ok(slot);
    }
    if let Ok(slot) = usable(LAST_RESORT, new, directory) {
        return Ok(slot);
    }
    if let Some(slot) = directory.queue_by_path.get(RECOVERY)
        && is_forced(new)
    {
        return Ok(*slot);
    }
    Err(own_choice.and_then(Result::err).unwrap_or_else(|| {
        let why = "no queue was named and there is no `root.default`".to_owned();
        no_placement(new, why)
    }))
}

/// Whether the application is to have the queue that takes whoever runs already, and this queue has
/// still to come.
fn needs_recovery(new: &NewApplication, reason: &Rejection, directory: &Directory) -> bool {
    let is_homeless = matches!(reason, Rejection::Placement { .. } | Rejection::NotLeaf { .. });
    let root = directory.queue_by_path["root"];
    is_homeless
        && is_forced(new)
        && !directory.queue(root).facts.config.is_leaf
        && !directory.queue_by_path.contains_key(RECOVERY)
}

fn is_forced(new: &NewApplication) -> bool {
    new.tags.as_ref().is_some_and(|tags| crate::rm::is_forced(tags))
}

/// The path that the submission names; none if it names no queue.
fn provided(new: &NewApplication) -> Result<Option<String>, Rejection> {
    if new.queue.is_empty() {
        return Ok(None);
    }
    let path = if new.queue == "root" || new.queue.starts_with("root.") {
        new.queue.clone()
    } else {
        format!("root.{}", new.queue.replace('.', "_dot_"))
    };
    let is_name = |part: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_:#/@-".contains(c);
        (1..=64).contains(&part.len()) && part.chars().all(allowed)
    };
    if path.split('.').all(is_name) {
        return Ok(Some(path.to_lowercase()));
    }
    Err(Rejection::Placement {
        id: Arc::clone(&new.id),
        why: format!(
            "placement rule `provided` failed: `{}` is no queue path, each part has 1 to 64 \
             characters out of letters, digits and `_ : # / @ -`",
            new.queue
        ),
        cause: "E_PLACEMENT_RULE",
    })
}

fn usable(path: &str, new: &NewApplication, directory: &Directory) -> Result<QueueSlot, Rejection> {
    let Some(slot) = directory.queue_by_path.get(path).copied() else {
        return Err(no_placement(new, format!("queue `{path}` does not exist")));
    };
    let facts = &directory.queue(slot).facts;
    if facts.config.is_recovery() {
        let why = format!("queue `{path}` is for applications that run already");
        return Err(no_placement(new, why));
    }
    if facts.state == ObjectState::Draining {
        let why = format!("queue `{path}` is draining and takes no new applications");
        return Err(no_placement(new, why));
    }
    if !facts.config.is_leaf {
        return Err(Rejection::NotLeaf { id: Arc::clone(&new.id), queue: path.to_owned() });
    }
    if may_submit(slot, new, directory) {
        return Ok(slot);
    }
    Err(no_placement(new, format!("user `{}` may not submit to queue `{path}`", new.user)))
}

/// Submit or admin access here or anywhere above (queues-and-config chapter, 3.8).
fn may_submit(leaf: QueueSlot, new: &NewApplication, directory: &Directory) -> bool {
    let mut at = Some(leaf);
    while let Some(slot) = at {
        let facts = &directory.queue(slot).facts;
        let grants = |acl: &monoceros_rules::config::Acl| acl.allows(&new.user, &new.groups);
        if grants(&facts.config.submit_acl) || grants(&facts.config.admin_acl) {
            return true;
        }
        at = facts.parent;
    }
    false
}

fn no_placement(new: &NewApplication, why: String) -> Rejection {
    Rejection::Placement { id: Arc::clone(&new.id), why, cause: "E_PLACEMENT_NONE" }
}
