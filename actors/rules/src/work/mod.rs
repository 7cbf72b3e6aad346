//! Applications, what they ask for and what they hold, and why any of it is refused.

pub mod allocations;
pub mod application;
pub mod application_state;
pub mod asks;
pub mod identity;
pub mod rejection;
