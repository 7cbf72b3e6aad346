//! What users and groups use. No actor is visited, because the trackers in the books have it.

use tokio::sync::oneshot;

use super::{Partition, answer};
use crate::snapshot::{GroupSnapshot, UserSnapshot};
use crate::step::{Baton, Survey};
use crate::views::usage;

/// The user of this name, or all who are tracked.
pub(crate) struct Users {
    only: Option<String>,
    reply: oneshot::Sender<Vec<UserSnapshot>>,
}

impl Users {
    pub(crate) fn new(only: Option<String>, reply: oneshot::Sender<Vec<UserSnapshot>>) -> Self {
        Self { only, reply }
    }
}

impl Survey for Users {
    fn home(self: Box<Self>, _: &mut Partition, baton: &mut Baton) {
        answer(self.reply, usage::users(&baton.books.trackers, self.only.as_deref()));
    }
}

/// The group of this name, or all that are tracked.
pub(crate) struct Groups {
    only: Option<String>,
    reply: oneshot::Sender<Vec<GroupSnapshot>>,
}

impl Groups {
    pub(crate) fn new(only: Option<String>, reply: oneshot::Sender<Vec<GroupSnapshot>>) -> Self {
        Self { only, reply }
    }
}

impl Survey for Groups {
    fn home(self: Box<Self>, _: &mut Partition, baton: &mut Baton) {
        answer(self.reply, usage::groups(&baton.books.trackers, self.only.as_deref()));
    }
}
