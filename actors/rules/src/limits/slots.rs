//! Things at numbered slots; a number may be used again once its thing is gone. Places and lanes
//! refer to each other by number, which needs no owner and no look-up by name.

/// A vector with gaps, and the numbers of the gaps.
#[derive(Debug)]
pub(super) struct Slots<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Inserts what is made for its number.
    pub(super) fn insert_with(&mut self, thing: impl FnOnce(u32) -> T) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("slots fit u32")
        });
        self.slots[slot as usize] = Some(thing(slot));
        slot
    }

    pub(super) fn remove(&mut self, slot: u32) -> T {
        self.free.push(slot);
        self.slots[slot as usize].take().expect("what is removed is there")
    }

    pub(super) fn find(&self, slot: u32) -> Option<&T> {
        self.slots[slot as usize].as_ref()
    }

    pub(super) fn find_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.slots[slot as usize].as_mut()
    }

    pub(super) fn get(&self, slot: u32) -> &T {
        self.find(slot).expect("a slot is used while its thing is there")
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> &mut T {
        self.find_mut(slot).expect("a slot is used while its thing is there")
    }
}
