//! Reads a partition except for its queues: placement rules, limits, node order, preemption and
//! resolver.

use super::keys::{self, KNOWN_ONLY};
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
        for (key, at) in self.fields(at, &keys::PARTITION) {
            match key {
                "name" => partition.name = self.text(&at),
                "queues" => partition.queues = self.list(&at, &keys::QUEUE, Self::queue),
                "placementrules" => {
                    if let Field::Given(rules) = self.list(&at, &keys::RULE, Self::rule) {
                        partition.placement = rules.value;
                    }
                }
                "limits" => partition.limits = self.list(&at, &keys::LIMIT, Self::limit),
                "preemption" => self.preemption(&at, &mut partition),
                "nodesortpolicy" => self.node_order(&at, &mut partition),
                "usergroupresolver" => self.resolver(&at, &mut partition),
                _ => unreachable!("{KNOWN_ONLY}"),
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
        for (key, at) in self.fields(at, &keys::RULE) {
            match key {
                "name" => rule.name = self.text(&at),
                "create" => rule.create = self.truth(&at).value() == Some(&true),
                "filter" => rule.filter = self.filter(&at),
                "parent" => {
                    if self.is_mapping(&at, &keys::RULE) && !at.is_null() {
                        rule.parent = Some(Box::new(self.rule(&at)));
                    }
                }
                "value" => rule.value = self.text(&at),
                _ => unreachable!("{KNOWN_ONLY}"),
            }
        }
        rule
    }

    fn filter(&mut self, at: &Cursor<'_>) -> Filter {
        let mut filter = Filter { place: Some(at.place()), ..Filter::default() };
        if !self.is_mapping(at, &keys::FILTER) {
            return filter;
        }
        for (key, at) in self.fields(at, &keys::FILTER) {
            match key {
                "type" => filter.kind = self.text(&at),
                "users" => filter.users = self.names(&at),
                "groups" => filter.groups = self.names(&at),
                _ => unreachable!("{KNOWN_ONLY}"),
            }
        }
        filter
    }

    fn preemption(&mut self, at: &Cursor<'_>, partition: &mut Partition) {
        if !self.is_mapping(at, &keys::PREEMPTION) {
            return;
        }
        for (key, at) in self.fields(at, &keys::PREEMPTION) {
            match key {
                "enabled" => partition.preemption = self.truth(&at),
                "quotapreemptionenabled" => partition.quota_preemption = self.truth(&at),
                _ => unreachable!("{KNOWN_ONLY}"),
            }
        }
    }

    fn node_order(&mut self, at: &Cursor<'_>, partition: &mut Partition) {
        if !self.is_mapping(at, &keys::NODE_ORDER) {
            return;
        }
        for (key, at) in self.fields(at, &keys::NODE_ORDER) {
            match key {
                "type" => partition.node_order_policy = self.text(&at),
                "resourceweights" => partition.node_order_weights = self.weights(&at),
                _ => unreachable!("{KNOWN_ONLY}"),
            }
        }
    }

    fn resolver(&mut self, at: &Cursor<'_>, partition: &mut Partition) {
        if !self.is_mapping(at, &keys::RESOLVER) {
            return;
        }
        for (key, at) in self.fields(at, &keys::RESOLVER) {
            match key {
                "type" => partition.resolver = self.text(&at),
                _ => unreachable!("{KNOWN_ONLY}"),
            }
        }
    }
}
