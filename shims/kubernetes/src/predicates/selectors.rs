//! Selectors of labels and nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::objects::{Meta as _, Node};

/// Labels of an object.
pub(super) type Labels = BTreeMap<String, String>;

/// Returns whether labels match a selector. A selector without requirements matches all labels. An
/// unknown operator matches none.
///
/// ```
/// # use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
/// # use monoceros_kubernetes::predicates::labels_match;
/// let app = |name: &str| [("app".to_owned(), name.to_owned())].into();
/// let selector = LabelSelector { match_labels: Some(app("web")), ..Default::default() };
/// assert!(labels_match(&selector, &app("web")));
/// assert!(!labels_match(&selector, &app("db")));
/// assert!(labels_match(&LabelSelector::default(), &app("db")));
/// ```
pub fn labels_match(selector: &LabelSelector, labels: &Labels) -> bool {
    let equal = selector.match_labels.iter().flatten();
    let expressions = selector.match_expressions.iter().flatten();
    equal.into_iter().all(|(key, value)| labels.get(key) == Some(value))
        && expressions.into_iter().all(|requirement| {
            let values = requirement.values.as_deref().unwrap_or_default();
            let value = labels.get(&requirement.key);
            match requirement.operator.as_str() {
                "In" => value.is_some_and(|value| values.contains(value)),
                "NotIn" => value.is_none_or(|value| !values.contains(value)),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

/// Returns whether one of the terms admits the node. A term needs all its requirements; an empty
/// term admits no node.
pub(super) fn terms_admit(terms: &[NodeSelectorTerm], node: &Node) -> bool {
    terms.iter().any(|term| {
        let expressions = term.match_expressions.as_deref().unwrap_or_default();
        let fields = term.match_fields.as_deref().unwrap_or_default();
        let is_empty = expressions.is_empty() && fields.is_empty();
        let label = |key: &str| node.label(key);
        let field = |key: &str| (key == "metadata.name").then(|| node.name());
        !is_empty
            && expressions.iter().all(|requirement| holds(requirement, label(&requirement.key)))
            && fields.iter().all(|requirement| holds(requirement, field(&requirement.key)))
    })
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_listed = |value: &str| values.iter().any(|one| one == value);
    let number = |text: &str| text.parse::<i64>().ok();
    let bound = || values.first().and_then(|text| number(text));
    match requirement.operator.as_str() {
        "In" => value.is_some_and(is_listed),
        "NotIn" => value.is_none_or(|value| !is_listed(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => value.and_then(number).zip(bound()).is_some_and(|(value, bound)| value > bound),
        "Lt" => value.and_then(number).zip(bound()).is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// Pods that a rule is about.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PodTerm {
    /// Names of namespaces.
    pub(super) namespaces: BTreeSet<String>,
    /// Selects further namespaces by label.
    pub(super) namespace_selector: Option<LabelSelector>,
    /// Labels of the pods. `None` matches no pod.
    pub(super) selector: Option<LabelSelector>,
}

impl PodTerm {
    /// Returns whether the term matches a pod.
    pub(super) fn matches(
        &self,
        namespace: &str,
        labels: &Labels,
        namespaces: &BTreeMap<String, Labels>,
    ) -> bool {
        let is_there = || {
            self.namespaces.contains(namespace)
                || self.namespace_selector.as_ref().is_some_and(|selector| {
                    static NONE: Labels = BTreeMap::new();
                    labels_match(selector, namespaces.get(namespace).unwrap_or(&NONE))
                })
        };
        is_there() && self.selector.as_ref().is_some_and(|selector| labels_match(selector, labels))
    }

    /// Returns the labels by which matching pods can be found: each pod has one of the values of
    /// the key.
    pub(super) fn named(&self) -> impl Iterator<Item = (&str, &[String])> {
        let equal =
            self.selector.iter().flat_map(|selector| selector.match_labels.iter().flatten());
        let equal = equal.map(|(key, value)| (key.as_str(), std::slice::from_ref(value)));
        let listed =
            self.selector.iter().flat_map(|selector| selector.match_expressions.iter().flatten());
        let listed = listed.filter(|requirement| requirement.operator == "In");
        equal.chain(listed.map(|requirement| {
            (requirement.key.as_str(), requirement.values.as_deref().unwrap_or_default())
        }))
    }
}

impl Eq for PodTerm {}

impl Hash for PodTerm {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.namespaces.hash(state);
        for selector in [&self.namespace_selector, &self.selector] {
            let Some(selector) = selector else {
                state.write_u8(0);
                continue;
            };
            state.write_u8(1);
            selector.match_labels.hash(state);
            for LabelSelectorRequirement { key, operator, values } in
                selector.match_expressions.iter().flatten()
            {
                (key, operator, values).hash(state);
            }
        }
    }
}

/// Adds to the selector that these keys have (or do not have) the values of the pod's own labels.
/// Current API servers add this themselves; a repeat changes nothing.
pub(super) fn with_own_labels(
    selector: Option<&LabelSelector>,
    own: &Labels,
    equal: &[String],
    unequal: &[String],
) -> Option<LabelSelector> {
    let mut selector = selector?.clone();
    let requirement = |operator: &str, key: &String| {
        let values = Some(vec![own.get(key)?.clone()]);
        let operator = operator.to_owned();
        Some(LabelSelectorRequirement { key: key.clone(), operator, values })
    };
    let equal = equal.iter().filter_map(|key| requirement("In", key));
    let unequal = unequal.iter().filter_map(|key| requirement("NotIn", key));
    let more: Vec<_> = equal.chain(unequal).collect();
    if !more.is_empty() {
        selector.match_expressions.get_or_insert_default().extend(more);
    }
    Some(selector)
}
