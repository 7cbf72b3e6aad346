//! Choice of a member for a new RM: the less loaded of two members that are drawn by chance.
//!
//! Two draws keep the fullest member close to the mean without a common count of all loads; taking
//! the least loaded of all would send every new RM to the same member until its next renewal.

/// Returns the less loaded of two members drawn from `loads`; the first one drawn if both are
/// equal. `draws` are two random numbers. `None` without members.
///
/// Loads should include RMs that were just handed on, which no member's record shows yet.
///
/// ```
/// use monoceros_cluster::less_loaded;
/// assert_eq!(less_loaded(&[("a", 10), ("b", 3), ("c", 4)], [0, 0]), Some(&"b"));
/// assert_eq!(less_loaded(&[("a", 10)], [0, 7]), Some(&"a"));
/// ```
pub fn less_loaded<M>(loads: &[(M, u64)], draws: [u64; 2]) -> Option<&M> {
    let members = u64::try_from(loads.len()).ok().filter(|members| *members > 0)?;
    let pick = |draw: u64| usize::try_from(draw % members).ok();
    let first = pick(draws[0])?;
    // The second is another member where there is one: a distance from the first, never all round.
    let step = if members == 1 { 0 } else { 1 + draws[1] % (members - 1) };
    let second = (first + usize::try_from(step).ok()?) % loads.len();
    let (one, other) = (&loads[first], &loads[second]);
    Some(if other.1 < one.1 { &other.0 } else { &one.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_loaded_of_several_is_never_picked() {
        let loads = [("a", 5), ("b", 9), ("c", 1)];
        for one in 0..6 {
            for other in 0..6 {
                assert_ne!(less_loaded(&loads, [one, other]), Some(&"b"));
            }
        }
        assert_eq!(less_loaded::<&str>(&[], [1, 2]), None);
    }
}
