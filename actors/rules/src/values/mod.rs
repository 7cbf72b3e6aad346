//! Amounts, names and times: plain values, used by all rules and the configuration. No module here
//! uses a module of another room, so that importing an amount cannot lead into an import circle.

#[cfg(test)]
pub(crate) mod again;
pub mod duration;
pub mod epoch;
pub mod hashing;
pub mod ids;
pub mod instant;
pub mod key_index;
pub mod names;
pub mod pairs;
pub mod partition_name;
pub mod quantity;
pub mod rare;
pub mod readable;
pub mod resources;
pub mod retries;
pub mod slots;
pub mod sorted;
pub mod text;
pub mod texts;
pub mod usual;
