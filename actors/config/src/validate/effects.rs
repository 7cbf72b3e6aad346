//! Finds settings that have no effect where they are written, and limits that no request can
//! satisfy.
//!
//! Such a configuration loads, so each finding is a warning: its author probably meant something
//! else.

use super::draft::Draft;
use super::{Field, Located, Partition, settings};
use crate::RuleConfig;
use crate::error::Report;
use crate::settings::Standing;
use monoceros_rules::queues::Acl;
use monoceros_rules::values::resources::Limits;

/// Resource types that almost every request needs.
const WANTED_BY_ALL: [&str; 3] = ["memory", "pods", "vcore"];

/// Warns about the queues of a partition.
pub(super) fn check(root: &Draft, raw: &Partition, rules: &[RuleConfig], report: &mut Report) {
    let creates = rules.iter().any(|rule| rule.create);
    let mut why_none = |why: &str| {
        let message = format!("partition `{}`: {why}", partition_name(raw));
        report.warn(&raw.place, message);
    };
    if !creates && !has_leaf(root) {
        why_none("no queue is a leaf, so no application can run");
    }
    let is_open = lets_anybody_in(root);
    if !is_open {
        why_none(
            "no queue has a `submitacl`, so nobody may submit; `submitacl: \"*\"` of `root` lets \
             everybody",
        );
    }
    let preemption = super::preemption(raw);
    let mut walk = Walk { is_open, creates, preemption, report };
    walk.queue(root, Above::default());
}

fn partition_name(raw: &Partition) -> &str {
    match raw.name.text() {
        "" => super::DEFAULT_PARTITION,
        name => name,
    }
}

/// Permissions and settings of the queues above a queue.
#[derive(Clone, Copy, Default)]
struct Above<'d> {
    /// Path of the queue in which everybody may submit.
    open_to_all: Option<&'d str>,
    /// Path of the queue that everybody may administer.
    administered_by_all: Option<&'d str>,
    /// Whether anybody may submit.
    open_to_anybody: bool,
    backs_off: bool,
}

struct Walk<'r> {
    /// Whether anybody may submit somewhere.
    is_open: bool,
    /// Whether some placement rule creates queues.
    creates: bool,
    preemption: crate::PreemptionFlags,
    report: &'r mut Report,
}

impl Walk<'_> {
    fn queue<'d>(&mut self, queue: &'d Draft, mut above: Above<'d>) {
        let path = &queue.path;
        self.lists(queue, above);
        let administers = queue.admin_acl.is_everybody();
        if administers || queue.submit_acl.is_everybody() {
            above.open_to_all.get_or_insert(path);
        }
        if administers {
            above.administered_by_all.get_or_insert(path);
        }
        above.open_to_anybody |= grants(queue);
        if queue.is_leaf() && self.is_open && !above.open_to_anybody {
            let message = format!(
                "nobody may submit to queue `{path}`: neither it nor a queue above it has a `submitacl`"
            );
            self.report.warn(&queue.raw.place, message);
        }
        let of = format!("queue `{path}`");
        if let Some(max) = &queue.max {
            self.max(max, &format!("max of {of}"), &queue.raw.resources.max);
        }
        self.max_applications(&queue.raw.max_applications, &of);
        for (number, (raw, limit)) in
            queue.raw.limits.listed().iter().zip(&queue.limits).enumerate()
        {
            let title = raw.title(number, path);
            if let Some(max) = &limit.max_resources {
                self.max(max, &format!("maxresources of {title}"), &raw.max_resources);
            }
            self.max_applications(&raw.max_applications, &title);
        }
        self.template(queue);
        above.backs_off |= backs_off(queue);
        let standing = Standing {
            is_root: queue.is_root,
            is_template: false,
            has_leaf: has_leaf(queue),
            preempts: self.preemption.enabled,
            preempts_quotas: self.preemption.quota,
            backs_off: above.backs_off || any_below(queue, &backs_off),
        };
        settings::warn_of_no_effect(&queue.raw.properties, &standing, &of, self.report);
        for child in &queue.children {
            self.queue(child, above);
        }
    }

    /// Warns about access lists that repeat a permission granted above. A list that admits
    /// everybody is taken as intended.
    fn lists(&mut self, queue: &Draft, above: Above<'_>) {
        for (key, list, written, granted) in [
            ("submitacl", &queue.submit_acl, &queue.raw.submit_acl, above.open_to_all),
            ("adminacl", &queue.admin_acl, &queue.raw.admin_acl, above.administered_by_all),
        ] {
            let (Field::Given(Located { place, .. }), Some(granted)) = (written, granted) else {
                continue;
            };
            if list.is_everybody() || *list == Acl::default() {
                continue;
            }
            let message = format!(
                "the `{key}` of queue `{}` has no effect: that of `{granted}` is `*`, and what is \
                 granted above, no list below takes back",
                queue.path
            );
            self.report.warn(place, message);
        }
    }

    /// Warns about a maximum that excludes almost every request.
    fn max<T>(&mut self, max: &Limits, of: &str, written: &Field<T>) {
        let named = max.sorted();
        let Field::Given(Located { place, .. }) = written else {
            debug_assert!(named.is_empty(), "{of} has amounts that nobody wrote");
            return;
        };
        if named.iter().all(|(_, most)| *most == 0) {
            return;
        }
        for (name, _) in
            named.iter().filter(|(name, most)| *most == 0 && WANTED_BY_ALL.contains(&&**name))
        {
            let message = format!(
                "{of} has {name} 0, so that nothing may run that wants any; leave {name} out where it \
                 is not to be limited"
            );
            self.report.warn(place, message);
        }
    }

    fn max_applications(&mut self, written: &Field<u64>, of: &str) {
        if let Field::Given(Located { value: 0, place }) = written {
            let message =
                format!("maxapplications 0 of {of} has no effect: it is any number, and not none");
            self.report.warn(place, message);
        }
    }

    fn template(&mut self, queue: &Draft) {
        let (Field::Given(Located { value: raw, place }), Some(template)) =
            (&queue.raw.template, &queue.template)
        else {
            return;
        };
        let of = format!("the child template of queue `{}`", queue.path);
        if !self.creates {
            let message = format!(
                "{of} has no effect: no placement rule makes queues, as those with `create: true` do"
            );
            self.report.warn(place, message);
        }
        if let Some(max) = &template.max {
            self.max(max, &format!("max of {of}"), &raw.resources.max);
        }
        self.max_applications(&raw.max_applications, &of);
        let standing = Standing {
            is_root: false,
            is_template: true,
            has_leaf: true,
            preempts: self.preemption.enabled,
            preempts_quotas: self.preemption.quota,
            backs_off: settings::backs_off(&raw.properties),
        };
        settings::warn_of_no_effect(&raw.properties, &standing, &of, self.report);
    }
}

fn backs_off(queue: &Draft) -> bool {
    settings::backs_off(&queue.raw.properties)
}

/// Whether the queue's own lists let anybody submit; administrators may submit, too.
fn grants(queue: &Draft) -> bool {
    let nobody = Acl::default();
    queue.submit_acl != nobody || queue.admin_acl != nobody
}

fn lets_anybody_in(queue: &Draft) -> bool {
    grants(queue) || any_below(queue, &grants)
}

fn has_leaf(queue: &Draft) -> bool {
    queue.is_leaf() || any_below(queue, &Draft::is_leaf)
}

fn any_below(queue: &Draft, is_so: &impl Fn(&Draft) -> bool) -> bool {
    queue.children.iter().any(|child| is_so(child) || any_below(child, is_so))
}
