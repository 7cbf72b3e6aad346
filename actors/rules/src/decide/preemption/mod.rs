//! What may be taken from whom so that an ask gets what its queue is guaranteed, or so that it gets
//! the only node on which it may run, or so that a queue gets back below its maximum.
mod choose;
mod conditions;
mod demand;
mod hierarchy;
mod history;
mod inquiry;
mod plan;
mod planner;
mod promises;
pub mod quota;
mod ranking;
mod reasons;
mod recheck;
pub mod required_node;
mod rows;
mod score;
mod survey;
#[cfg(test)]
mod tests;

pub use conditions::{LastTry, TRY_AGAIN, Wish};
pub use demand::{AnyNode, Asker, Judge, Trial};
pub use hierarchy::QueueFacts;
pub use history::{History, LINKS, MOST};
pub use inquiry::{Answer, BATCH, Inquiry, Next, Question};
pub use plan::{Place, Plan};
pub use planner::Planner;
pub use promises::{Confirmed, Promise, Promisee, Promises};
pub use reasons::{Grounds, NoPreemption, Stale};
pub use score::GOOD;
pub use survey::{
    ApplicationFacts, Claimed, GroupFacts, NodeFacts, Survey, gives_way, may_be_taken,
};
