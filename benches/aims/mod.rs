//! Figures beside what they should be.
#![allow(unreachable_pub, dead_code, reason = "every benchmark uses a part of this")]

/// A figure with so many digits behind the point, in bold type if it is more than it should be.
pub fn at_most(value: f64, aim: f64, digits: usize) -> String {
    marked(value, digits, value > aim)
}

/// A figure with so many digits behind the point, in bold type if it is less than it should be.
pub fn at_least(value: f64, aim: f64, digits: usize) -> String {
    marked(value, digits, value < aim)
}

fn marked(value: f64, digits: usize, misses: bool) -> String {
    if misses { format!("**{value:.digits$}**") } else { format!("{value:.digits$}") }
}
