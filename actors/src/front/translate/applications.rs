//! Translation of new and removed applications, with the identities of their users: a partition knows
//! no resolver.

use std::sync::Arc;

use monoceros_config::placement;
use monoceros_proto::si::v1 as si;
use monoceros_rules::applications::application::{GangStyle, NewApplication};
use monoceros_rules::specs::identity::{Identity, UserError};
use monoceros_rules::specs::rejection::{Ignored, Rejection};
use monoceros_rules::values::names::shown;
use monoceros_rules::values::resources::NameHolder;

use super::checks::{Intake, amount, limit_in, shared, timeout};
use super::task_groups::declared;
use super::{Gathering, Translated, Translator};
use crate::api::users::{GroupAnswers, Questions};
use crate::partition::{RefusedItem, Request};

impl Translator {
    /// The lookups of users that are needed before the request can be translated, apart from those in
    /// `answers`.
    pub(in crate::front) fn questions(
        &self,
        request: &si::ApplicationRequest,
        answers: &GroupAnswers,
    ) -> Questions {
        let mut questions = Questions::default();
        if !self.partitions.may_ask() {
            return questions;
        }
        for new in &request.new {
            if let Some(ugi) = &new.ugi
                && let Some(partition) = self.partitions.find(&new.partition_name)
                && let Some(users) = self.partitions.users(partition)
            {
                users.enquire(ugi, answers, &mut questions);
            }
        }
        questions
    }

    /// Translates a request for applications. `answers` has the results of the lookups that it waited
    /// for.
    pub(in crate::front) fn applications(
        &mut self,
        request: si::ApplicationRequest,
        answers: &GroupAnswers,
    ) -> Translated {
        let mut gathering = Gathering::new();
        for new in request.new {
            let id: Arc<str> = Arc::from(new.application_id.as_str());
            let queue = new.queue_name.clone();
            let reject = |reason| RefusedItem::Application { id: Arc::clone(&id), queue, reason };
            let Some(partition) = self.partition(&new.partition_name, &mut gathering) else {
                let (id, partition) = (Arc::clone(&id), shown(&new.partition_name));
                let reason = Rejection::PartitionOfApplication { id, partition };
                gathering.refuse(reject(reason));
                continue;
            };
            // A lost partition takes no applications.
            let Some(users) = self.partitions.users_mut(&partition) else { continue };
            // The application reads it again, from its tags. Here the log names one that cannot be read.
            let _ = limit_in(&new.tags, &self.rm, &id);
            let identity = |ugi, forced| users.identity(ugi, forced, answers);
            let request = match new_application(new, &self.intake, &self.names, identity) {
                Ok(new) => Request::AddApplication(Box::new(new)),
                Err(reason) => Request::Refused(Box::new(reject(reason))),
            };
            gathering.request(&partition, request);
        }
        for remove in request.remove {
            if let Some(partition) = self.partition(&remove.partition_name, &mut gathering) {
                let request = Request::RemoveApplication(Arc::from(remove.application_id));
                gathering.request(&partition, request);
            } else {
                gathering.ignore(Ignored::RemovalOfUnknown);
            }
        }
        gathering.done()
    }
}

fn new_application(
    mut new: si::AddApplicationRequest,
    intake: &Intake,
    names: &NameHolder,
    identity: impl FnOnce(si::UserGroupInformation, bool) -> Result<Identity, UserError>,
) -> Result<NewApplication, Rejection> {
    let checked = intake.check_id(&new.application_id);
    checked.map_err(|why| Rejection::ApplicationId(why.into()))?;
    let id: Arc<str> = Arc::from(std::mem::take(&mut new.application_id));
    intake.check_submission(&id, &new)?;
    let task_groups = declared(&mut new, names);
    let placeholders = amount(&id, new.placeholder_ask.as_ref(), names)?;
    if placeholders.has_negative() {
        return Err(Rejection::NegativePlaceholders(id));
    }
    let forced = placement::is_forced(&new.tags);
    let identity = identity(new.ugi.unwrap_or_default(), forced);
    let Identity { user, groups } =
        identity.map_err(|why| Rejection::User { id: Arc::clone(&id), why })?;
    let is_gang = !placeholders.is_zero() || task_groups.is_some();
    let execution_timeout_ms = timeout(new.execution_timeout_milli_seconds);
    Ok(NewApplication {
        id,
        queue: new.queue_name,
        user: Arc::from(user),
        groups,
        tags: shared(new.tags),
        placeholder_ask: placeholders,
        run_limit_ms: execution_timeout_ms
            .filter(|_| intake.enforces_application_timeout && !is_gang),
        execution_timeout_ms,
        task_groups,
        gang_style: GangStyle::read(&new.gang_scheduling_style),
    })
}
