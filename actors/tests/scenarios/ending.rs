//! Releases of the scheduler that the resource manager has or has not confirmed, so that a script
//! or a random history can confirm in any order, twice, or never, without knowing the releases
//! beforehand.

use monoceros_proto::si::v1::TerminationType;

use crate::recording_callback::Notification;
use crate::script::{Item, Which};

/// An open release, as the RM names it: by UUID, or in the present form by key.
#[derive(Clone, Debug)]
struct Ending {
    app: String,
    which: Which,
    kind: i32,
}

#[derive(Debug, Default)]
pub(crate) struct Endings {
    /// Unconfirmed releases, oldest first.
    open: Vec<Ending>,
    confirmed: Vec<Ending>,
}

impl Endings {
    /// Records a notification.
    pub(crate) fn receive(&mut self, notification: &Notification) {
        let Notification::Released(release) = notification else { return };
        if release.termination_type == TerminationType::StoppedByRm as i32 {
            return;
        }
        let which = match &*release.uuid {
            "" => Which::Key(release.allocation_key.clone()),
            uuid => Which::Uuid(uuid.to_owned()),
        };
        let (app, kind) = (release.application_id.clone(), release.termination_type);
        self.open.push(Ending { app, which, kind });
    }

    /// Builds confirmations: of the release with this number, taken modulo the open ones, or of
    /// all. `kind` replaces the termination type of the release.
    pub(crate) fn confirm(&mut self, which: Option<usize>, kind: Option<i32>) -> Vec<Item> {
        let mut confirmed = match which {
            _ if self.open.is_empty() => Vec::new(),
            Some(number) => vec![self.open.remove(number % self.open.len())],
            None => std::mem::take(&mut self.open),
        };
        for ending in &mut confirmed {
            ending.kind = kind.unwrap_or(ending.kind);
        }
        self.confirmed.extend(confirmed.iter().cloned());
        confirmed.iter().map(item).collect()
    }

    /// Repeats a confirmation.
    pub(crate) fn confirm_again(&mut self, number: usize) -> Vec<Item> {
        if self.confirmed.is_empty() {
            return Vec::new();
        }
        vec![item(&self.confirmed[number % self.confirmed.len()])]
    }
}

fn item(Ending { app, which, kind }: &Ending) -> Item {
    Item::Release { app: app.clone(), which: which.clone(), kind: *kind }
}
