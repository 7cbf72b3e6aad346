//! Checks the names, access lists and numbers of applications of a queue. Resources, limits and
//! templates are checked in files of their own.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Field, Limit, Located, Queue, settings};
use crate::document::{self, QueueResources};
use crate::error::{Location, Report};
use crate::shown::ShownQueue;
use monoceros_rules::order::ledger;
use monoceros_rules::queues::{Acl, LimitConfig, QueueConfig, Template};
use monoceros_rules::values::names::{is_queue_name, is_reserved};
use monoceros_rules::values::resources::{Limits, Resources};

const ROOT: &str = "root";

/// A queue under validation: its written settings, and those already checked.
pub(super) struct Draft {
    /// The written settings, without children.
    pub(super) raw: Queue,
    /// Name as written; empty if absent.
    pub(super) name: String,
    /// Path as written, for messages.
    pub(super) path: String,
    pub(super) is_root: bool,
    pub(super) admin_acl: Acl,
    pub(super) submit_acl: Acl,
    pub(super) guaranteed: Resources,
    /// `None` until [`Self::max()`] is called for the first time.
    pub(super) max: Option<Limits>,
    /// One entry for each limit of the text.
    pub(super) limits: Vec<LimitConfig>,
    pub(super) template: Option<Arc<Template>>,
    pub(super) children: Vec<Draft>,
}

/// Largest properties of a queue in bytes, inherited ones included.
const PROPERTIES_BYTES: usize = 64 << 10;
/// Largest properties of all queues of a partition together, bytes.
const ALL_PROPERTIES_BYTES: usize = 16 << 20;

impl Draft {
    /// Takes the root queue from the top-level ones, or inserts one above them.
    pub(super) fn root_of(mut queues: Vec<Queue>, report: &mut Report) -> Self {
        let is_root = |queue: &Queue| queue.name.text().eq_ignore_ascii_case(ROOT);
        if let [only] = &*queues
            && is_root(only)
        {
            let mut root = queues.pop().expect("there is one");
            let QueueResources { guaranteed, max } = &mut root.resources;
            for (key, resources) in [("guaranteed", guaranteed), ("max", max)] {
                if let Field::Given(Located { place, .. }) = resources {
                    let message = format!(
                        "the root queue cannot have `{key}`: what it offers is what the nodes have"
                    );
                    report.error("E_ROOT_RESOURCES", place, message);
                }
                *resources = Field::Absent;
            }
            root.parent = true;
            return Self::of(root, "");
        }
        if let Some(beside) = queues.iter().find(|queue| is_root(queue)) {
            let message = "`root` is not the only queue at the top, so that it became \
                           `root.root`; move the other queues below it";
            report.warn(&beside.place, message);
        }
        Self::of(Queue::inserted_root(queues), "")
    }

    fn of(mut raw: Queue, parent: &str) -> Self {
        let is_root = parent.is_empty();
        let name = if is_root { ROOT.to_owned() } else { raw.name.text().to_owned() };
        let path = match (parent, &*name) {
            ("", _) => name.clone(),
            (_, "") => format!("{parent}.(unnamed)"),
            _ => format!("{parent}.{name}"),
        };
        let children = std::mem::take(&mut raw.queues);
        Self {
            children: children.into_iter().map(|child| Self::of(child, &path)).collect(),
            raw,
            name,
            path,
            is_root,
            admin_acl: Acl::default(),
            submit_acl: Acl::default(),
            guaranteed: Resources::new(),
            max: None,
            limits: Vec::new(),
            template: None,
        }
    }

    /// Checks access lists and limits, then the names of the children, then the children in the
    /// same way. The root is at level 0.
    pub(super) fn check_structure(&mut self, level: usize, report: &mut Report) {
        self.admin_acl = acl(&self.raw.admin_acl, report);
        self.submit_acl = acl(&self.raw.submit_acl, report);
        self.check_limits(report);
        let mut first_lines = HashMap::new();
        for child in &self.children {
            child.check_name(&self.path, level + 1, &mut first_lines, report);
        }
        for child in &mut self.children {
            child.check_structure(level + 1, report);
        }
    }

    fn check_name(
        &self,
        parent: &str,
        level: usize,
        first_lines: &mut HashMap<String, usize>,
        report: &mut Report,
    ) {
        if self.raw.name.is_bad() {
            return;
        }
        let place = self.raw.name.place_or(&self.raw.place);
        let name = &self.name;
        if !is_queue_name(name) {
            let dots = if name.contains('.') {
                "; for a user name, write `_dot_` for each dot"
            } else {
                ""
            };
            let message = format!(
                "`{name}` is not a queue name: it takes 1 to 64 characters of a-z A-Z 0-9 _ : # / \
                 @ -{dots}"
            );
            report.error("E_QUEUE_NAME", place, message);
            return;
        }
        if level == 1 && is_reserved(name) {
            let message = format!(
                "the queue `{name}` below root belongs to the scheduler; choose another name of 1 \
                 to 64 characters of a-z A-Z 0-9 _ : # / @ -"
            );
            report.error("E_QUEUE_NAME", place, message);
            return;
        }
        if let Some(line) = first_lines.get(&name.to_ascii_lowercase()) {
            let message = format!(
                "`{parent}` already has a queue `{name}` at level {level}, on line {line}; case \
                 does not count"
            );
            report.error("E_QUEUE_DUP", place, message);
        } else {
            first_lines.insert(name.to_ascii_lowercase(), place.line);
        }
    }

    /// Checks that if a parent limits its applications, each child has a limit that is no higher.
    pub(super) fn check_max_applications(&self, report: &mut Report) {
        let own = self.max_applications();
        for child in &self.children {
            if child.raw.max_applications.is_bad() {
                continue;
            }
            let place = child.raw.max_applications.place_or(&child.raw.place);
            let (limit, parent, path) = (child.max_applications(), &self.path, &child.path);
            if own != 0 && limit == 0 {
                let message = format!(
                    "queue `{path}` has maxapplications 0, unlimited, below `{parent}` with {own}; \
                     write 1 to {own}"
                );
                report.error("E_MAXAPPS_CHILD_UNSET", place, message);
            } else if own != 0 && limit > own {
                let message = format!(
                    "queue `{path}` has maxapplications {limit}, more than `{parent}` with {own}"
                );
                report.error("E_MAXAPPS_CHILD_LARGER", place, message);
            }
        }
        for child in &self.children {
            child.check_max_applications(report);
        }
    }

    /// Maximum number of applications; 0 is unlimited.
    pub(super) fn max_applications(&self) -> u64 {
        self.raw.max_applications.value().copied().unwrap_or(0)
    }

    /// Whether the queue holds applications.
    pub(super) fn is_leaf(&self) -> bool {
        !self.raw.parent && self.children.is_empty()
    }

    /// Checks the memory for inherited properties: each queue has a copy of all properties above
    /// it. If the bound is exceeded, all properties are dropped.
    pub(super) fn fit_properties(&mut self, report: &mut Report) {
        if !self.properties_fit(0, &mut 0, report) {
            self.drop_properties();
        }
    }

    fn properties_fit(&self, inherited: usize, all: &mut usize, report: &mut Report) -> bool {
        let own = |(key, text): &(String, Located<String>)| key.len() + text.value.len();
        let here = inherited + self.raw.properties.iter().map(own).sum::<usize>();
        *all += here;
        let (has, bytes, most) = if here > PROPERTIES_BYTES {
            ("has", here, PROPERTIES_BYTES)
        } else if *all > ALL_PROPERTIES_BYTES {
            ("and those before it have", *all, ALL_PROPERTIES_BYTES)
        } else {
            return self.children.iter().all(|child| child.properties_fit(here, all, report));
        };
        let message = format!(
            "queue `{}` {has} {bytes} bytes of properties, with all that is inherited; at most {most} \
             are taken",
            self.path
        );
        report.error("E_PROPERTIES_BYTES", &self.raw.place, message);
        false
    }

    fn drop_properties(&mut self) {
        self.raw.properties.clear();
        self.children.iter_mut().for_each(Self::drop_properties);
    }

    pub(super) fn check_properties(&self, report: &mut Report) {
        settings::check(&self.raw.properties, report);
        for child in &self.children {
            child.check_properties(report);
        }
    }

    pub(super) fn build(&self, parent: Option<&QueueConfig>) -> QueueConfig {
        let name = self.name.to_ascii_lowercase();
        let path = parent.map_or_else(|| name.clone(), |parent| format!("{}.{name}", parent.path));
        let is_leaf = self.is_leaf();
        let inherited = parent.map(|parent| &parent.properties);
        let properties = settings::effective(inherited, &self.raw.properties);
        let mut queue = QueueConfig {
            name: Arc::from(name),
            path: Arc::from(path),
            is_leaf,
            max: self.max.as_ref().and_then(|max| ledger::stored_limits(&max.as_resources())),
            guaranteed: ledger::stored_guaranteed(&self.guaranteed),
            max_applications: self.max_applications(),
            submit_acl: self.submit_acl.clone(),
            admin_acl: self.admin_acl.clone(),
            settings: settings::managed(&properties, is_leaf),
            properties,
            template: self.template.clone(),
            limits: self.limits.clone(),
            is_dynamic: false,
            children: Vec::new(),
        };
        queue.children = self.children.iter().map(|child| child.build(Some(&queue))).collect();
        queue
    }

    pub(super) fn shown(&self) -> ShownQueue {
        let raw = &self.raw;
        ShownQueue {
            name: self.name.clone(),
            parent: raw.parent,
            resources: raw.resources.shown(),
            max_applications: self.max_applications(),
            properties: super::templates::shown_texts(&raw.properties),
            admin_acl: raw.admin_acl.text().to_owned(),
            submit_acl: raw.submit_acl.text().to_owned(),
            child_template: raw.template.value().map(document::Template::shown).unwrap_or_default(),
            queues: self.children.iter().map(Self::shown).collect(),
            limits: raw.limits.listed().iter().map(Limit::shown).collect(),
        }
    }
}

impl Queue {
    fn inserted_root(queues: Vec<Self>) -> Self {
        let place = Location::top();
        let name = Field::Given(Located { value: ROOT.to_owned(), place: place.clone() });
        Self { name, parent: true, queues, ..Self::at(place) }
    }
}

/// Reads an access list; one that cannot be read admits nobody.
fn acl(text: &Field<String>, report: &mut Report) -> Acl {
    let Field::Given(Located { value: text, place }) = text else { return Acl::default() };
    match Acl::parse_with_dropped(text) {
        Ok((acl, dropped)) => {
            for name in dropped {
                let what = match name {
                    "" => "an empty name".to_owned(),
                    _ => format!("`{name}`, which nobody can be called,"),
                };
                let message = format!(
                    "{what} in the access list `{text}` is left out; users come before the space, \
                     groups after it"
                );
                report.warn(place, message);
            }
            acl
        }
        Err(error) => {
            report.error("E_ACL_SPACES", place, error.to_string());
            Acl::default()
        }
    }
}
