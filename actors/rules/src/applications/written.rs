//! The reading of an application from its serialized form.

use std::sync::Arc;

use super::application::Application;
use super::native::Native;
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
        let groups = self.native_mut().map(Native::groups_mut).into_iter().flatten();
        for terms in groups.filter_map(|group| group.terms.as_mut()) {
            match nodes.terms_of(terms.constraint()) {
                Some(known) => *terms = Arc::clone(known),
                None => has_all = false,
            }
        }
        has_all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocations::AllocationTable;
    use crate::nodes::NodeOrder;
    use crate::specs::ask::AskSpec;
    use crate::specs::constraint::{AskConstraint, Constraint, Expression, Operator, Simple};
    use crate::specs::declaration::DeclaredGroup;
    use crate::values::again::written_and_read;
    use crate::values::ids::ApplicationSlot;
    use crate::values::resources::Resources;

    fn in_zone(zone: &str) -> Constraint {
        let (operator, values) = (Operator::In, vec![zone.to_owned()]);
        let node = vec![Expression { operator, key: "zone".to_owned(), values }];
        Constraint::Simple(Simple { node, near: None })
    }

    /// Builds an application with an ask and a declared gang, each with its constraint.
    fn application(nodes: &mut NodeIndex) -> Application {
        let constraint = Some(in_zone("gang"));
        let size = Some(Resources::of(&[("vcore", 1)]));
        let group = DeclaredGroup { constraint, ..DeclaredGroup::new("w", 2, size) };
        let mut application = Application::small(Some(group));
        let (of_nobody, own) = (AllocationTable::new(), ApplicationSlot::at(0));
        for group in application.native_mut().unwrap().groups_mut() {
            let constraint = group.spec.as_ref().unwrap().constraint.clone().unwrap();
            group.terms = Some(nodes.learn(&constraint, &of_nobody).unwrap());
        }
        application.ask_internally(own, 0, || 1);
        let constraint = Arc::new(AskConstraint::new(in_zone("ask"), None).unwrap().unwrap());
        let terms = nodes.learn(&constraint, &of_nobody).unwrap();
        let spec = AskSpec::new("a", Resources::of(&[("vcore", 1)]));
        let spec = spec.with(|it| it.constraint = Some(constraint));
        let (ask, _) = application.asks.put(spec, 0, 2);
        application.set_wish(ask, Some(terms), 0, own);
        application
    }

    #[test]
    fn terms_are_shared_with_the_index_again_and_dropped_with_their_last_holder() {
        let mut nodes = NodeIndex::new(NodeOrder::default());
        let application = application(&mut nodes);
        let mut read = written_and_read(&application);
        nodes = written_and_read(&nodes);
        assert!(read.look_up_terms(&nodes));
        nodes.forget_unused_terms();
        let asks = read.asks.iter().map(|ask| ask.wish().unwrap().terms());
        let groups = read.native().unwrap().groups().iter().flat_map(|group| &group.terms);
        let held: Vec<_> = asks.chain(groups).collect();
        assert_eq!(held.len(), 3);
        for terms in held {
            assert!(Arc::ptr_eq(terms, nodes.terms_of(terms.constraint()).unwrap()));
        }
        let ask = read.asks.slot_of("a").unwrap();
        read.asks.withdraw(ask);
        nodes.forget_unused_terms();
        assert!(!written_and_read(&application).look_up_terms(&nodes), "it is not there any more");
        assert!(read.look_up_terms(&nodes), "that of the gang is");
    }
}
