//! Amounts and times in the form that people read in a column.

use std::collections::BTreeMap;

use monoceros_actors::{readable, rfc3339};
use monoceros_proto::si::v1 as si;

/// Resource types with a column of their own.
pub(super) const CORES: &str = "vcore";
pub(super) const MEMORY: &str = "memory";

/// Amounts by resource type.
pub(super) type Amounts = BTreeMap<String, i64>;

pub(super) fn amounts(message: Option<&si::Resource>) -> Amounts {
    let resources = message.iter().flat_map(|message| &message.resources);
    resources.map(|(name, quantity)| (name.clone(), quantity.value)).collect()
}

/// Usage and its limit.
#[derive(Clone, Debug, Default)]
pub(super) struct Use {
    /// A missing type is unused.
    pub(super) used: Amounts,
    /// A missing type is unlimited.
    pub(super) most: Amounts,
}

impl Use {
    pub(super) fn of(used: Option<&si::Resource>, most: Option<&si::Resource>) -> Self {
        Self { used: amounts(used), most: amounts(most) }
    }

    /// Formats one type: `3/4`, or `3` without a limit.
    pub(super) fn cell(&self, name: &str) -> String {
        let used = self.used.get(name).copied().unwrap_or(0);
        match self.most.get(name) {
            Some(most) => readable::short_of(name, used, *most),
            None => readable::short(name, used),
        }
    }

    /// Returns the types other than cores and memory that are used, GPUs first. GPUs are among them
    /// even if they are only there.
    fn others(&self) -> Vec<&str> {
        let is_used = |name: &str| self.used.get(name).is_some_and(|used| *used != 0);
        let is_there = |name: &str| self.most.get(name).is_some_and(|most| *most != 0);
        let mut others: Vec<_> = self
            .types()
            .filter(|name| is_used(name) || (is_gpu(name) && is_there(name)))
            .filter(|name| ![CORES, MEMORY].contains(name))
            .collect();
        others.sort_unstable_by_key(|name| (!is_gpu(name), *name));
        others.dedup();
        others
    }

    /// Returns every type with a usage or limit.
    pub(super) fn types(&self) -> impl Iterator<Item = &str> {
        self.used.keys().chain(self.most.keys()).map(String::as_str)
    }

    /// Whether there are types other than cores and memory.
    pub(super) fn has_others(&self) -> bool {
        !self.others().is_empty()
    }

    /// Formats cores and memory, and if `with_others` all other types in one cell:
    /// `gpu=1/2,pods=7`.
    pub(super) fn cells(&self, with_others: bool) -> Vec<String> {
        let mut cells = vec![self.cell(CORES), self.cell(MEMORY)];
        if with_others {
            let others = self.others();
            let others = others.iter().map(|name| format!("{name}={}", self.cell(name)));
            cells.push(others.collect::<Vec<_>>().join(","));
        }
        cells
    }

    /// Formats each type that has a limit: `cores=3/4`.
    pub(super) fn limited(&self) -> impl Iterator<Item = String> {
        self.most.keys().map(|name| format!("{}={}", readable::title(name), self.cell(name)))
    }

    /// Returns the usage of a type as a share of its limit. `None` without a limit.
    pub(super) fn share(&self, name: &str) -> Option<f64> {
        let most = *self.most.get(name)?;
        let used = self.used.get(name).copied().unwrap_or(0);
        (most > 0).then(|| used as f64 / most as f64)
    }

    /// Returns the largest share of any type.
    pub(super) fn largest_share(&self) -> f64 {
        self.most.keys().filter_map(|name| self.share(name)).fold(0.0, f64::max)
    }
}

/// Whether a resource type counts GPUs, or parts of them.
fn is_gpu(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("gpu") || name.starts_with("mig-") || name.contains("/mig-")
}

/// Formats all amounts in one cell, cores and memory first, then GPUs: `cores=4,memory=8GiB`.
pub(super) fn all(message: Option<&si::Resource>) -> String {
    let amounts = amounts(message);
    let mut names: Vec<_> = amounts.keys().map(String::as_str).collect();
    names.sort_by_key(|name| (*name != CORES, *name != MEMORY, !is_gpu(name)));
    let text =
        |name: &str| format!("{}={}", readable::title(name), readable::short(name, amounts[name]));
    names.into_iter().map(text).collect::<Vec<_>>().join(",")
}

/// Formats an age in at most two units: `3d2h`. Empty if the time is not set.
pub(super) fn age(at_ns: i64, now_ns: i64) -> String {
    if at_ns <= 0 {
        return String::new();
    }
    let seconds = (now_ns.saturating_sub(at_ns) / 1_000_000_000).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let with_rest = |whole: i64, unit: &str, rest: i64, small: &str| match rest {
        0 => format!("{whole}{unit}"),
        rest => format!("{whole}{unit}{rest}{small}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => with_rest(minutes, "m", seconds % 60, "s"),
        600..7_200 => format!("{minutes}m"),
        7_200..36_000 => with_rest(hours, "h", minutes % 60, "m"),
        36_000..172_800 => format!("{hours}h"),
        172_800..864_000 => with_rest(days, "d", hours % 24, "h"),
        _ => format!("{days}d"),
    }
}

/// Formats a time in milliseconds, always with the same width.
pub(super) fn moment(ns: i64) -> String {
    let (seconds, ms) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000) / 1_000_000);
    let whole = rfc3339(seconds.saturating_mul(1_000_000_000));
    let whole = whole.split('.').next().unwrap_or_default();
    format!("{whole}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(used: &[(&str, i64)], most: &[(&str, i64)]) -> Use {
        let amounts =
            |of: &[(&str, i64)]| of.iter().map(|(name, it)| ((*name).to_owned(), *it)).collect();
        Use { used: amounts(used), most: amounts(most) }
    }

    #[test]
    fn cells_show_usage_and_limit() {
        let some =
            of(&[("vcore", 1_500), ("gpu", 1)], &[("vcore", 4_000), ("gpu", 2), ("pods", 0)]);
        assert_eq!(some.cells(true), ["1.5/4", "0B", "gpu=1/2"]);
        assert_eq!(some.cells(false), ["1.5/4", "0B"]);
        assert!(some.has_others() && !of(&[("pods", 0)], &[]).has_others());
        assert!((some.largest_share() - 0.5).abs() < 1e-9);
        assert_eq!(of(&[("vcore", 1)], &[("vcore", 0)]).share("vcore"), None);
    }

    #[test]
    fn gpus_come_first_and_what_is_unused_is_left_out() {
        let used = &[("nvidia.com/gpu", 0), ("ephemeral-storage", 5), ("licences", 0)];
        let most = &[("nvidia.com/gpu", 8), ("hugepages-2Mi", 4), ("nvidia.com/mig-1g.5gb", 7)];
        let node = of(used, most);
        assert_eq!(node.others(), ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "ephemeral-storage"]);
        assert!(!of(&[("licences", 0)], &[("licences", 2)]).has_others());
        let amounts = [("a", 1), ("gpu", 2), ("memory", 0), ("vcore", 4_000)];
        let amounts = amounts.map(|(name, value)| (name.to_owned(), si::Quantity { value }));
        let pending = si::Resource { resources: amounts.into() };
        assert_eq!(all(Some(&pending)), "cores=4,memory=0B,gpu=2,a=1");
    }

    #[test]
    fn moments_are_equally_wide() {
        for (ns, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_007_999_999, "1970-01-01T00:00:01.007Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(moment(ns), text);
        }
    }

    #[test]
    fn an_age_has_two_units_at_most() {
        for (seconds, text) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (130, "2m10s"),
            (610, "10m"),
            (7_199, "119m"),
            (7_260, "2h1m"),
            (36_061, "10h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (86_400 * 400, "400d"),
        ] {
            let now = 86_400 * 1_000 * 1_000_000_000;
            assert_eq!(age(now - seconds * 1_000_000_000, now), text);
        }
        assert_eq!(age(0, 5), "");
    }
}
