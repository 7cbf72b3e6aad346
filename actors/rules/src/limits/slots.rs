//! Things at numbered places; a number may be used again once its thing is gone.

/// See the module.
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
    pub(super) fn insert(&mut self, thing: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Some(thing);
            return slot;
        }
        self.slots.push(Some(thing));
        u32::try_from(self.slots.len() - 1).expect("slots fit u32")
    }

    pub(super) fn remove(&mut self, slot: u32) -> T {
        self.free.push(slot);
        self.slots[slot as usize].take().expect("what is removed is there")
    }

    pub(super) fn find(&self, slot: u32) -> Option<&T> {
        self.slots[slot as usize].as_ref()
    }

    pub(super) fn get(&self, slot: u32) -> &T {
        self.find(slot).expect("a slot is used while its thing is there")
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> &mut T {
        self.slots[slot as usize].as_mut().expect("a slot is used while its thing is there")
    }

    /// In order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.slots).filter_map(|(slot, thing)| Some((slot, thing.as_ref()?)))
    }
}
