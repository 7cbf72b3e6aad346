//! Fewer places for a gang of which a scheduler before this one held some, where they do not all fit.

use crate::applications::application::Application;
use crate::applications::native::{Native, Stage};
use crate::values::resources::Resources;

use super::obstacle::GangObstacle;
use super::state::GangSearch;

/// Has fewer places be looked for, by what was in the way at the last offer. Returns for how many members places
/// are still looked for. `None`: such places are not looked for now.
pub fn settle_for_fewer(book: &mut Application, search: &mut GangSearch) -> Option<u64> {
    let (gang, asks) = (book.gang.as_mut()?, &book.asks);
    let native = gang.native.as_deref_mut()?;
    if !native.holds_again() || native.stage != Stage::Undecided {
        return None;
    }
    let (before, n_fit) = (native.wanted(), search.take_fitting());
    match search.obstacle() {
        Some(GangObstacle::Places(short)) => {
            for (slot, lacks) in short {
                let ask = asks.find(*slot);
                if let Some(group) = ask.and_then(|ask| ask.spec.task_group.as_ref()) {
                    native.settle_for_fewer(group, *lacks);
                }
            }
        }
        Some(GangObstacle::Domain(short)) => native.settle_for_fewer(&short.group, short.lacks),
        Some(GangObstacle::Refused { group, .. }) => {
            let wanted = native.group(group).map_or(0, |group| u64::from(group.wanted()));
            let fewer = n_fit.map_or(1, |n_fit| wanted.saturating_sub(n_fit));
            native.settle_for_fewer(group, fewer);
        }
        _ => {
            let fewer = n_fit.map_or(1, |n_fit| before.saturating_sub(n_fit));
            native.settle_for_fewer_in_all(fewer);
        }
    }
    if native.wanted() == before {
        // Whatever it was that did not fit, it fits with fewer.
        native.settle_for_fewer_in_all(1);
    }
    Some(native.wanted())
}

/// Counts the members of the first groups that fit, by the amount that they take together.
pub fn count_fitting(native: &Native, fits: impl Fn(&Resources) -> bool) -> u64 {
    // So many are too few to leave out, and so many are enough.
    let (wanted, mut too_few, mut enough) = (native.wanted(), 0, native.wanted());
    while too_few + 1 < enough {
        let fewer = u64::midpoint(too_few, enough);
        if fits(&native.amount_without(fewer)) { enough = fewer } else { too_few = fewer }
    }
    wanted - enough
}
