//! Parts that few things of a kind have.
//!
//! # Why
//! There may be a million requests and a million allocations, most of which were asked for and placed
//! without anything else. What a few of them have beside that stands behind one pointer, which is all
//! that the others pay. It reads as if it were there: where nothing was said, as nothing.

use std::ops::Deref;

use serde::{Deserialize, Serialize};

/// What reads as nothing.
pub trait Nothing: Default + 'static {
    /// The value where nothing was said: that of `Default`, which cannot be a constant.
    const NOTHING: &'static Self;
}

/// Parts of a thing that most do not have. See the [module](self).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rare<T>(Option<Box<T>>);

impl<T: Nothing> Rare<T> {
    /// Of these parts, some of which are there.
    pub fn of(parts: T) -> Self {
        Self(Some(Box::new(parts)))
    }

    /// Whether anything was said.
    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// To be changed, and made where there is nothing yet.
    pub fn make(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }

    /// To be changed, if anything is there.
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
