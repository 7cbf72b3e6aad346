//! Amounts, names and times: values without a life of their own, the ground that all rules and the
//! configuration stand on. Nothing here uses another module of the crate, so that whoever needs an
//! amount cannot be drawn into a circle of imports.

pub mod duration;
pub mod epoch;
pub mod hashing;
pub mod ids;
pub mod instant;
pub mod key_index;
pub mod names;
pub mod partition_name;
pub mod quantity;
pub mod rare;
pub mod readable;
pub mod resources;
pub mod retries;
pub mod slots;
pub mod text;
pub mod texts;
