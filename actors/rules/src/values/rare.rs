//! Rare parts: fields that few entries of a kind have.
//!
//! # Why
//! There may be a million requests and a million allocations, most of them without special
//! attributes. The attributes of the few that have some are behind one pointer, which is the only
//! cost for the others. Reading works in both cases: absent attributes read as defaults.

use std::ops::Deref;

use serde::{Deserialize, Serialize};

/// A type with a constant default.
pub trait Nothing: Default + 'static {
    /// The default value as a constant: the one of `Default`, which cannot be a constant.
    const NOTHING: &'static Self;
}

/// Parts that most entries lack. See the [module](self).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rare<T>(Option<Box<T>>);

impl<T: Nothing> Rare<T> {
    /// Builds it from these parts, which are not all defaults.
    pub fn of(parts: T) -> Self {
        Self(Some(Box::new(parts)))
    }

    /// Whether there are any parts.
    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Whether there are none.
    pub fn is_nothing(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the parts to be changed, and creates them if there are none.
    pub fn make(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }

    /// Returns the parts to be changed, if there are any.
    pub fn find_mut(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }
}

impl<T: Nothing> Deref for Rare<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::NOTHING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Label(Option<String>);

    impl Nothing for Label {
        const NOTHING: &'static Self = &Self(None);
    }

    #[test]
    fn it_reads_as_nothing_until_something_is_said() {
        let text = |label: &Rare<Label>| {
            let Label(text) = &**label;
            text.clone()
        };
        let mut label = Rare::<Label>::default();
        assert_eq!(text(&label), None);
        assert!(label.find_mut().is_none(), "whoever only takes away makes nothing");
        label.make().0 = Some("fragile".to_owned());
        assert_eq!(text(&label).as_deref(), Some("fragile"));
        assert!(label.find_mut().is_some());
    }
}
