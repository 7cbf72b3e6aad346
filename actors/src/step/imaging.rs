//! An image under way: the states of actors, each as it was when the image was begun.
//!
//! # Why actors wait for nobody
//! Copying a large partition takes tens of milliseconds, and decisions would wait while it is done in
//! one step. So an image is begun in one step and gathered in slices, with other steps in between;
//! an actor that the baton reaches before its slice does gives its state first, before anything in
//! it changes. What came after the image was begun is not in it.

use crate::application::ApplicationImage;
use crate::node::NodeImage;

/// The image under way, and the number of images so far. It travels with the baton.
#[derive(Default)]
pub(crate) struct Imaging {
    /// The number of images that were begun.
    n_begun: u64,
    gathered: Option<Box<Gathering>>,
}

/// The states that an image has got so far.
#[derive(Default)]
pub(crate) struct Gathering {
    pub(crate) applications: Vec<ApplicationImage>,
    pub(crate) nodes: Vec<NodeImage>,
}

/// What an actor knows of images: the number of the last one that has its state, or that was begun
/// before the actor.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Imaged(u64);

impl Imaging {
    /// Begins an image. One that was under way is forgotten.
    pub(crate) fn begin(&mut self) {
        self.n_begun += 1;
        self.gathered = Some(Box::default());
    }

    /// Ends the image, and returns the states that it has; `None`: none is under way.
    pub(crate) fn end(&mut self) -> Option<Gathering> {
        self.gathered.take().map(|gathered| *gathered)
    }

    /// What an actor knows that is new.
    pub(crate) fn of_new(&self) -> Imaged {
        Imaged(self.n_begun)
    }

    /// Returns the image under way, if it has not got the state of this actor yet. The caller has to
    /// give it.
    #[inline]
    pub(crate) fn wants(&mut self, imaged: &mut Imaged) -> Option<&mut Gathering> {
        let gathered = self.gathered.as_deref_mut()?;
        let is_new = std::mem::replace(&mut imaged.0, self.n_begun) != self.n_begun;
        is_new.then_some(gathered)
    }
}
