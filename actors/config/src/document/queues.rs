//! Reads a queue and its child queues, with their resources, templates and limits.

use super::keys::{self, KNOWN_ONLY};
use super::{Cursor, Field, Limit, Located, Queue, QueueResources, Reader, Template, Texts};
use crate::error::Location;

impl Reader<'_> {
    pub(super) fn queue(&mut self, at: &Cursor<'_>) -> Queue {
        let mut queue = Queue::at(at.place());
        for (key, at) in self.fields(at, &keys::QUEUE) {
            match key {
                "name" => queue.name = self.text(&at),
                "parent" => queue.parent = self.truth(&at).value() == Some(&true),
                "queues" => {
                    if let Field::Given(below) = self.list(&at, &keys::QUEUE, Self::queue) {
                        queue.queues = below.value;
                    }
                }
                "resources" => queue.resources = self.resources(&at),
                "maxapplications" => queue.max_applications = self.count(&at),
                "properties" => queue.properties = self.properties(&at),
                "adminacl" => queue.admin_acl = self.text(&at),
                "submitacl" => queue.submit_acl = self.text(&at),
                "childtemplate" => queue.template = self.template(&at),
                "limits" => queue.limits = self.list(&at, &keys::LIMIT, Self::limit),
                _ => unreachable!("{KNOWN_ONLY}"),
            }
        }
        queue
    }

    fn resources(&mut self, at: &Cursor<'_>) -> QueueResources {
        let mut resources = QueueResources::default();
        if !self.is_mapping(at, &keys::RESOURCES) {
            return resources;
        }
        for (key, at) in self.fields(at, &keys::RESOURCES) {
            match key {
                "guaranteed" => resources.guaranteed = self.texts(&at),
                "max" => resources.max = self.texts(&at),
                _ => unreachable!("{KNOWN_ONLY}"),
            }
        }
        resources
    }

    fn template(&mut self, at: &Cursor<'_>) -> Field<Template> {
        if at.is_null() {
            return Field::Absent;
        }
        if !self.is_mapping(at, &keys::TEMPLATE) {
            return Field::Bad;
        }
        let mut template = Template::default();
        for (key, at) in self.fields(at, &keys::TEMPLATE) {
            match key {
                "maxapplications" => template.max_applications = self.count(&at),
                "properties" => template.properties = self.properties(&at),
                "resources" => template.resources = self.resources(&at),
                _ => unreachable!("{KNOWN_ONLY}"),
            }
        }
        Field::Given(Located { value: template, place: at.place() })
    }

    pub(super) fn limit(&mut self, at: &Cursor<'_>) -> Limit {
        let mut limit = Limit {
            place: at.place(),
            description: Field::Absent,
            users: Field::Absent,
            groups: Field::Absent,
            max_resources: Field::Absent,
            max_applications: Field::Absent,
        };
        for (key, at) in self.fields(at, &keys::LIMIT) {
            match key {
                "limit" => limit.description = self.text(&at),
                "users" => limit.users = self.names(&at),
                "groups" => limit.groups = self.names(&at),
                "maxresources" => limit.max_resources = self.texts(&at),
                "maxapplications" => limit.max_applications = self.count(&at),
                _ => unreachable!("{KNOWN_ONLY}"),
            }
        }
        limit
    }

    fn properties(&mut self, at: &Cursor<'_>) -> Texts {
        match self.texts(at) {
            Field::Given(properties) => properties.value,
            Field::Absent | Field::Bad => Vec::new(),
        }
    }
}

impl Queue {
    /// Returns a queue without any settings, written at `place`.
    pub(crate) fn at(place: Location) -> Self {
        Self {
            place,
            name: Field::Absent,
            parent: false,
            queues: Vec::new(),
            resources: QueueResources::default(),
            max_applications: Field::Absent,
            properties: Vec::new(),
            admin_acl: Field::Absent,
            submit_acl: Field::Absent,
            template: Field::Absent,
            limits: Field::Absent,
        }
    }
}
