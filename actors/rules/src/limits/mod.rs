//! Usage of users and groups by queue, and their limits.
//!
//! # Why lanes
//! The headroom by user and group is needed for every ask that is tried. Computed per application,
//! it would make a leaf with ten thousand applications of one user ten thousand times more
//! expensive than necessary.
//!
//! # Trackers
//! Every tracked user and group has a tracker: a tree that mirrors the queues. Its entry for a
//! queue (a *place* in the code) counts the usage in that queue and below, and has the limit that
//! applies there. Counting is never refused: limits are checked before a placement, so that
//! recovery can exceed them.
//!
//! # Lanes
//! Applications of one leaf whose user and group are counted in the same entries are in one *lane*:
//! the headroom by user and group is the same for all of them. A leaf treats a limited lane as a
//! queue between itself and its applications: asks that the lane's own headroom holds back are
//! hidden from the queues above, and a loosening of the lane is recorded with its number
//! ([`Trackers::loosened`]). The asks that a lane holds back are recorded here
//! ([`Trackers::hold_back`]), and after a tracker was loosened, [`Trackers::take_reopened`] returns
//! the lanes to be checked again. Asks that wait for a limit shared by several lanes are visible
//! from above all the same (`shared.rs`).
//!
//! # Invariants
//! * The usage of an entry is the sum of the charges to lanes at or below it, without zeros, and
//!   its running count the number of applications that were started in them.
//! * An application is in at most one lane. A lane without applications is removed, with all
//!   entries that no limit names and no other lane needs.
//! * A lane is reported as reopened exactly if an ask or application that it holds back may
//!   continue because of a loosening since.
//!
//! ```
//! use std::sync::Arc;
//! use monoceros_rules::queues::{LimitConfig, QueueConfig};
//! use monoceros_rules::limits::Trackers;
//! use monoceros_rules::values::epoch::Loosening;
//! use monoceros_rules::values::resources::{Limits, Resources};
//!
//! let limit = |user: &str, vcores, max_applications| LimitConfig {
//!     users: vec![user.to_owned()],
//!     max_resources: Some(Limits::of(&[("vcore", vcores)])),
//!     max_applications,
//!     ..LimitConfig::default()
//! };
//! let mut root = QueueConfig::bare("root", false);
//! root.limits.push(limit("*", 8, 0));
//! root.children.push(QueueConfig::bare("root.etl", true));
//! root.children[0].limits.push(limit("ann", 6, 1));
//!
//! let mut trackers = Trackers::new(&root);
//! let [ann, app, leaf]: [Arc<str>; 3] = ["ann", "app-1", "root.etl"].map(Arc::from);
//! let lane = trackers.join(&ann, &[], &app, &leaf).lane;
//! trackers.charge(lane, &Resources::of(&[("vcore", 5)]), Loosening::NONE);
//! trackers.start(lane, &app);
//! assert_eq!(trackers.headroom(lane).to_string(), "map[vcore:1]");
//! assert!(!trackers.may_start(lane));
//! ```

mod ids;
mod joined;
mod lanes;
mod numbers;
mod places;
mod reload;
mod shared;
mod subject;
mod tables;
#[cfg(test)]
pub(crate) mod tests;
mod trackers;
mod views;
mod waiting;

pub use self::ids::{LaneId, LimitId};
pub use self::joined::{JoinedLane, Membership, Remains};
pub use self::lanes::HeldBack;
pub use self::numbers::{SharedLimits, ShownBy};
pub use self::reload::{LimitEvent, Moves, Regrouping, Reloaded};
pub use self::subject::Subject;
pub use self::tables::Tables;
pub use self::trackers::{Joined, Trackers};
pub use self::views::{GroupUsage, LimitUse, PlaceUsage, UserUsage};
