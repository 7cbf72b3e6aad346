//! What the scheduler asked the resource manager to end, and what of it the resource manager has
//! confirmed: so that a script, and a random history above all, can confirm in any order, twice, or
//! never, without knowing beforehand what will be asked for.

use monoceros_proto::si::v1::TerminationType;

use crate::ear::Word;
use crate::script::{Item, Which};

/// What is to end, as the RM names it: by its UUID, or in today's form by its key.
#[derive(Clone, Debug)]
struct Ending {
    app: String,
    which: Which,
    kind: i32,
}

#[derive(Debug, Default)]
pub(crate) struct Endings {
    /// Not confirmed yet, oldest first.
    open: Vec<Ending>,
    confirmed: Vec<Ending>,
}

impl Endings {
    /// The scheduler says this.
    pub(crate) fn hears(&mut self, word: &Word) {
        let Word::Released(release) = word else { return };
        if release.termination_type == TerminationType::StoppedByRm as i32 {
            return;
        }
        let which = match &*release.uuid {
            "" => Which::Key(release.allocation_key.clone()),
            uuid => Which::Uuid(uuid.to_owned()),
        };
        let (app, kind) = (release.application_id.clone(), release.termination_type);
        self.open.push(Ending { app, which, kind });
    }

    /// Confirms the one of this number, counted round and round, or all; as another type than they
    /// were asked with, if `kind` says so.
    pub(crate) fn confirm(&mut self, which: Option<usize>, kind: Option<i32>) -> Vec<Item> {
        let mut confirmed = match which {
            _ if self.open.is_empty() => Vec::new(),
            Some(number) => vec![self.open.remove(number % self.open.len())],
            None => std::mem::take(&mut self.open),
        };
        for ending in &mut confirmed {
            ending.kind = kind.unwrap_or(ending.kind);
        }
        self.confirmed.extend(confirmed.iter().cloned());
        confirmed.iter().map(item).collect()
    }

    /// Repeats a confirmation.
    pub(crate) fn confirm_again(&mut self, number: usize) -> Vec<Item> {
        if self.confirmed.is_empty() {
            return Vec::new();
        }
        vec![item(&self.confirmed[number % self.confirmed.len()])]
    }
}

fn item(Ending { app, which, kind }: &Ending) -> Item {
    Item::Release { app: app.clone(), which: which.clone(), kind: *kind }
}
