//! Checks child templates: the settings that dynamic leaves below a queue start with.
//!
//! Templates are read with the rest of the text, not when a queue is created from them, so that a
//! validated text also loads. Their errors come last.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::draft::Draft;
use super::resources::{quantities, warn_of_zeros};
use super::{Field, Located, settings};
use crate::document::{self, Texts};
use crate::error::Report;
use crate::shown::ShownTemplate;
use monoceros_rules::queues::Template;
use monoceros_rules::values::resources::{Limits, Resources};

const E_TEMPLATE_QTY: &str = "E_TEMPLATE_QTY";

impl Draft {
    /// Reads the templates of this queue and of those below.
    pub(super) fn read_templates(&mut self, report: &mut Report) {
        if let Field::Given(Located { value: raw, place }) = &self.raw.template {
            if self.is_leaf() {
                let message = format!(
                    "queue `{}` is a leaf, so that its `childtemplate` has no effect; write \
                     `parent: true` if queues are to be created below it",
                    self.path
                );
                report.warn(place, message);
            } else if !raw.is_absent() {
                settings::check(&raw.properties, report);
                self.template = Some(Arc::new(raw.read(&self.path, report)));
            }
        }
        for child in &mut self.children {
            child.read_templates(report);
        }
    }
}

impl document::Template {
    /// Whether no setting of the template has an effect.
    fn is_absent(&self) -> bool {
        let counts = |texts: &Texts| texts.iter().any(counts);
        let is_set = |texts: &Field<Texts>| texts.value().is_some_and(counts);
        self.max_applications.value().is_none_or(|count| *count == 0)
            && !counts(&self.properties)
            && !is_set(&self.resources.guaranteed)
            && !is_set(&self.resources.max)
    }

    fn read(&self, queue: &str, report: &mut Report) -> Template {
        let mut read = |key: &str, effect: &str, texts: &Field<Texts>| -> Option<Resources> {
            let Field::Given(texts) = texts else { return None };
            let of = format!("{key} of the child template of queue `{queue}`");
            let amounts = quantities(texts, &of, Some(E_TEMPLATE_QTY), report)?;
            warn_of_zeros(&amounts, &of, effect, texts, report);
            amounts.is_positive().then_some(amounts)
        };
        Template {
            max_applications: self.max_applications.value().copied().unwrap_or(0),
            guaranteed: read("guaranteed", "which is no guarantee", &self.resources.guaranteed),
            max: read("max", "which sets no quota", &self.resources.max).map(Limits::from),
            properties: self
                .properties
                .iter()
                .filter(|entry| counts(entry))
                .map(|(key, text)| (key.clone(), text.value.clone()))
                .collect(),
        }
    }

    pub(super) fn shown(&self) -> ShownTemplate {
        ShownTemplate {
            max_applications: self.max_applications.value().copied().unwrap_or(0),
            properties: shown_texts(&self.properties),
            resources: self.resources.shown(),
        }
    }
}

/// Whether an entry has both a key and a value, and so has an effect.
fn counts((key, text): &(String, Located<String>)) -> bool {
    !key.is_empty() && !text.value.is_empty()
}

/// Texts as they were written.
pub(super) fn shown_texts(texts: &Texts) -> BTreeMap<String, String> {
    texts.iter().map(|(key, text)| (key.clone(), text.value.clone())).collect()
}
