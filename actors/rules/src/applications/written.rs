//! The reading of an application from its serialized form.

use std::sync::Arc;

use super::application::Application;
use crate::nodes::NodeIndex;

impl Application {
    /// Looks up in the index the terms of all placement constraints, after the application and the
    /// index were read from their serialized forms. Returns whether the index has all of them.
    ///
    /// It is called for every application before any step: the index drops terms that have no
    /// other holder.
    #[must_use]
    pub fn look_up_terms(&mut self, nodes: &NodeIndex) -> bool {
        let mut has_all = self.asks.look_up_terms(nodes);
        let groups = self.native_mut().map(|native| native.groups_mut()).into_iter().flatten();
        for terms in groups.filter_map(|group| group.terms.as_mut()) {
            match nodes.terms_of(terms.constraint()) {
                Some(known) => *terms = Arc::clone(known),
                None => has_all = false,
            }
        }
        has_all
    }
}
