//! The sort key of an application in its leaf.

use super::application::Application;
use crate::order::keys::{ApplicationKey, ApplicationView};
use crate::queues::QueueConfig;

impl Application {
    /// Returns the key by which a leaf with this configuration orders the application; `None` if it
    /// has no pending asks.
    pub fn sort_key(&self, leaf: &QueueConfig) -> Option<ApplicationKey> {
        if self.asks.pending().is_empty() {
            return None;
        }
        let view = ApplicationView {
            priority: self.asks.priority(),
            lacks_members: self.lacks_members(),
            submitted: self.submitted_ns,
            allocated: self.allocated(),
            guaranteed: leaf.guaranteed.as_ref(),
            id: &self.id,
        };
        let settings = &leaf.settings;
        Some(ApplicationKey::new(settings.sort_policy, settings.priority_sort, &view))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::specs::ask::AskSpec;
    use crate::values::resources::Resources;

    #[test]
    fn only_an_application_with_pending_asks_has_a_key() {
        let (mut book, leaf) = (Application::small(None), QueueConfig::bare("root.a", true));
        assert!(book.sort_key(&leaf).is_none());
        book.asks.put(AskSpec::new("a", Resources::of(&[("vcore", 1)])), 0, 1);
        assert_eq!(book.sort_key(&leaf).map(|key| key.id().to_string()), Some("app".to_owned()));
    }
}
