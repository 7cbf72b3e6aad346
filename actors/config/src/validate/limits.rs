//! Checks the limits of one queue.
//!
//! The order of the checks matters, because an entry is valid or not depending on the entries
//! before it. [`super::inherited`] compares limits with those of the queues above.

use std::collections::HashMap;

use super::draft::Draft;
use super::resources::quantities;
use super::templates::shown_texts;
use super::{Field, Limit, Located};
use crate::document::Names;
use crate::error::Report;
use crate::shown::ShownLimit;
use monoceros_rules::queues::LimitConfig;
use monoceros_rules::values::names;
use monoceros_rules::values::quantity::all_written as written;
use monoceros_rules::values::resources::{Limits, Resources};

/// Name of the limit for users or groups without a limit of their own.
pub(super) const WILDCARD: &str = "*";

/// The checks shared by users and groups, with the words and codes of each.
struct Subjects {
    word: &'static str,
    is_name: fn(&str) -> bool,
    of_names: &'static str,
    bad_name: &'static str,
    duplicate: &'static str,
    after_wildcard: &'static str,
}

const USERS: Subjects = Subjects {
    word: "user",
    is_name: names::is_user,
    of_names: "it begins with a letter or `_`, goes on with those, digits and : # / . @ -, and may \
               end in one `$`",
    bad_name: "E_LIMIT_USER_NAME",
    duplicate: "E_LIMIT_USER_DUP",
    after_wildcard: "E_LIMIT_USER_AFTER_WILDCARD",
};
const GROUPS: Subjects = Subjects {
    word: "group",
    is_name: names::is_group,
    of_names: "it begins with a letter or `_` and goes on with those, digits and : . -",
    bad_name: "E_LIMIT_GROUP_NAME",
    duplicate: "E_LIMIT_GROUP_DUP",
    after_wildcard: "E_LIMIT_GROUP_AFTER_WILDCARD",
};

/// The names listed so far in the limits of a queue, each with its line.
#[derive(Default)]
struct Seen<'r> {
    lines: HashMap<&'r str, usize>,
    /// Whether a name other than the wildcard was listed, valid or not.
    any_named: bool,
}

impl Draft {
    /// Moves the limits of the partition to the root queue.
    pub(super) fn take_partition_limits(
        &mut self,
        of_partition: &Field<Vec<Limit>>,
        report: &mut Report,
    ) {
        let Field::Given(limits) = of_partition else { return };
        if limits.value.is_empty() || self.raw.limits.is_bad() {
            return;
        }
        if self.raw.limits.listed().is_empty() {
            self.raw.limits = of_partition.clone();
        } else if !has_same_content(&limits.value, self.raw.limits.listed()) {
            let message = format!(
                "the partition has limits and so has its root queue, on line {}, and they differ; \
                 remove one of the two lists, or make them equal in content, order and descriptions",
                self.raw.limits.place_or(&self.raw.place).line
            );
            report.error("E_LIMITS_DIFFER", &limits.place, message);
        }
    }

    /// Checks each entry: its names, its amounts, and that the queue itself allows as much.
    pub(super) fn check_limits(&mut self, report: &mut Report) {
        let raw = std::mem::take(&mut self.raw.limits);
        let (mut users, mut groups) = (Seen::default(), Seen::default());
        self.limits = (raw.listed().iter().enumerate())
            .map(|(number, limit)| {
                let title = limit.title(number, &self.path);
                limit.check_subjects(&title, &mut users, &mut groups, report);
                let max_resources = limit.read_resources(&title, report);
                limit.check_not_empty(&title, report);
                self.check_against_own(limit, &title, max_resources.as_ref(), report);
                limit.build(max_resources)
            })
            .collect();
        self.raw.limits = raw;
    }

    /// Checks that no user or group is allowed more than the whole queue.
    fn check_against_own(
        &mut self,
        limit: &Limit,
        title: &str,
        max_resources: Option<&Resources>,
        report: &mut Report,
    ) {
        let own = self.max_applications();
        if let Field::Given(Located { value, place }) = &limit.max_applications
            && own != 0
            && own < *value
        {
            let message = format!(
                "{title}: maxapplications {value} is more than the {own} of the queue; write 1 to \
                 {own}"
            );
            report.error("E_LIMIT_APPS_GT_QUEUE", place, message);
        }
        if self.is_root {
            return;
        }
        let max = self.max(report);
        if let Some(resources) = max_resources
            && !max.allows(resources)
        {
            let message = format!(
                "{title}: maxresources {} is more than the max of the queue, {}; write no more than \
                 that",
                written(&resources.sorted()),
                written(&max.sorted())
            );
            let place = limit.max_resources.place_or(&limit.place);
            report.error("E_LIMIT_RES_GT_QUEUE", place, message);
        }
    }
}

impl Limit {
    /// The name of this limit in messages.
    pub(super) fn title(&self, number: usize, queue: &str) -> String {
        match self.description.text() {
            "" => format!("limit {} of queue `{queue}`", number + 1),
            text => format!("limit `{text}` of queue `{queue}`"),
        }
    }

    /// Checks that an entry has names, that they are valid, and that each occurs once on the queue.
    fn check_subjects<'r>(
        &'r self,
        title: &str,
        users: &mut Seen<'r>,
        groups: &mut Seen<'r>,
        report: &mut Report,
    ) {
        let is_unread = self.users.is_bad() || self.groups.is_bad();
        if !is_unread && self.users.listed().is_empty() && self.groups.listed().is_empty() {
            let message = format!(
                "{title} is for nobody: list `users` or `groups`; users [\"*\"] is everybody"
            );
            report.error("E_LIMIT_NO_SUBJECT", &self.place, message);
        }
        USERS.check(&self.users, title, users, report);
        GROUPS.check(&self.groups, title, groups, report);
        let wildcard = self.groups.listed().iter().find(|group| group.value == WILDCARD);
        if let Some(wildcard) = wildcard
            && !groups.any_named
        {
            let message = format!(
                "{title}: the group `*` is for those whom no other group fits, and no other is \
                 limited here before it; name one, or write users [\"*\"] for each user alone"
            );
            report.error("E_LIMIT_GROUP_ONLY_WILDCARD", &wildcard.place, message);
        }
    }

    /// Reads the amounts of an entry, which must not all be zero. `None` if there are none or they
    /// cannot be read.
    fn read_resources(&self, title: &str, report: &mut Report) -> Option<Resources> {
        let Field::Given(texts) = &self.max_resources else { return None };
        if texts.value.is_empty() {
            return None;
        }
        let of = format!("maxresources of {title}");
        let resources = quantities(texts, &of, None, report)?;
        if resources.is_positive() {
            return Some(resources);
        }
        let message = format!(
            "{of} are {}, nothing at all; write one quantity above zero, or remove them",
            written(&resources.sorted())
        );
        report.error("E_LIMIT_RES_ZERO", &texts.place, message);
        None
    }

    /// Checks that an entry limits something.
    fn check_not_empty(&self, title: &str, report: &mut Report) {
        let has_resources = match &self.max_resources {
            Field::Given(texts) => !texts.value.is_empty(),
            Field::Bad => true,
            Field::Absent => false,
        };
        let has_applications = match &self.max_applications {
            Field::Given(count) => count.value != 0,
            Field::Bad => true,
            Field::Absent => false,
        };
        if !has_resources && !has_applications {
            let message = format!(
                "{title} limits nothing: maxapplications is 0 and there are no maxresources; write \
                 one of them, or remove the limit"
            );
            report.error("E_LIMIT_EMPTY", &self.place, message);
        }
    }

    fn build(&self, max_resources: Option<Resources>) -> LimitConfig {
        LimitConfig {
            description: self.description.text().to_owned(),
            users: plain(&self.users),
            groups: plain(&self.groups),
            max_resources: max_resources.map(Limits::from),
            max_applications: self.max_applications.value().copied().unwrap_or(0),
        }
    }

    pub(super) fn shown(&self) -> ShownLimit {
        ShownLimit {
            limit: self.description.text().to_owned(),
            users: plain(&self.users),
            groups: plain(&self.groups),
            max_resources: self.max_resources.value().map(shown_texts).unwrap_or_default(),
            max_applications: self.max_applications.value().copied().unwrap_or(0),
        }
    }
}

impl Subjects {
    /// Checks the names of users or of groups: valid, unique, none after the wildcard. Each name is
    /// reported for its first fault only.
    fn check<'r>(&self, names: &'r Names, title: &str, seen: &mut Seen<'r>, report: &mut Report) {
        let word = self.word;
        for Located { value: name, place } in names.listed() {
            seen.any_named |= name != WILDCARD;
            if name != WILDCARD && !(self.is_name)(name) {
                let message = format!(
                    "{title}: `{name}` is not the name of a {word}: {}; `*` is all others",
                    self.of_names
                );
                report.error(self.bad_name, place, message);
            } else if let Some(line) = seen.lines.get(&**name) {
                let message = format!(
                    "{title}: the {word} `{name}` has a limit on this queue already, on line \
                     {line}; keep one of the two"
                );
                report.error(self.duplicate, place, message);
            } else if let Some(line) = seen.lines.get(WILDCARD) {
                let message = format!(
                    "{title}: the {word} `{name}` comes after `*`, on line {line}; put `*` last"
                );
                report.error(self.after_wildcard, place, message);
            } else {
                seen.lines.insert(name, place.line);
            }
        }
    }
}

/// Whether two lists have the same content in the same order.
fn has_same_content(left: &[Limit], right: &[Limit]) -> bool {
    left.iter().map(Limit::shown).eq(right.iter().map(Limit::shown))
}

fn plain(names: &Names) -> Vec<String> {
    names.listed().iter().map(|name| name.value.clone()).collect()
}
