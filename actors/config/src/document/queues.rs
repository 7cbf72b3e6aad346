//! Reads a queue and its child queues, with their resources, templates and limits.

use super::keys::{Key as _, LimitKey, QueueKey, ResourcesKey, TemplateKey};
use super::{Cursor, Field, Limit, Located, Queue, QueueResources, Reader, Template, Texts};
use crate::error::Location;

impl Reader<'_> {
    pub(super) fn queue(&mut self, at: &Cursor<'_>) -> Queue {
        let mut queue = Queue::at(at.place());
        for (key, at) in self.fields::<QueueKey>(at) {
            match key {
                QueueKey::Name => queue.name = self.text(&at),
                QueueKey::Parent => queue.parent = self.truth(&at).value() == Some(&true),
                QueueKey::Queues => {
                    if let Field::Given(below) = self.list(&at, QueueKey::OF, Self::queue) {
                        queue.queues = below.value;
                    }
                }
                QueueKey::Resources => queue.resources = self.resources(&at),
                QueueKey::MaxApplications => queue.max_applications = self.count(&at),
                QueueKey::Properties => queue.properties = self.properties(&at),
                QueueKey::AdminAcl => queue.admin_acl = self.text(&at),
                QueueKey::SubmitAcl => queue.submit_acl = self.text(&at),
                QueueKey::ChildTemplate => queue.template = self.template(&at),
                QueueKey::Limits => queue.limits = self.list(&at, LimitKey::OF, Self::limit),
            }
        }
        queue
    }

    fn resources(&mut self, at: &Cursor<'_>) -> QueueResources {
        let mut resources = QueueResources::default();
        if !self.is_mapping(at, ResourcesKey::OF) {
            return resources;
        }
        for (key, at) in self.fields::<ResourcesKey>(at) {
            match key {
                ResourcesKey::Guaranteed => resources.guaranteed = self.texts(&at),
                ResourcesKey::Max => resources.max = self.texts(&at),
            }
        }
        resources
    }

    fn template(&mut self, at: &Cursor<'_>) -> Field<Template> {
        if at.is_null() {
            return Field::Absent;
        }
        if !self.is_mapping(at, TemplateKey::OF) {
            return Field::Bad;
        }
        let mut template = Template::default();
        for (key, at) in self.fields::<TemplateKey>(at) {
            match key {
                TemplateKey::MaxApplications => template.max_applications = self.count(&at),
                TemplateKey::Properties => template.properties = self.properties(&at),
                TemplateKey::Resources => template.resources = self.resources(&at),
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
        for (key, at) in self.fields::<LimitKey>(at) {
            match key {
                LimitKey::Limit => limit.description = self.text(&at),
                LimitKey::Users => limit.users = self.names(&at),
                LimitKey::Groups => limit.groups = self.names(&at),
                LimitKey::MaxResources => limit.max_resources = self.texts(&at),
                LimitKey::MaxApplications => limit.max_applications = self.count(&at),
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
