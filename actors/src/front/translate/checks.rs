//! Checks of names, amounts and tags that do not need the state of a partition. They run on the
//! front's thread, so that a partition's thread has less to do.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

use monoceros_proto::si::v1 as si;
use monoceros_rules::specs::ask::{Preemption, TaskGroup};
use monoceros_rules::specs::quotas::Quotas;
use monoceros_rules::specs::rejection::{Overflow, Rejection};
use monoceros_rules::specs::tags::{
    self, ALLOW_PREEMPTION, CREATION_TIME, REQUIRED_NODE, RUN_TIME_LIMIT, TagMap, Tags,
    run_time_limit,
};
use monoceros_rules::values::names::shown;
use monoceros_rules::values::resources::{
    NAME_BYTES, NAMES_MAX, Name, NameHolder, QUANTITY_MAX, Resources, TooManyNames,
};

use crate::api::traces::Sampling;

/// The longest path of a queue, in bytes: longer than the path of the deepest possible queue.
const QUEUE_BYTES: usize = 4_096;

/// Bounds and switches for the requests of all RMs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Intake {
    /// The longest id or key, in bytes.
    pub(crate) id_bytes: usize,
    /// The most allocations of one ask.
    pub(crate) max_repeat: u32,
    /// Whether the execution timeout of asks is enforced.
    pub(crate) enforces_execution_timeout: bool,
    /// Whether the execution timeout of applications that are no gangs is enforced.
    pub(crate) enforces_application_timeout: bool,
    /// Whether a change of an unknown node is rejected; otherwise it is ignored.
    pub(crate) rejects_node_updates: bool,
    /// The number of waiting items of an RM above which its senders wait, too.
    pub(crate) waiting_items: usize,
    /// The most resource types that an RM may use.
    pub(crate) resource_names: usize,
    /// The quotas of an RM.
    pub(crate) quotas: Quotas,
    /// The most bytes of all tags or attributes of one item.
    pub(crate) tag_bytes: usize,
    /// The choice of asks that are traced; `None`: no ask is traced.
    pub(crate) sampling: Option<Sampling>,
}

impl Default for Intake {
    fn default() -> Self {
        Self {
            id_bytes: 1024,
            max_repeat: 10_000,
            enforces_execution_timeout: true,
            enforces_application_timeout: false,
            rejects_node_updates: false,
            waiting_items: 65_536,
            resource_names: NAMES_MAX,
            quotas: Quotas::default(),
            tag_bytes: 2 << 20,
            sampling: None,
        }
    }
}

impl Intake {
    pub(super) fn check_key(&self, key: &Arc<str>) -> Result<(), Rejection> {
        self.check_id(key).map_err(|why| Rejection::Key(why.into()))
    }

    /// Checks the length of an id; the error says what is wrong.
    pub(super) fn check_id(&self, id: &str) -> Result<(), &'static str> {
        match id.len() {
            0 => Err("missing"),
            length if length > self.id_bytes => Err("too long"),
            _ => Ok(()),
        }
    }

    /// Checks the length of a text other than the item's own id, such as the name of a user.
    pub(super) fn check_text(
        &self,
        id: &Arc<str>,
        what: &'static str,
        text: &str,
    ) -> Result<(), Rejection> {
        self.check_bytes(id, what, text.len(), self.id_bytes)
    }

    /// Checks the total length of tags, or of the attributes of a node.
    pub(super) fn check_tags(
        &self,
        id: &Arc<str>,
        what: &'static str,
        tags: &BTreeMap<String, String>,
    ) -> Result<(), Rejection> {
        let bytes = tags.iter().map(|(name, text)| name.len() + text.len()).sum();
        self.check_bytes(id, what, bytes, self.tag_bytes)
    }

    /// Checks the texts of a new application.
    pub(super) fn check_submission(
        &self,
        id: &Arc<str>,
        new: &si::AddApplicationRequest,
    ) -> Result<(), Rejection> {
        self.check_bytes(id, "the name of its queue", new.queue_name.len(), QUEUE_BYTES)?;
        self.check_tags(id, "the sum of its tags", &new.tags)?;
        for group in &new.task_groups {
            self.check_tags(id, "the sum of the tags of a task group", &group.tags)?;
        }
        let Some(ugi) = &new.ugi else { return Ok(()) };
        self.check_text(id, "the name of its user", &ugi.user)?;
        for group in &ugi.groups {
            self.check_text(id, "the name of a group of its user", group)?;
        }
        let all = ugi.groups.iter().map(String::len).sum();
        self.check_bytes(id, "the list of its user's groups", all, self.tag_bytes)
    }

    fn check_bytes(
        &self,
        id: &Arc<str>,
        what: &'static str,
        bytes: usize,
        limit: usize,
    ) -> Result<(), Rejection> {
        if bytes <= limit {
            return Ok(());
        }
        let id = if id.len() > self.id_bytes { Arc::from("") } else { Arc::clone(id) };
        Err(Rejection::TextTooLong { id, what: what.into(), limit })
    }

    /// Checks the name of the task group of an ask or allocation. A placeholder needs one.
    pub(super) fn check_group(
        &self,
        key: &Arc<str>,
        placeholder: bool,
        group: &str,
    ) -> Result<(), Rejection> {
        match group.len() {
            0 if placeholder => Err(Rejection::PlaceholderWithoutGroup(Arc::clone(key))),
            length if length > self.id_bytes => Err(Rejection::GroupName(Arc::clone(key))),
            _ => Ok(()),
        }
    }

    pub(super) fn check_repeat(&self, key: &Arc<str>, repeat: i32) -> Result<u32, Rejection> {
        match u32::try_from(repeat) {
            Ok(count) if (1..=self.max_repeat).contains(&count) => Ok(count),
            _ => Err(Rejection::Repeat { key: Arc::clone(key), repeat, limit: self.max_repeat }),
        }
    }

    /// The enforced execution timeout of an ask, ms.
    pub(super) fn execution_timeout(&self, milliseconds: i64) -> Option<NonZeroU64> {
        timeout(milliseconds).filter(|_| self.enforces_execution_timeout)
    }

    /// Reads the tags of an ask that affect decisions.
    pub(super) fn attributes(&self, tags: &BTreeMap<String, String>) -> Attributes {
        let exact_ns = tags::created_ns(|name| tags.get(name).map(String::as_str));
        let seconds = tags.get(CREATION_TIME).and_then(|text| text.parse::<i64>().ok());
        let seconds_ns = seconds.and_then(|seconds| seconds.checked_mul(1_000_000_000));
        let required = tags.get(REQUIRED_NODE).filter(|node| self.check_id(node).is_ok());
        Attributes {
            created_ns: exact_ns.or(seconds_ns),
            required_node: required.map(|node| Arc::from(node.as_str())),
        }
    }
}

/// Reads the limit of run times that an RM claims of an ask or application with this id. One that
/// cannot be read counts as absent, and the log names it.
pub(super) fn limit_in(tags: &BTreeMap<String, String>, rm: &str, id: &str) -> Option<NonZeroU64> {
    run_time_limit(tags.get(RUN_TIME_LIMIT)?).unwrap_or_else(|error| {
        tracing::warn!(rm = %rm, %id, %error, "claimed limit of run times ignored");
        None
    })
}

/// The tags of an ask that affect decisions: `docs/applications.md#what-a-request-says`.
pub(super) struct Attributes {
    pub(super) created_ns: Option<i64>,
    pub(super) required_node: Option<Arc<str>>,
}

/// Whether an ask may be preempted and may preempt others. The two fields of a policy are independent.
/// Without a policy, the ask preempts no others, and a tag says whether it may be preempted.
pub(super) fn preemption(
    policy: Option<&si::PreemptionPolicy>,
    tags: &BTreeMap<String, String>,
) -> Preemption {
    if let Some(policy) = policy {
        return Preemption::new(policy.allow_preempt_self, policy.allow_preempt_other);
    }
    let of_itself = tags.get(ALLOW_PREEMPTION).is_none_or(|text| !is_false(text));
    Preemption::without_policy(of_itself)
}

/// Reads a time in milliseconds; zero and negative values mean none.
pub(super) fn timeout(milliseconds: i64) -> Option<NonZeroU64> {
    u64::try_from(milliseconds).ok().and_then(NonZeroU64::new)
}

/// The task group of an ask, if it names one.
pub(super) fn task_group(name: String) -> Option<TaskGroup> {
    (!name.is_empty()).then(|| TaskGroup::new(name))
}

/// Reads an amount to be allocated. At least one quantity must be above zero, and none negative.
pub(super) fn wanted(
    key: &Arc<str>,
    resource: Option<&si::Resource>,
    names: &NameHolder,
) -> Result<Resources, Rejection> {
    let resources = amount(key, resource, names)?;
    if resources.has_negative() {
        return Err(Rejection::NegativeResource(Arc::clone(key)));
    }
    if resources.is_zero() {
        return Err(Rejection::NoResource(Arc::clone(key)));
    }
    Ok(resources)
}

/// Reads an amount that a node reports; `None` if it reports none.
pub(super) fn counted(
    id: &Arc<str>,
    resource: Option<&si::Resource>,
    names: &NameHolder,
) -> Result<Option<Resources>, Rejection> {
    let Some(resource) = resource else { return Ok(None) };
    let resources = amount(id, Some(resource), names)?;
    if resources.has_negative() {
        let why = format!("negative quantity in {resources}");
        return Err(Rejection::NodeInvalid { id: Arc::clone(id), why });
    }
    Ok(Some(resources.pruned()))
}

/// Reads a measured amount; `None` if it is negative or cannot be read. Resource types that are named
/// nowhere else are left out, since there is nothing to compare them with.
pub(crate) fn measured(resource: Option<&si::Resource>) -> Option<Resources> {
    let known = |name: &str| Ok(Name::known(name));
    amounts_by(resource, known).ok().filter(|usage| !usage.has_negative())
}

pub(super) fn amount(
    id: &Arc<str>,
    resource: Option<&si::Resource>,
    names: &NameHolder,
) -> Result<Resources, Rejection> {
    amounts(resource, names).map_err(|why| match why {
        NotCounted::Name(why) => Rejection::Names { id: Arc::clone(id), why },
        NotCounted::TooMuch { resource, amount } => {
            let why = Overflow::Amount { resource: Arc::from(resource), amount };
            Rejection::Overflow { id: Arc::clone(id), why }
        }
    })
}

/// An amount that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotCounted {
    #[error("{0}")]
    Name(String),
    #[error("{amount} of `{resource}` is above {QUANTITY_MAX}")]
    TooMuch { resource: String, amount: i64 },
}

/// Reads an amount. The RM uses its resource types from now on.
pub(super) fn amounts(
    resource: Option<&si::Resource>,
    names: &NameHolder,
) -> Result<Resources, NotCounted> {
    amounts_by(resource, |name| names.hold(name).map(Some))
}

/// Reads an amount; types for which `named` returns no name are left out.
fn amounts_by(
    resource: Option<&si::Resource>,
    named: impl Fn(&str) -> Result<Option<Name>, TooManyNames>,
) -> Result<Resources, NotCounted> {
    let mut resources = Resources::new();
    for (name, quantity) in resource.iter().flat_map(|resource| &resource.resources) {
        if name.len() > NAME_BYTES {
            let why = format!("a resource name is longer than {NAME_BYTES} bytes");
            return Err(NotCounted::Name(why));
        }
        if quantity.value > QUANTITY_MAX {
            let (resource, amount) = (shown(name), quantity.value);
            return Err(NotCounted::TooMuch { resource, amount });
        }
        let name = named(name).map_err(|error| NotCounted::Name(error.to_string()))?;
        if let Some(name) = name {
            resources.set(name, quantity.value);
        }
    }
    Ok(resources)
}

pub(super) fn shared(tags: BTreeMap<String, String>) -> Option<Tags> {
    (!tags.is_empty()).then(|| Arc::new(TagMap::from(tags)))
}

pub(super) fn is_false(text: &str) -> bool {
    matches!(text, "0" | "f" | "F" | "FALSE" | "false" | "False")
}

pub(super) fn first_of<'a>(one: &'a str, other: &'a str) -> &'a str {
    if one.is_empty() { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_cannot_be_read_counts_as_absent() {
        let limit = |text: &str| {
            let tags = [(RUN_TIME_LIMIT.to_owned(), text.to_owned())].into();
            limit_in(&tags, "rm", "a").map(u64::from)
        };
        assert_eq!(limit("1h30m"), Some(5_400_000));
        assert_eq!(["", "0", "-1s", "5", "soon"].map(limit), [None; 5]);
    }

    #[test]
    fn without_policy_an_ask_is_preemptable_and_preempts_nobody() {
        let tagged = |value: &str| [(ALLOW_PREEMPTION.to_owned(), value.to_owned())].into();
        let told = |policy: Preemption| (policy.of_itself(), policy.of_others(), policy.is_said());
        assert_eq!(told(preemption(None, &BTreeMap::new())), (true, false, false));
        assert_eq!(told(preemption(None, &tagged("false"))), (false, false, false));
        assert_eq!(told(preemption(None, &tagged("perhaps"))), (true, false, false));
        let empty = si::PreemptionPolicy::default();
        assert_eq!(preemption(Some(&empty), &tagged("true")), Preemption::Neither);
        let both = si::PreemptionPolicy { allow_preempt_self: true, allow_preempt_other: true };
        assert_eq!(preemption(Some(&both), &tagged("false")), Preemption::Both);
    }
}
