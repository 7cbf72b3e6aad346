//! Questions about small clusters, whose states come from a script.

mod answers;
mod live;
mod world;
