//! Conversion of the findings of a health check to its snapshot. The names and their order are those of
//! existing dashboards.

use std::fmt::Write as _;

use monoceros_rules::audit::sound::Orphan;

use crate::snapshot::{HealthCheckSnapshot, HealthSnapshot};

/// The most names or allocations that a check lists.
const LISTED: usize = 100;

/// The findings of a health check. Names of partitions have the prefix of their RM.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Invalid updates since the start.
    pub(crate) errors: u64,
    /// Nodes that were refused since the start.
    pub(crate) failed_nodes: i64,
    /// Partitions with a negative sum, once for each such sum.
    pub(crate) negative_partitions: Vec<String>,
    /// Nodes with a negative amount, once for each such amount.
    pub(crate) negative_nodes: Vec<String>,
    /// The number of nodes with a negative amount other than the available one.
    pub(crate) negative_used: usize,
    /// Partitions whose capacity is not the sum of their nodes.
    pub(crate) uneven_partitions: Vec<String>,
    /// Nodes whose capacity is not the sum of allocated, occupied and available amounts.
    pub(crate) uneven_nodes: Vec<String>,
    /// Reservations per node, of each partition.
    pub(crate) reserved: Vec<f64>,
    /// Allocations of nodes that belong to no application.
    pub(crate) orphans_on_nodes: Vec<String>,
    /// Allocations of applications that are on no node.
    pub(crate) orphans_of_applications: Vec<String>,
}

/// The description of an orphan. `owner`: the node or application that lists it.
pub(crate) fn orphan(orphan: &Orphan<'_>, owner: &str) -> String {
    match orphan {
        Orphan::Unknown => format!("one of {owner} that is not there"),
        Orphan::Strange(entry) => format!(
            "allocationKey {} of {owner}, resource {}, allocated {}",
            entry.key(),
            entry.resources(),
            entry.is_booked(),
        ),
    }
}

/// The snapshot of the findings.
pub(crate) fn health(found: &Findings) -> HealthSnapshot {
    let check = |name, succeeded, description, diagnosis_message| HealthCheckSnapshot {
        name,
        succeeded,
        from_outside: false,
        description,
        diagnosis_message,
    };
    let outside = |is_outside, check: HealthCheckSnapshot| HealthCheckSnapshot {
        from_outside: is_outside && !check.succeeded,
        ..check
    };
    let none = |name, description, what: &str, listed: &[String]| {
        check(name, listed.is_empty(), description, format!("{what}: {}", list(listed)))
    };
    let checks = vec![
        // These two count invalid messages since the start.
        outside(
            true,
            check(
                "Scheduling errors",
                found.errors == 0,
                "Check for scheduling error entries in metrics",
                format!("There were {} scheduling errors logged in the metrics", found.errors),
            ),
        ),
        outside(
            true,
            check(
                "Failed nodes",
                found.failed_nodes == 0,
                "Check for failed nodes entries in metrics",
                format!("There were {} failed nodes logged in the metrics", found.failed_nodes),
            ),
        ),
        none(
            "Negative resources",
            "Check for negative resources in the partitions",
            "Partitions with negative resources",
            &found.negative_partitions,
        ),
        // A node may shrink below the allocations on it, or be used by others: then the available amount is
        // negative.
        outside(
            found.negative_used == 0,
            none(
                "Negative resources",
                "Check for negative resources in the nodes",
                "Nodes with negative resources",
                &found.negative_nodes,
            ),
        ),
        none(
            "Consistency of data",
            "Check if a partition's total resource == sum of the node resources",
            "Partitions with inconsistent data",
            &found.uneven_partitions,
        ),
        none(
            "Consistency of data",
            "Check if a node's capacity == allocated + occupied + available resource",
            "Nodes with inconsistent data",
            &found.uneven_nodes,
        ),
        check(
            "Reservation check",
            true,
            "Check the reservation nr compared to the number of nodes",
            format!("Reservation/node nr ratio: {}", ratios(&found.reserved)),
        ),
        none(
            "Orphan allocation on node check",
            "Check if there are orphan allocations on the nodes",
            "Orphan allocations",
            &found.orphans_on_nodes,
        ),
        none(
            "Orphan allocation on app check",
            "Check if there are orphan allocations on the applications",
            "Orphan allocations",
            &found.orphans_of_applications,
        ),
    ];
    HealthSnapshot {
        healthy: checks.iter().all(|check| check.succeeded),
        sound: checks.iter().all(|check| check.succeeded || check.from_outside),
        health_checks: checks,
    }
}

fn list(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(LISTED).map(|name| format!("{name:?}")).collect();
    let mut text = format!("[{}]", shown.join(" "));
    if names.len() > LISTED {
        // Writing to a text cannot fail.
        let _ = write!(text, " and {} more", names.len() - LISTED);
    }
    text
}

fn ratios(reserved: &[f64]) -> String {
    let shown: Vec<String> = reserved.iter().map(|ratio| format!("{ratio:.6}")).collect();
    format!("[{}]", shown.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(found: &Findings) -> Vec<usize> {
        let checks = health(found).health_checks;
        assert_eq!(checks.len(), 9);
        let failed = checks.iter().enumerate().filter(|(_, check)| !check.succeeded);
        failed.map(|(at, _)| at + 1).collect()
    }

    #[test]
    fn each_finding_fails_its_own_check() {
        let one = || vec!["x".to_owned()];
        let none = Findings::default;
        assert_eq!(failed(&none()), [0_usize; 0]);
        assert!(health(&none()).healthy);
        for (found, check) in [
            (Findings { errors: 1, ..none() }, 1),
            (Findings { failed_nodes: 1, ..none() }, 2),
            (Findings { negative_partitions: one(), ..none() }, 3),
            (Findings { negative_nodes: one(), ..none() }, 4),
            (Findings { uneven_partitions: one(), ..none() }, 5),
            (Findings { uneven_nodes: one(), ..none() }, 6),
            (Findings { orphans_on_nodes: one(), ..none() }, 8),
            (Findings { orphans_of_applications: one(), ..none() }, 9),
        ] {
            assert_eq!(failed(&found), [check]);
            assert!(!health(&found).healthy);
            let is_outside = [1, 2, 4].contains(&check);
            assert_eq!(health(&found).sound, is_outside, "what comes from outside is no fault");
        }
        let of_ours = Findings { negative_nodes: one(), negative_used: 1, ..none() };
        assert!(!health(&of_ours).sound);
    }

    #[test]
    fn reservations_are_shown_and_never_fail() {
        let found = Findings { reserved: vec![0.5, f64::NAN], ..Findings::default() };
        assert_eq!(failed(&found), [0_usize; 0]);
        let told = &health(&found).health_checks[6].diagnosis_message;
        assert_eq!(told, "Reservation/node nr ratio: [0.500000 NaN]");
    }

    #[test]
    fn lists_are_quoted_and_bounded() {
        assert_eq!(list(&[]), "[]");
        assert_eq!(list(&["n 1".to_owned(), "n2".to_owned()]), r#"["n 1" "n2"]"#);
        let long = list(&vec!["n".to_owned(); LISTED + 2]);
        assert!(long.ends_with(r#""n"] and 2 more"#), "{long}");
    }
}
