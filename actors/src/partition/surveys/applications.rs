//! Applications as REST shows them: those of a leaf, or all. Neither is read leaf by leaf, since an
//! application would be missing or be there twice if it came or went in between.

use monoceros_config as config;
use tokio::sync::oneshot;

use super::{Partition, answer};
use crate::application::Application;
use crate::snapshot::ApplicationSnapshot;
use crate::step::{Baton, Route, Survey};

/// The applications of the queue with this path, by id; none of a parent. Answered with `None`
/// where there is no such queue.
pub(crate) struct ApplicationsOf {
    path: String,
    is_there: bool,
    found: Vec<ApplicationSnapshot>,
    reply: oneshot::Sender<Option<Vec<ApplicationSnapshot>>>,
}

impl ApplicationsOf {
    pub(crate) fn new(
        path: String,
        reply: oneshot::Sender<Option<Vec<ApplicationSnapshot>>>,
    ) -> Self {
        Self { path, is_there: false, found: Vec::new(), reply }
    }
}

impl Survey for ApplicationsOf {
    fn route(&mut self, _: &Partition, baton: &Baton) -> Route {
        let queue = baton.directory.queue_by_path.get(self.path.as_str()).copied();
        self.is_there = queue.is_some();
        Route::default().applications_that(baton, |entry| Some(entry.leaf) == queue)
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        self.found.push(application.snapshot(baton));
    }

    fn home(self: Box<Self>, partition: &mut Partition, _: &mut Baton) {
        let Self { is_there, found, reply, .. } = *self;
        answer(reply, is_there.then(|| in_order(found, partition)));
    }
}

/// The applications of every leaf, by id.
pub(crate) struct AllApplications {
    found: Vec<ApplicationSnapshot>,
    reply: oneshot::Sender<Vec<ApplicationSnapshot>>,
}

impl AllApplications {
    pub(crate) fn new(reply: oneshot::Sender<Vec<ApplicationSnapshot>>) -> Self {
        Self { found: Vec::new(), reply }
    }
}

impl Survey for AllApplications {
    fn route(&mut self, _: &Partition, baton: &Baton) -> Route {
        Route::default().all_applications(baton)
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        self.found.push(application.snapshot(baton));
    }

    fn home(self: Box<Self>, partition: &mut Partition, _: &mut Baton) {
        answer(self.reply, in_order(self.found, partition));
    }
}

/// The live application of this id, if there is one.
pub(crate) struct OneApplication {
    id: String,
    found: Vec<ApplicationSnapshot>,
    reply: oneshot::Sender<Option<ApplicationSnapshot>>,
}

impl OneApplication {
    pub(crate) fn new(id: String, reply: oneshot::Sender<Option<ApplicationSnapshot>>) -> Self {
        Self { id, found: Vec::new(), reply }
    }
}

impl Survey for OneApplication {
    fn route(&mut self, _: &Partition, baton: &Baton) -> Route {
        let slot = baton.directory.application_by_id.get(self.id.as_str());
        Route::default().applications(slot.copied())
    }

    fn at_application(&mut self, application: &mut Application, baton: &mut Baton) {
        self.found.push(application.snapshot(baton));
    }

    fn home(self: Box<Self>, partition: &mut Partition, _: &mut Baton) {
        let Self { found, reply, .. } = *self;
        answer(reply, in_order(found, partition).pop());
    }
}

/// Which applications that are over are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// Those that ended.
    Terminated,
    /// Those that were never admitted.
    Rejected,
}

/// Applications that are over, oldest end first. The partition has them itself.
pub(crate) struct EndedApplications {
    over: Over,
    reply: oneshot::Sender<Vec<ApplicationSnapshot>>,
}

impl EndedApplications {
    pub(crate) fn new(over: Over, reply: oneshot::Sender<Vec<ApplicationSnapshot>>) -> Self {
        Self { over, reply }
    }
}

impl Survey for EndedApplications {
    fn home(self: Box<Self>, partition: &mut Partition, _: &mut Baton) {
        let name = config::plain_name(&partition.name).to_owned();
        let kept = partition.ended.applications();
        let shown =
            |ended| ApplicationSnapshot { partition: name.clone(), ..crate::views::ended(ended) };
        answer(
            self.reply,
            match self.over {
                Over::Terminated => kept.terminated().map(shown).collect(),
                Over::Rejected => kept.rejected().map(shown).collect(),
            },
        );
    }
}

fn in_order(
    mut found: Vec<ApplicationSnapshot>,
    partition: &Partition,
) -> Vec<ApplicationSnapshot> {
    let name = config::plain_name(&partition.name);
    for application in &mut found {
        name.clone_into(&mut application.partition);
    }
    found.sort_by(|a, b| a.application_id.cmp(&b.application_id));
    found
}
