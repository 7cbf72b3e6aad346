//! Checks maxima and guarantees level by level. A queue with a guarantee above the maximum of an
//! ancestor would wait for it forever.

use std::sync::Arc;

use super::draft::Draft;
use super::{Field, Located};
use crate::document::{QueueResources, Texts};
use crate::error::Report;
use crate::shown::ShownResources;
use monoceros_rules::values::quantity::{self, all_written as written};
use monoceros_rules::values::resources::{Limits, Resources};

use super::templates::shown_texts;

impl Draft {
    /// Checks the resource hierarchy. `parent_max` is the least of the maxima above. Returns the
    /// guarantee of this queue, for the comparison with its parent.
    pub(super) fn check_resources(
        &mut self,
        parent_max: &Limits,
        report: &mut Report,
    ) -> Resources {
        let path = self.path.clone();
        let resources = &self.raw.resources;
        self.guaranteed = match &resources.guaranteed {
            Field::Given(texts) => {
                let of = format!("guaranteed of queue `{path}`");
                let guaranteed = quantities(texts, &of, None, report).unwrap_or_default();
                warn_of_zeros(&guaranteed, &of, "which is no guarantee", texts, report);
                guaranteed
            }
            Field::Absent | Field::Bad => Resources::new(),
        };
        let max = self.max(report).clone();
        let resources = &self.raw.resources;
        let place_of_guaranteed = resources.guaranteed.place_or(&self.raw.place);
        let place_of_max = resources.max.place_or(&self.raw.place);
        if !max.allows(&self.guaranteed) {
            let (guaranteed, max) = (written(&self.guaranteed.sorted()), written(&max.sorted()));
            let message =
                format!("queue `{path}` is guaranteed {guaranteed}, more than its max {max}");
            report.error("E_GUAR_GT_MAX", place_of_guaranteed, message);
        }
        if !parent_max.allows(&max.as_resources()) {
            let message = format!(
                "queue `{path}` has the max {}, more than the queues above it allow, {}",
                written(&max.sorted()),
                written(&parent_max.sorted())
            );
            report.error("E_MAX_GT_PARENT", place_of_max, message);
        }
        let mut effective_max = max;
        effective_max.narrow(parent_max);
        let mut sum = Resources::new();
        for child in &mut self.children {
            sum.add(&child.check_resources(&effective_max, report));
        }
        // For the sum of the children, a type that this queue does not guarantee is not compared,
        // as with limits.
        if !Limits::from(self.guaranteed.clone()).allows(&sum) {
            let message = format!(
                "the children of queue `{path}` are guaranteed {} together, more than its own \
                 guarantee {}",
                written(&sum.sorted()),
                written(&self.guaranteed.sorted())
            );
            report.error("E_CHILD_GUAR_GT_PARENT_GUAR", place_of_guaranteed, message);
        }
        if !effective_max.allows(&sum) {
            let message = format!(
                "the children of queue `{path}` are guaranteed {} together, more than it may use, {}",
                written(&sum.sorted()),
                written(&effective_max.sorted())
            );
            report.error("E_CHILD_GUAR_GT_MAX", place_of_max, message);
        }
        if self.guaranteed.is_zero() { sum } else { self.guaranteed.clone() }
    }

    /// Returns the queue's own maximum. It is unlimited if it cannot be read, which is reported on
    /// the first call.
    pub(super) fn max(&mut self, report: &mut Report) -> &Limits {
        let (path, max) = (&self.path, &self.raw.resources.max);
        self.max.get_or_insert_with(|| match max {
            Field::Given(texts) => Limits::from(read_max(texts, path, report)),
            Field::Absent | Field::Bad => Limits::unlimited(),
        })
    }
}

fn read_max(texts: &Located<Texts>, path: &str, report: &mut Report) -> Resources {
    let of = format!("max of queue `{path}`");
    let Some(max) = quantities(texts, &of, None, report) else { return Resources::new() };
    warn_of_zeros(&max, &of, "which sets no quota", texts, report);
    max
}

/// Warns if all amounts are zero: such amounts count as absent, while their author probably means
/// "none of it".
pub(super) fn warn_of_zeros(
    amounts: &Resources,
    of: &str,
    effect: &str,
    texts: &Located<Texts>,
    report: &mut Report,
) {
    if !amounts.is_empty() && amounts.is_zero() {
        let message = format!(
            "{of} lists only zeros, {effect} at all; a zero counts where another quantity is above \
             zero"
        );
        report.warn(&texts.place, message);
    }
}

/// Reads a resource map, called `of` in messages. `None` if a quantity is wrong. `code` replaces
/// the general error code of a wrong quantity.
pub(super) fn quantities(
    texts: &Located<Texts>,
    of: &str,
    code: Option<&'static str>,
    report: &mut Report,
) -> Option<Resources> {
    let mut quantities = Resources::new();
    let mut all_read = true;
    let names = Arc::clone(&report.names);
    for (resource, Located { value: text, place }) in &texts.value {
        let mut wrong = |of_error: &'static str, message: String| {
            report.error(code.unwrap_or(of_error), place, format!("{of}: {message}"));
            all_read = false;
        };
        match quantity::parse(resource, text) {
            _ if resource.is_empty() => wrong("E_CONF_PARSE", "a resource has no name".to_owned()),
            Err(error) => wrong(error.code(), error.message()),
            Ok(quantity) => match names.hold(resource) {
                Err(error) => wrong("E_CONF_PARSE", error.to_string()),
                Ok(name) => quantities.set(name, quantity),
            },
        }
    }
    all_read.then_some(quantities)
}

impl QueueResources {
    pub(super) fn shown(&self) -> ShownResources {
        let shown = |texts: &Field<Texts>| texts.value().map(shown_texts);
        ShownResources {
            guaranteed: shown(&self.guaranteed).unwrap_or_default(),
            max: shown(&self.max).unwrap_or_default(),
        }
    }
}
