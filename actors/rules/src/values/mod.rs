//! Amounts, names and times: values without a life of their own, the ground that all rules and the
//! configuration stand on.

pub mod duration;
pub mod epoch;
pub mod instant;
pub mod names;
pub mod partition_name;
pub mod quantity;
pub mod resources;
pub mod slots;
