//! Compares the limits of users and groups on a queue with those of the queues above.
//!
//! The walk goes down the tree with one map of the limits above for each user and group. The map
//! changes on the way into a queue and is restored on the way out, so the time is proportional to
//! the text, not to users times queues.

use std::collections::HashMap;

use super::draft::Draft;
use super::limits::WILDCARD;
use super::{Limit, Located};
use crate::error::Report;
use monoceros_rules::queues::LimitConfig;
use monoceros_rules::values::quantity::all_written as written;
use monoceros_rules::values::resources::Limits;

/// Checks the resources of all limits, then all numbers of applications.
pub(super) fn check(root: &Draft, report: &mut Report) {
    walk(root, &mut Above::default(), &mut |entry, above| resources(entry, above, report));
    walk(root, &mut Above::default(), &mut |entry, above| applications(entry, above, report));
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    User,
    Group,
}

/// One name of one limit.
struct Entry<'d> {
    kind: Kind,
    name: &'d str,
    raw: &'d Limit,
    limit: &'d LimitConfig,
    queue: &'d str,
}

/// A limit from above, and the queue that sets it.
#[derive(Clone)]
struct Allowed<'d, V> {
    value: V,
    queue: &'d str,
}

type Above<'d, V> = HashMap<(Kind, &'d str), Allowed<'d, V>>;

/// The limit above that an entry is compared with.
enum Compared<'a, 'd, V> {
    Nothing,
    /// The limit of the same name.
    Own(&'a Allowed<'d, V>),
    /// The limit of `*`, because the name has none.
    Wildcard(&'a Allowed<'d, V>),
}

/// Calls `judge` with each entry of the tree. It returns the limit for the queues below, or `None`
/// if nothing changes for them.
fn walk<'d, V>(
    queue: &'d Draft,
    above: &mut Above<'d, V>,
    judge: &mut impl FnMut(&Entry<'d>, &Compared<'_, 'd, V>) -> Option<V>,
) {
    debug_assert_eq!(queue.raw.limits.listed().len(), queue.limits.len(), "each limit was checked");
    let mut passed = Vec::new();
    for (raw, limit) in queue.raw.limits.listed().iter().zip(&queue.limits) {
        let users = raw.users.listed().iter().map(|name| (Kind::User, name));
        let groups = raw.groups.listed().iter().map(|name| (Kind::Group, name));
        for (kind, Located { value: name, .. }) in users.chain(groups) {
            let compared = if let Some(own) = above.get(&(kind, &**name)) {
                Compared::Own(own)
            } else {
                above.get(&(kind, WILDCARD)).map_or(Compared::Nothing, Compared::Wildcard)
            };
            let entry = Entry { kind, name, raw, limit, queue: &queue.path };
            if let Some(value) = judge(&entry, &compared) {
                passed.push(((kind, &**name), Allowed { value, queue: &queue.path }));
            }
        }
    }
    // Written after the loop, because entries of one queue are not compared with each other.
    let mut restore = Vec::with_capacity(passed.len());
    for (key, allowed) in passed {
        restore.push((key, above.insert(key, allowed)));
    }
    for child in &queue.children {
        walk(child, above, judge);
    }
    for (key, before) in restore.into_iter().rev() {
        match before {
            Some(allowed) => above.insert(key, allowed),
            None => above.remove(&key),
        };
    }
}

fn resources(
    entry: &Entry<'_>,
    compared: &Compared<'_, '_, Limits>,
    report: &mut Report,
) -> Option<Limits> {
    let is_written = entry.raw.max_resources.value().is_some_and(|texts| !texts.is_empty());
    if entry.raw.max_resources.is_bad() || (is_written && entry.limit.max_resources.is_none()) {
        return None; // reported by the checks of its own queue
    }
    let mut own = entry.limit.max_resources.clone().unwrap_or_default();
    let (above, code) = match compared {
        Compared::Nothing => return Some(own),
        Compared::Own(above) => (above, "E_LIMIT_RES_GT_ANCESTOR"),
        Compared::Wildcard(above) => (above, "E_LIMIT_RES_GT_WILDCARD"),
    };
    if !above.value.allows(&own.as_resources()) {
        let message = format!(
            "{} may use {} of queue `{}`, more than the {} of queue `{}` above{}; write no more \
             than that",
            entry.subject(),
            written(&own.sorted()),
            entry.queue,
            written(&above.value.sorted()),
            above.queue,
            compared.by_wildcard(),
        );
        let place = entry.raw.max_resources.place_or(&entry.raw.place);
        report.error(code, place, message);
    }
    if let Compared::Own(above) = compared {
        own.narrow(&above.value);
    }
    Some(own)
}

fn applications(
    entry: &Entry<'_>,
    compared: &Compared<'_, '_, u64>,
    report: &mut Report,
) -> Option<u64> {
    if entry.raw.max_applications.is_bad() {
        return None;
    }
    let own = entry.limit.max_applications;
    let (above, code) = match compared {
        Compared::Nothing => return Some(own),
        Compared::Own(above) => (above, "E_LIMIT_APPS_GT_ANCESTOR"),
        Compared::Wildcard(above) => (above, "E_LIMIT_APPS_GT_WILDCARD"),
    };
    let most = above.value;
    if most != 0 && (own == 0 || own > most) {
        let (subject, queue) = (entry.subject(), entry.queue);
        let own = if own == 0 { "0, unlimited,".to_owned() } else { own.to_string() };
        let message = format!(
            "{subject} has maxapplications {own} in queue `{queue}`, more than the {most} of queue \
             `{}` above{}; write 1 to {most}",
            above.queue,
            compared.by_wildcard(),
        );
        let place = entry.raw.max_applications.place_or(&entry.raw.place);
        report.error(code, place, message);
    }
    Some(own)
}

impl Entry<'_> {
    fn subject(&self) -> String {
        let kind = match self.kind {
            Kind::User => "user",
            Kind::Group => "group",
        };
        format!("{kind} `{}`", self.name)
    }
}

impl<V> Compared<'_, '_, V> {
    fn by_wildcard(&self) -> &'static str {
        match self {
            Self::Wildcard(_) => " for all who are not named there (`*`)",
            Self::Nothing | Self::Own(_) => "",
        }
    }
}
