//! A walk over all entries of a tree, in order.

use super::{Child, Entry, Node};

/// The position of a walk on each level.
pub(in crate::order::tree) struct Walk<'a, K, V, B> {
    above: Vec<std::slice::Iter<'a, Child<K, V, B>>>,
    leaf: std::slice::Iter<'a, Entry<K, V, B>>,
}

impl<'a, K, V, B> Walk<'a, K, V, B> {
    pub(in crate::order::tree) fn new(root: &'a Node<K, V, B>) -> Self {
        let mut walk = Self { above: Vec::new(), leaf: [].iter() };
        walk.descend(root);
        walk
    }

    /// Builds a walk that begins after the first `entries` entries.
    pub(in crate::order::tree) fn behind(mut node: &'a Node<K, V, B>, mut entries: usize) -> Self {
        let mut walk = Self { above: Vec::new(), leaf: [].iter() };
        loop {
            match node {
                Node::Leaf(leaf) => {
                    walk.leaf = leaf.entries[entries.min(leaf.entries.len())..].iter();
                    return walk;
                }
                Node::Inner(inner) => {
                    let mut children = inner.children.iter();
                    let Some(child) = children.find(|child| {
                        let len = child.node.count();
                        let is_here = entries < len;
                        entries -= if is_here { 0 } else { len };
                        is_here
                    }) else {
                        return walk;
                    };
                    node = &child.node;
                    walk.above.push(children);
                }
            }
        }
    }

    fn descend(&mut self, mut node: &'a Node<K, V, B>) {
        loop {
            match node {
                Node::Leaf(leaf) => {
                    self.leaf = leaf.entries.iter();
                    return;
                }
                Node::Inner(inner) => {
                    let mut children = inner.children.iter();
                    node = &children.next().expect("an inner node has children").node;
                    self.above.push(children);
                }
            }
        }
    }
}

impl<'a, K, V, B> Iterator for Walk<'a, K, V, B> {
    type Item = (&'a K, &'a V, &'a B);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.leaf.next() {
                return Some(entry.parts());
            }
            match self.above.last_mut()?.next() {
                Some(child) => self.descend(&child.node),
                None => {
                    self.above.pop();
                }
            }
        }
    }
}
