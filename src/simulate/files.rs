//! The files of a report and of a comparison.

use super::report::Report;
use super::{plots, summary};
use crate::replay::compare::Comparison;

/// Returns names and texts of `compare.json` and `index.html`.
pub(super) fn comparison_files(
    comparison: &Comparison,
) -> anyhow::Result<[(&'static str, String); 2]> {
    let html = summary::comparison_html(comparison);
    Ok([("compare.json", comparison.to_json()?), ("index.html", html)])
}

/// Returns names and texts of `report.json`, `index.html` and the charts.
pub(super) fn report_files(report: &Report) -> anyhow::Result<Vec<(&'static str, String)>> {
    let charts = plots::charts(report)?;
    let mut files = vec![
        ("report.json", report.to_json()?),
        ("index.html", summary::index_html(report, &charts)),
    ];
    files.extend(charts.into_iter().map(|chart| (chart.file, chart.svg)));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::replay::Assumptions;
    use super::super::{ReplayOptions, Reservations, queues, sample};
    use super::*;

    fn files_of(seed: u64) -> Vec<(&'static str, String)> {
        let mut trace = sample::sample_trace(7);
        // Busy enough for pods to be pending, and short enough that unplaceable pods, which are
        // retried every half minute, do not dominate.
        trace.pods.retain(|pod| pod.creation < 16 * 3600);
        // Pods created at the same time, which the seed shuffles.
        for pod in &mut trace.pods {
            pod.creation -= pod.creation % 7200;
        }
        trace.shuffle_ties(seed);
        let trace = Arc::new(trace);
        let queues = queues::default_queues(&trace);
        let (reservations, assumptions) = (Reservations::AsByDefault, Assumptions::default());
        let options = ReplayOptions { reservations, assumptions, seed };
        report_files(&options.report(&trace, queues).unwrap()).unwrap()
    }

    #[test]
    fn the_seed_determines_the_report() {
        let first = files_of(1);
        assert!(first == files_of(1), "the same seed told two stories");
        assert!(first != files_of(2), "the seed has no effect");
    }

    #[test]
    fn a_report_has_all_charts_and_a_page() {
        let files = files_of(0);
        let (names, texts): (Vec<_>, Vec<_>) = files.into_iter().unzip();
        let expected = [
            "report.json",
            "index.html",
            "utilisation.svg",
            "pending.svg",
            "queue-shares.svg",
            "fragmentation.svg",
            "fairness.svg",
        ];
        assert_eq!(names, expected);
        for (name, svg) in names.iter().zip(&texts).skip(2) {
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{name}");
            assert!(svg.contains("<polyline"), "{name} has lines");
            assert!(texts[1].contains(&format!("<img src=\"{name}\"")), "{name} is shown");
        }
        assert!(texts[4].contains("root.guaranteed"), "queues are in the legend");
        let json: serde_json::Value = serde_json::from_str(&texts[0]).unwrap();
        assert!(json["pods"].as_array().unwrap().len() > 100);
        let times = json["series"]["time"].as_array().unwrap().len();
        assert_eq!(json["series"]["pending"]["vcore"].as_array().unwrap().len(), times);
    }
}
