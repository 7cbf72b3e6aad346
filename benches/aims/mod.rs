//! Figures and their targets.
#![allow(unreachable_pub, dead_code, reason = "every benchmark uses a part of this")]

/// Formats a figure with this many decimals, in bold type if it exceeds its target.
pub fn at_most(value: f64, aim: f64, digits: usize) -> String {
    marked(value, digits, value > aim)
}

/// Formats a figure with this many decimals, in bold type if it is below its target.
pub fn at_least(value: f64, aim: f64, digits: usize) -> String {
    marked(value, digits, value < aim)
}

fn marked(value: f64, digits: usize, misses: bool) -> String {
    if misses { format!("**{value:.digits$}**") } else { format!("{value:.digits$}") }
}
