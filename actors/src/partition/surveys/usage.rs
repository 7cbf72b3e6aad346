//! Usage of users and groups. No actor is visited, because the trackers in the books have it.

use std::sync::Arc;

use monoceros_rules::limits::{GroupUsage, UserUsage};
use tokio::sync::oneshot;

use super::listing::{Found, List, Rows};
use super::{Partition, answer};
use crate::step::{Baton, Route, Survey};
use crate::views::rows::{parts_of_group, parts_of_user};

/// List of all tracked users, by name.
#[derive(Clone, Copy)]
pub(crate) struct Users;

impl List for Users {
    type At = Arc<str>;
    type Row = UserUsage;

    fn find(
        &self,
        behind: Option<&Arc<str>>,
        slice: &mut Rows<UserUsage>,
        _: &mut Partition,
        baton: &Baton,
    ) -> Option<Found<Arc<str>>> {
        for user in baton.books.trackers.users_behind(behind.map_or("", |name| name)) {
            slice.push::<Self>(user);
            if slice.is_full() {
                break;
            }
        }
        Some(Found { route: Route::default(), reached: None })
    }

    fn at(row: &UserUsage) -> Arc<str> {
        Arc::clone(&row.name)
    }

    fn parts(row: &UserUsage) -> usize {
        parts_of_user(row)
    }
}

/// List of all tracked groups, by name.
#[derive(Clone, Copy)]
pub(crate) struct Groups;

impl List for Groups {
    type At = Arc<str>;
    type Row = GroupUsage;

    fn find(
        &self,
        behind: Option<&Arc<str>>,
        slice: &mut Rows<GroupUsage>,
        _: &mut Partition,
        baton: &Baton,
    ) -> Option<Found<Arc<str>>> {
        for group in baton.books.trackers.groups_behind(behind.map_or("", |name| name)) {
            slice.push::<Self>(group);
            if slice.is_full() {
                break;
            }
        }
        Some(Found { route: Route::default(), reached: None })
    }

    fn at(row: &GroupUsage) -> Arc<str> {
        Arc::clone(&row.name)
    }

    fn parts(row: &GroupUsage) -> usize {
        parts_of_group(row)
    }
}

/// Reads the user of this name, if tracked.
pub(crate) struct OneUser {
    name: String,
    reply: oneshot::Sender<Option<UserUsage>>,
}

impl OneUser {
    pub(crate) fn new(name: String, reply: oneshot::Sender<Option<UserUsage>>) -> Self {
        Self { name, reply }
    }
}

impl Survey for OneUser {
    fn home(self: Box<Self>, _: &mut Partition, baton: &mut Baton) {
        answer(self.reply, baton.books.trackers.user(&self.name));
    }
}

/// Reads the group of this name, if tracked.
pub(crate) struct OneGroup {
    name: String,
    reply: oneshot::Sender<Option<GroupUsage>>,
}

impl OneGroup {
    pub(crate) fn new(name: String, reply: oneshot::Sender<Option<GroupUsage>>) -> Self {
        Self { name, reply }
    }
}

impl Survey for OneGroup {
    fn home(self: Box<Self>, _: &mut Partition, baton: &mut Baton) {
        answer(self.reply, baton.books.trackers.group(&self.name));
    }
}
