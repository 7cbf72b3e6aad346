//! Chooses fewer places for a gang of which an earlier scheduler held places, if they do not all
//! fit now.

use crate::applications::application::Application;
use crate::applications::native::{Native, Stage};
use crate::values::resources::Resources;

use super::obstacle::GangObstacle;
use super::state::GangSearch;

/// Reduces the number of places to be searched for, by the obstacle of the last offer. Returns for
/// how many members places are still searched for. `None` if the gang is decided, or holds no
/// places again.
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
        // The obstacle did not change the number: one member less is tried.
        native.settle_for_fewer_in_all(1);
    }
    Some(native.wanted())
}

/// Returns for how many members of the first groups the amount that they take together fits.
pub fn count_fitting(native: &Native, fits: impl Fn(&Resources) -> bool) -> u64 {
    // Without `too_few` members the rest does not fit; without `enough` members it does.
    let (wanted, mut too_few, mut enough) = (native.wanted(), 0, native.wanted());
    while too_few + 1 < enough {
        let fewer = u64::midpoint(too_few, enough);
        if fits(&native.amount_without(fewer)) { enough = fewer } else { too_few = fewer }
    }
    wanted - enough
}
