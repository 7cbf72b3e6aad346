//! Translation of asks, existing allocations and releases:
//! `docs/applications.md#three-forms-of-asking` and
//! `docs/applications.md#releasing-allocations`. Clients use one message for asks and for existing
//! allocations; its fields decide which one it is.

use std::sync::Arc;

use monoceros_proto::si::v1 as si;
use monoceros_rules::asks::failed_starts::REASON_BYTES;
use monoceros_rules::specs::arrival::Arrival;
use monoceros_rules::specs::ask::{AskSpec, Form, Particulars};
use monoceros_rules::specs::rejection::{Ignored, Rejection};
use monoceros_rules::specs::tags::{FOREIGN, Tags};
use monoceros_rules::values::names::shown;
use monoceros_rules::values::text::beginning;

use super::checks::{amount, first_of, limit_in, preemption, shared, task_group, wanted};
use super::{Gathering, Translated, Translator, constraints};
use crate::partition::{ForeignRequest, RefusedItem, Request};
use crate::step::{Cause, Existing, ForeignReport, Op, Which};

/// Messages with at least this many items get their own `Arc`s of amounts, so that this thread does not
/// touch their reference counts after sending. Smaller messages share recent amounts: one takes about
/// 100 bytes.
const MANY: usize = 64;

impl Translator {
    /// Translates a request for asks, allocations and releases.
    pub(in crate::front) fn allocations(&self, request: si::AllocationRequest) -> Translated {
        let mut gathering = Gathering::new();
        let has_its_own = request.asks.len() + request.allocations.len() >= MANY;
        if has_its_own {
            self.sizes.borrow_mut().forget();
        }
        for allocation in request.allocations {
            self.allocation(allocation, &mut gathering);
        }
        for ask in request.asks {
            self.ask(ask, &mut gathering);
        }
        if has_its_own {
            self.sizes.borrow_mut().forget();
        }
        let releases = request.releases.unwrap_or_default();
        for release in releases.allocation_asks_to_release {
            self.ask_release(&release, &mut gathering);
        }
        for release in releases.allocations_to_release {
            self.release(&release, &mut gathering);
        }
        gathering.done()
    }

    fn ask(&self, ask: si::AllocationAsk, gathering: &mut Gathering) {
        let key: Arc<str> = Arc::from(ask.allocation_key);
        let application = gathering.application(&ask.application_id);
        let reject = |reason| RefusedItem::Ask {
            form: Form::Ask,
            key: Arc::clone(&key),
            application: Arc::clone(&application),
            reason,
        };
        let Some(partition) = self.partition(&ask.partition_name, gathering) else {
            let (key, partition) = (Arc::clone(&key), shown(&ask.partition_name));
            let reason = Rejection::PartitionOfAllocation { key, partition };
            return gathering.refuse(reject(reason));
        };
        let intake = &self.intake;
        let checked = intake
            .check_key(&key)
            .and_then(|()| intake.check_text(&key, "its applicationID", &application))
            .and_then(|()| intake.check_tags(&key, "the sum of its tags", &ask.tags))
            .and_then(|()| intake.check_group(&key, ask.placeholder, &ask.task_group_name))
            .and_then(|()| intake.check_repeat(&key, ask.max_allocations))
            .and_then(|repeat| {
                let constraint = constraints::of_ask(&key, ask.placement_constraint, &ask.tags)?;
                let resources = wanted(&key, ask.resource_ask.as_ref(), &self.names)?;
                Ok((repeat, resources, constraint))
            });
        let (repeat, resources, constraint) = match checked {
            Ok(checked) => checked,
            Err(reason) => {
                return gathering.request(&partition, Request::Refused(Box::new(reject(reason))));
            }
        };
        let attributes = intake.attributes(&ask.tags);
        let run_time_limit_ms = limit_in(&ask.tags, &self.rm, &key);
        let preemption = preemption(ask.preemption_policy.as_ref(), &ask.tags);
        let tags = shared(ask.tags);
        let particulars = Particulars {
            required_node: attributes.required_node,
            task_group: task_group(ask.task_group_name),
            execution_timeout_ms: intake.execution_timeout(ask.execution_timeout_milli_seconds),
            run_time_limit_ms,
            constraint,
            arrival: self.arrival(&key, tags.as_ref()),
        };
        let spec = AskSpec {
            instances: repeat,
            priority: ask.priority,
            created_ns: attributes.created_ns,
            originator: ask.originator,
            preemption,
            placeholder: ask.placeholder,
            tags,
            particulars: particulars.kept(),
            ..AskSpec::new(Arc::clone(&key), self.sizes.borrow_mut().share(resources))
        };
        gathering.op(&partition, application, Op::Ask(Arc::new(spec)));
    }

    /// The arrival of an ask; `None` unless its placements are traced.
    fn arrival(&self, key: &Arc<str>, tags: Option<&Tags>) -> Option<Box<Arrival>> {
        self.intake.sampling?.arrival(&self.rm, key, tags, self.clock)
    }

    fn allocation(&self, mut allocation: si::Allocation, gathering: &mut Gathering) {
        let uuid = first_of(&allocation.uuid, &allocation.allocation_id).to_owned();
        let form = if uuid.is_empty() { Form::Unified } else { Form::Recovered };
        let key: Arc<str> = Arc::from(allocation.allocation_key.as_str());
        let application = gathering.application(&allocation.application_id);
        let reject = |reason| RefusedItem::Ask {
            form,
            key: Arc::clone(&key),
            application: Arc::clone(&application),
            reason,
        };
        let Some(partition) = self.partition(&allocation.partition_name, gathering) else {
            let (key, partition) = (Arc::clone(&key), shown(&allocation.partition_name));
            let reason = Rejection::PartitionOfAllocation { key, partition };
            return gathering.refuse(reject(reason));
        };
        if allocation.allocation_tags.contains_key(FOREIGN) {
            match self.foreign(&key, &allocation) {
                Ok(foreign) => {
                    gathering.request(&partition, Request::Foreign(Box::new(foreign)));
                }
                Err(reason) => {
                    gathering.request(&partition, Request::Refused(Box::new(reject(reason))));
                }
            }
            return;
        }
        let node = std::mem::take(&mut allocation.node_id);
        let texts = [("its UUID", &uuid), ("its nodeID", &node)];
        let intake = &self.intake;
        let checked =
            texts.into_iter().try_for_each(|(what, text)| intake.check_text(&key, what, text));
        if let Err(reason) = checked {
            return gathering.request(&partition, Request::Refused(Box::new(reject(reason))));
        }
        match self.spec_of(Arc::clone(&key), allocation, form) {
            Err(reason) => {
                gathering.request(&partition, Request::Refused(Box::new(reject(reason))));
            }
            Ok(spec) if node.is_empty() && form == Form::Recovered => {
                let text = format!("recovered allocation without node: `{}`", spec.key);
                let reason = Rejection::NodeMissing(text);
                gathering.request(&partition, Request::Refused(Box::new(reject(reason))));
            }
            Ok(spec) if node.is_empty() => {
                let arrival = self.arrival(&key, spec.tags.as_ref());
                let spec =
                    if arrival.is_some() { spec.with(|it| it.arrival = arrival) } else { spec };
                gathering.op(&partition, application, Op::Unified(Arc::new(spec)));
            }
            Ok(spec) => {
                let uuid = if uuid.is_empty() { Arc::clone(&spec.key) } else { Arc::from(uuid) };
                let existing = Existing { spec: Arc::new(spec), uuid, node: Arc::from(node) };
                gathering.op(&partition, application, Op::Existing(Box::new(existing)));
            }
        }
    }

    fn foreign(
        &self,
        key: &Arc<str>,
        allocation: &si::Allocation,
    ) -> Result<ForeignRequest, Rejection> {
        self.intake.check_key(key)?;
        self.intake.check_text(key, "its nodeID", &allocation.node_id)?;
        self.intake.check_tags(key, "the sum of its tags", &allocation.allocation_tags)?;
        let resources = amount(key, allocation.resource_per_alloc.as_ref(), &self.names)?;
        if resources.has_negative() {
            return Err(Rejection::NegativeResource(Arc::clone(key)));
        }
        if allocation.node_id.is_empty() {
            let text = format!("trying to add a foreign request `{key}` without node");
            return Err(Rejection::NodeMissing(text));
        }
        let kind = allocation.allocation_tags.get(FOREIGN).map_or("", String::as_str);
        if kind != "static" && kind != "default" {
            tracing::warn!(rm = %self.rm, allocation = %key, given = kind, "foreign allocation of an unknown kind taken as `default`");
        }
        let report = ForeignReport {
            key: Arc::clone(key),
            resources,
            tags: shared(allocation.allocation_tags.clone()),
            priority: allocation.priority,
            preemptable: kind != "static",
            created_ns: self.intake.attributes(&allocation.allocation_tags).created_ns,
        };
        Ok(ForeignRequest { node: Arc::from(allocation.node_id.as_str()), report })
    }

    fn ask_release(&self, release: &si::AllocationAskRelease, gathering: &mut Gathering) {
        let Some(partition) = self.partition(&release.partition_name, gathering) else {
            return gathering.ignore(Ignored::ReleaseOfUnknown);
        };
        match self.cause(release.termination_type, gathering) {
            // The release confirms that a placeholder timed out: pending asks stay.
            None | Some(Cause::ConfirmedTimeout) => return,
            Some(_) => {}
        }
        if release.application_id.is_empty() {
            return gathering.ignore(Ignored::ReleaseOfNothing);
        }
        let key = Some(release.allocation_key.as_str()).filter(|key| !key.is_empty());
        let op = Op::WithdrawAsks(key.map(Arc::from));
        let application = gathering.application(&release.application_id);
        gathering.op(&partition, application, op);
    }

    fn release(&self, release: &si::AllocationRelease, gathering: &mut Gathering) {
        let Some(partition) = self.partition(&release.partition_name, gathering) else {
            return gathering.ignore(Ignored::ReleaseOfUnknown);
        };
        let uuid = first_of(&release.uuid, &release.allocation_id);
        if release.application_id.is_empty() {
            let key = first_of(&release.allocation_key, uuid);
            if key.is_empty() {
                gathering.ignore(Ignored::ReleaseOfNothing);
            } else if self.cause(release.termination_type, gathering).is_some() {
                gathering.request(&partition, Request::ForeignGone(Arc::from(key)));
            }
            return;
        }
        let which = if !uuid.is_empty() {
            Which::Uuid(Arc::from(uuid))
        } else if !release.allocation_key.is_empty() {
            Which::Key(Arc::from(release.allocation_key.as_str()))
        } else {
            Which::All
        };
        let Some(cause) = self.cause(release.termination_type, gathering) else { return };
        let cause = match cause {
            Cause::SchedulingFailed if release.exclude_node => Cause::RefusedForGood,
            Cause::Stopped if release.failed => Cause::Failed,
            cause => cause,
        };
        let is_failure = cause.is_failure_to_start() && !release.message.is_empty();
        let reason = is_failure.then(|| Arc::from(beginning(&release.message, REASON_BYTES)));
        let op = Op::Release { which, cause, reason, had_waiting: false };
        let application = gathering.application(&release.application_id);
        gathering.op(&partition, application, op);
    }

    /// The cause of a release. A type that is not defined counts as stopped by the RM. With
    /// `session.strict_enums`, such a release is ignored.
    fn cause(&self, termination_type: i32, gathering: &mut Gathering) -> Option<Cause> {
        match si::TerminationType::try_from(termination_type) {
            Ok(si::TerminationType::Timeout) => Some(Cause::ConfirmedTimeout),
            Ok(si::TerminationType::PreemptedByScheduler) => Some(Cause::ConfirmedPreemption),
            Ok(si::TerminationType::PlaceholderReplaced) => Some(Cause::ConfirmedReplacement),
            Ok(si::TerminationType::SchedulingFailedOnRm) => Some(Cause::SchedulingFailed),
            Ok(si::TerminationType::StoppedByRm | si::TerminationType::UnknownTerminationType) => {
                Some(Cause::Stopped)
            }
            Err(_) => {
                gathering.ignore(Ignored::TerminationType);
                (!self.strict_enums).then_some(Cause::Stopped)
            }
        }
    }

    /// The specification in an `Allocation` message.
    pub(super) fn spec_of(
        &self,
        key: Arc<str>,
        allocation: si::Allocation,
        form: Form,
    ) -> Result<AskSpec, Rejection> {
        let intake = &self.intake;
        intake.check_key(&key)?;
        intake.check_text(&key, "its applicationID", &allocation.application_id)?;
        intake.check_tags(&key, "the sum of its tags", &allocation.allocation_tags)?;
        intake.check_group(&key, allocation.placeholder, &allocation.task_group_name)?;
        let tags = &allocation.allocation_tags;
        let constraint = constraints::of_ask(&key, allocation.placement_constraint, tags)?;
        let resources = wanted(&key, allocation.resource_per_alloc.as_ref(), &self.names)?;
        let attributes = intake.attributes(&allocation.allocation_tags);
        let run_time_limit_ms = limit_in(&allocation.allocation_tags, &self.rm, &key);
        let particulars = Particulars {
            required_node: attributes.required_node,
            task_group: task_group(allocation.task_group_name),
            run_time_limit_ms,
            constraint,
            ..Particulars::default()
        };
        Ok(AskSpec {
            priority: allocation.priority,
            created_ns: attributes.created_ns,
            originator: allocation.originator,
            preemption: preemption(
                allocation.preemption_policy.as_ref(),
                &allocation.allocation_tags,
            ),
            placeholder: allocation.placeholder,
            form,
            tags: shared(allocation.allocation_tags),
            particulars: particulars.kept(),
            ..AskSpec::new(key, self.sizes.borrow_mut().share(resources))
        })
    }
}
