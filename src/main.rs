//! The `monoceros` command.

fn main() {}
