//! Resource types that a configuration names, and warnings about likely misspellings. A quota of a
//! type that no request names limits nothing, and nothing else would report that.
//!
//! # Which types are doubted
//! A type that nodes have or requests name is right, whatever its name. A running scheduler
//! compares the configuration with those types; a file by itself is compared with the types that
//! exist everywhere. A type is doubted if it differs from a known one by a letter, or is a usual
//! name in other schedulers: `cpu` for `vcore`, `mem` for `memory`, `gpu` if nodes have
//! `nvidia.com/gpu`. Any other type may belong to nodes that are not registered yet.

use std::collections::{BTreeMap, BTreeSet};

use crate::closest;
use crate::error::{ConfigWarning, Location, Report};

/// Types that exist in every cluster.
const EVERYWHERE: [&str; 4] = ["ephemeral-storage", "memory", "pods", "vcore"];

/// Names of resource types in other schedulers, and the types they mean here.
const HABITS: [(&str, &str); 16] = [
    ("core", "vcore"),
    ("cores", "vcore"),
    ("cpu", "vcore"),
    ("cpus", "vcore"),
    ("vcores", "vcore"),
    ("vcpu", "vcore"),
    ("vcpus", "vcore"),
    ("mem", "memory"),
    ("ram", "memory"),
    ("memorymb", "memory"),
    ("pod", "pods"),
    ("countpods", "pods"),
    ("disk", "ephemeral-storage"),
    ("storage", "ephemeral-storage"),
    ("gpus", "gpu"),
    ("gpucount", "gpu"),
];

/// Prefixes that Kubernetes quotas write before a type.
const OF_KUBERNETES: [&str; 2] = ["requests.", "limits."];

/// Most types that are checked. A resource manager may have fewer in use.
const MOST_TYPES: usize = 2_000;

/// Types that nodes have or requests name, by the name of the partition.
pub type KnownTypes = BTreeMap<String, BTreeSet<String>>;

/// Resource types in the quotas of a configuration by partition and type, each with its first
/// location.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedTypes(BTreeMap<(String, String), Named>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    /// The queue or limit that names the type first, as messages call it.
    of: String,
    place: Location,
    n_more: usize,
}

impl NamedTypes {
    pub(crate) fn add(&mut self, partition: &str, name: &str, of: &str, place: &Location) {
        if self.0.len() == MOST_TYPES {
            return;
        }
        let named = || Named { of: of.to_owned(), place: place.clone(), n_more: 0 };
        let entry = self.0.entry((partition.to_owned(), name.to_owned()));
        let first = entry.and_modify(|named| named.n_more += 1).or_insert_with(named);
        if (place.line, place.column) < (first.place.line, first.place.column) {
            *first = Named { n_more: first.n_more, ..named() };
        }
    }

    /// Returns the warnings of the configuration. Replaces those about types by a comparison with
    /// `known`; a partition without nodes and requests is compared with the types that exist
    /// everywhere.
    pub fn warnings(&self, of_text: &[ConfigWarning], known: &KnownTypes) -> Vec<ConfigWarning> {
        let mut report = Report::default();
        let none = BTreeSet::new();
        for ((partition, written), named) in &self.0 {
            let known = known.get(partition).unwrap_or(&none);
            let Some(meant) = meant(written, known) else { continue };
            let Named { of, place, n_more } = named;
            let what = if known.is_empty() {
                "is hardly a type that requests name"
            } else {
                "is no type that nodes have or requests name"
            };
            let more = match n_more {
                0 => String::new(),
                1 => " It is written once more.".to_owned(),
                n => format!(" It is written {n} times more."),
            };
            report
                .warn(place, format!("`{written}` in {of} {what}; did you mean `{meant}`?{more}"));
        }
        let doubts = report.into_warnings().into_iter();
        let mut warnings: Vec<_> =
            doubts.map(|doubt| ConfigWarning { is_of_type: true, ..doubt }).collect();
        warnings.extend(of_text.iter().filter(|warning| !warning.is_of_type).cloned());
        warnings.sort_by_key(|warning| (warning.line, warning.column));
        warnings
    }
}

/// Returns the type that was probably meant, or `None` if the written one is plausible.
fn meant<'t>(written: &str, known: &'t BTreeSet<String>) -> Option<&'t str>
where
    'static: 't,
{
    if known.contains(written) || EVERYWHERE.contains(&written) {
        return None;
    }
    let plain = written.to_ascii_lowercase();
    let plain =
        OF_KUBERNETES.iter().find_map(|before| plain.strip_prefix(before)).unwrap_or(&plain);
    let of_nodes = known.iter().map(String::as_str);
    if let Some(near) = of_nodes.clone().find(|known| is_near(plain, known)) {
        return Some(near);
    }
    let bare: String = plain.chars().filter(char::is_ascii_alphanumeric).collect();
    if let Some((_, meant)) = HABITS.iter().find(|(habit, _)| *habit == bare) {
        return Some(*meant);
    }
    closest(plain, EVERYWHERE.into_iter())
}

/// Whether two types differ only by a letter, a plural, or the vendor prefix. A difference in
/// digits is not a misspelling: `hugepages-2Mi` is not `hugepages-1Gi`.
fn is_near(written: &str, known: &str) -> bool {
    let known = known.to_ascii_lowercase();
    let digits = |name: &str| name.chars().filter(char::is_ascii_digit).collect::<String>();
    if digits(written) != digits(&known) {
        return false;
    }
    let short =
        |name: &str| name.rsplit('/').next().unwrap_or(name).trim_end_matches('s').to_owned();
    let has_one_vendor = written.contains('/') != known.contains('/');
    (has_one_vendor && short(written) == short(&known) && !short(&known).is_empty())
        || (known.len() > 3 && strsim::damerau_levenshtein(written, &known) <= 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant_of(written: &str, known: &[&str]) -> String {
        let known = known.iter().map(|name| (*name).to_owned()).collect();
        meant(written, &known).unwrap_or("-").to_owned()
    }

    #[test]
    fn a_file_is_compared_with_universal_types() {
        for (written, expected) in [
            ("vcore", "-"),
            ("memory", "-"),
            ("pods", "-"),
            ("ephemeral-storage", "-"),
            ("gpu", "-"),
            ("nvidia.com/gpu", "-"),
            ("hugepages-2Mi", "-"),
            ("example.com/memory", "-"),
            ("licences", "-"),
            ("cpu", "vcore"),
            ("CPUs", "vcore"),
            ("vCPU", "vcore"),
            ("core", "vcore"),
            ("vcores", "vcore"),
            ("vcoer", "vcore"),
            ("requests.cpu", "vcore"),
            ("limits.memory", "memory"),
            ("mem", "memory"),
            ("Memory", "memory"),
            ("memroy", "memory"),
            ("memory_mb", "memory"),
            ("pod", "pods"),
            ("count/pods", "pods"),
            ("ephemeralStorage", "ephemeral-storage"),
            ("gpus", "gpu"),
        ] {
            assert_eq!(meant_of(written, &[]), expected, "{written}");
        }
    }

    #[test]
    fn types_near_a_known_one_are_doubted() {
        let known = ["cpu", "memory", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "hugepages-2Mi"];
        for (written, expected) in [
            ("cpu", "-"),
            ("gpu", "nvidia.com/gpu"),
            ("gpus", "nvidia.com/gpu"),
            ("GPU", "nvidia.com/gpu"),
            ("nvidia.com/gpus", "nvidia.com/gpu"),
            ("nvidia.com/gup", "nvidia.com/gpu"),
            ("requests.nvidia.com/gpu", "nvidia.com/gpu"),
            ("Nvidia.com/gpu", "nvidia.com/gpu"),
            ("amd.com/gpu", "-"),
            ("nvidia.com/mig-2g.5gb", "-"),
            ("hugepages-1Gi", "-"),
            ("cpus", "vcore"),
            ("vcores", "vcore"),
        ] {
            assert_eq!(meant_of(written, &known), expected, "{written}");
        }
        assert_eq!(meant_of("nvidia.com/gpu", &["gpu", "vcore"]), "gpu");
        assert_eq!(meant_of("cpu", &["gpu", "vcore"]), "vcore");
    }

    #[test]
    fn each_type_is_doubted_once_where_it_is_written_first() {
        let mut named = NamedTypes::default();
        let at = |line| Location { line, column: 1, path: String::new() };
        for (line, name) in [(9, "cpu"), (3, "mem"), (10, "cpu"), (11, "cpu")] {
            named.add("default", name, &format!("max of queue `q{line}`"), &at(line));
        }
        named.add("other", "cpu", "max of queue `o`", &at(20));
        let warning = |line, message: &str, is_of_type| ConfigWarning {
            line,
            column: 2,
            path: String::new(),
            message: message.to_owned(),
            is_of_type,
        };
        let of_text = [warning(5, "of the text", false), warning(6, "replaced", true)];
        let told = |known: &KnownTypes| {
            let warnings = named.warnings(&of_text, known);
            warnings.iter().map(|it| format!("{}: {}", it.line, it.message)).collect::<Vec<_>>()
        };
        assert_eq!(
            told(&KnownTypes::new()),
            [
                "3: `mem` in max of queue `q3` is hardly a type that requests name; did you mean `memory`?",
                "5: of the text",
                "9: `cpu` in max of queue `q9` is hardly a type that requests name; did you mean `vcore`? \
                 It is written 2 times more.",
                "20: `cpu` in max of queue `o` is hardly a type that requests name; did you mean `vcore`?",
            ]
        );
        let types = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let known = [("default".to_owned(), types(&["cpu", "memory"]))].into();
        assert_eq!(
            told(&known),
            [
                "3: `mem` in max of queue `q3` is no type that nodes have or requests name; did you \
                 mean `memory`?",
                "5: of the text",
                "20: `cpu` in max of queue `o` is hardly a type that requests name; did you mean `vcore`?",
            ]
        );
    }
}
