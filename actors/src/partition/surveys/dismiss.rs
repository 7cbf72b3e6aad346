//! The end of a partition that is not configured any more: its RM is notified of each application,
//! by id, because applications end then without any other message.

use super::Partition;
use crate::application::Application;
use crate::step::{Baton, Route, Survey};

/// The survey that reports every application before its partition ends.
pub(in crate::partition) struct Dismiss;

impl Survey for Dismiss {
    fn route(&mut self, _: &mut Partition, baton: &Baton) -> Route {
        Route::default().applications(baton.directory.application_by_id.values().copied())
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        application.dismiss(baton);
    }
}
