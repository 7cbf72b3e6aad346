//! Reads a partition except for its queues: placement rules, limits, node order, preemption and
//! resolver.

use super::keys::{
    FilterKey, Key as _, LimitKey, NodeOrderKey, PartitionKey, PreemptionKey, QueueKey,
    ResolverKey, RuleKey,
};
use super::{Cursor, Field, Filter, Partition, Reader, Rule};

impl Reader<'_> {
    pub(super) fn partition(&mut self, at: &Cursor<'_>) -> Partition {
        let mut partition = Partition {
            place: at.place(),
            name: Field::Absent,
            queues: Field::Absent,
            placement: Vec::new(),
            limits: Field::Absent,
            preemption: Field::Absent,
            quota_preemption: Field::Absent,
            node_order_policy: Field::Absent,
            node_order_weights: Vec::new(),
            resolver: Field::Absent,
        };
        for (key, at) in self.fields::<PartitionKey>(at) {
            match key {
                PartitionKey::Name => partition.name = self.text(&at),
                PartitionKey::Queues => {
                    partition.queues = self.list(&at, QueueKey::OF, Self::queue);
                }
                PartitionKey::PlacementRules => {
                    if let Field::Given(rules) = self.list(&at, RuleKey::OF, Self::rule) {
                        partition.placement = rules.value;
                    }
                }
                PartitionKey::Limits => {
                    partition.limits = self.list(&at, LimitKey::OF, Self::limit);
                }
                PartitionKey::Preemption => self.preemption(&at, &mut partition),
                PartitionKey::NodeSortPolicy => self.node_order(&at, &mut partition),
                PartitionKey::UserGroupResolver => self.resolver(&at, &mut partition),
            }
        }
        partition
    }

    fn rule(&mut self, at: &Cursor<'_>) -> Rule {
        let mut rule = Rule {
            place: at.place(),
            name: Field::Absent,
            create: false,
            filter: Filter::default(),
            parent: None,
            value: Field::Absent,
        };
        for (key, at) in self.fields::<RuleKey>(at) {
            match key {
                RuleKey::Name => rule.name = self.text(&at),
                RuleKey::Create => rule.create = self.truth(&at).value() == Some(&true),
                RuleKey::Filter => rule.filter = self.filter(&at),
                RuleKey::Parent => {
                    if self.is_mapping(&at, RuleKey::OF) && !at.is_null() {
                        rule.parent = Some(Box::new(self.rule(&at)));
                    }
                }
                RuleKey::Value => rule.value = self.text(&at),
            }
        }
        rule
    }

    fn filter(&mut self, at: &Cursor<'_>) -> Filter {
        let mut filter = Filter { place: Some(at.place()), ..Filter::default() };
        if !self.is_mapping(at, FilterKey::OF) {
            return filter;
        }
        for (key, at) in self.fields::<FilterKey>(at) {
            match key {
                FilterKey::Type => filter.kind = self.text(&at),
                FilterKey::Users => filter.users = self.names(&at),
                FilterKey::Groups => filter.groups = self.names(&at),
            }
        }
        filter
    }

    fn preemption(&mut self, at: &Cursor<'_>, partition: &mut Partition) {
        if !self.is_mapping(at, PreemptionKey::OF) {
            return;
        }
        for (key, at) in self.fields::<PreemptionKey>(at) {
            match key {
                PreemptionKey::Enabled => partition.preemption = self.truth(&at),
                PreemptionKey::QuotaPreemptionEnabled => {
                    partition.quota_preemption = self.truth(&at);
                }
            }
        }
    }

    fn node_order(&mut self, at: &Cursor<'_>, partition: &mut Partition) {
        if !self.is_mapping(at, NodeOrderKey::OF) {
            return;
        }
        for (key, at) in self.fields::<NodeOrderKey>(at) {
            match key {
                NodeOrderKey::Type => partition.node_order_policy = self.text(&at),
                NodeOrderKey::ResourceWeights => partition.node_order_weights = self.weights(&at),
            }
        }
    }

    fn resolver(&mut self, at: &Cursor<'_>, partition: &mut Partition) {
        if !self.is_mapping(at, ResolverKey::OF) {
            return;
        }
        for (key, at) in self.fields::<ResolverKey>(at) {
            match key {
                ResolverKey::Type => partition.resolver = self.text(&at),
            }
        }
    }
}
