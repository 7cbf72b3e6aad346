//! Grafana dashboards and Prometheus alerts: each query uses metrics of a running service, with
//! their labels and values.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::queries::{Query, labels};
use super::{at, printed, root, text, tool, yaml};
use crate::harness::{PATIENCE, Rm, Service, application, node};

const RULES: &str = "deploy/prometheus/rules.yaml";

/// Labels that Prometheus adds to every scrape.
const OF_THE_TARGET: [&str; 2] = ["job", "instance"];

/// A query, its position in a file, and the text that names its results.
struct Asked {
    place: String,
    query: Query,
    named: String,
}

/// The metrics of a service.
#[derive(Default)]
struct Scrape {
    types: BTreeMap<String, String>,
    /// The values of each label of each metric.
    values: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

impl Scrape {
    fn parse(text: &str) -> Self {
        let mut scrape = Self::default();
        for line in text.lines() {
            if let Some(of) = line.strip_prefix("# TYPE ") {
                let (name, kind) = of.split_once(' ').unwrap();
                scrape.types.insert(name.to_owned(), kind.to_owned());
            } else if !line.starts_with('#') {
                let (series, _) = line.rsplit_once(' ').unwrap();
                let (name, inside) = series.split_once('{').unwrap_or((series, "}"));
                let values = scrape.values.entry(name.to_owned()).or_default();
                for (label, _, value) in labels(inside.trim_end_matches('}')) {
                    values.entry(label).or_default().insert(value);
                }
            }
        }
        scrape
    }

    /// Returns the type of a metric's family, and the documentation of its labels.
    fn family(&self, metric: &str) -> (&str, String) {
        let endings = ["_bucket", "_sum", "_count"];
        let family = endings.iter().find_map(|ending| {
            let family = metric.strip_suffix(ending)?;
            self.types.get(family).filter(|kind| *kind == "histogram").map(|_| family)
        });
        let family = family.unwrap_or(metric);
        let manual = text("docs/metrics.md");
        let row = manual.lines().find(|line| line.starts_with(&format!("| `{family}` |")));
        (&self.types[family], row.unwrap_or_default().to_owned())
    }

    /// Returns the faults of a query.
    fn faults(&self, Asked { place, query, named }: &Asked) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |text: String| faults.push(format!("{place}: {text}"));
        for selector in &query.selectors {
            let metric = &*selector.metric;
            let Some(shown) = self.values.get(metric) else {
                fault(format!("no service shows `{metric}`"));
                continue;
            };
            let (_, manual) = self.family(metric);
            let groups = query.groups.iter().map(|label| (&**label, &[][..]));
            let matchers = selector.matchers.iter().map(|(label, values)| (&**label, &**values));
            let wanted = groups.chain(matchers);
            for (label, values) in wanted.filter(|(label, _)| !OF_THE_TARGET.contains(label)) {
                let Some(shown) = shown.get(label) else {
                    fault(format!("`{metric}` has no label `{label}`"));
                    continue;
                };
                for value in values.iter().filter(|value| !value.starts_with('$')) {
                    let listed = manual.split([' ', ',', '|', ';']).any(|word| word == value);
                    if !shown.contains(value) && !listed {
                        fault(format!("`{label}` of `{metric}` is never `{value}`"));
                    }
                }
            }
        }
        let is_shown = |metric: &String| self.values.contains_key(metric);
        for (function, metric) in query.applied.iter().filter(|(_, metric)| is_shown(metric)) {
            let is_gauge = self.family(metric).0 == "gauge";
            let fits = match &**function {
                "rate" | "increase" => !is_gauge,
                "changes" | "deriv" => is_gauge,
                _ => true,
            };
            if !fits {
                fault(format!("{function} of `{metric}`"));
            }
        }
        for label in named.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap().trim()) {
            if query.groups.iter().all(|group| group != label) {
                fault(format!("results have no label `{label}`"));
            }
        }
        faults
    }
}

/// Returns the dashboards by file name.
fn boards() -> Vec<(String, Value)> {
    let files = fs::read_dir(root().join("deploy/grafana")).unwrap().map(Result::unwrap);
    let read = |file: fs::DirEntry| {
        let board = fs::read_to_string(file.path()).unwrap();
        (file.file_name().into_string().unwrap(), serde_json::from_str(&board).unwrap())
    };
    files.map(read).collect()
}

fn queries_of_boards() -> Vec<Asked> {
    let mut asked = Vec::new();
    for (file, board) in boards() {
        for panel in board["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let place = format!("{file}, {}", at(panel, "/title"));
                let query = Query::parse(at(target, "/expr"));
                asked.push(Asked { place, query, named: at(target, "/legendFormat").to_owned() });
            }
        }
        for variable in board["templating"]["list"].as_array().unwrap() {
            if variable["type"] != "query" {
                continue;
            }
            let place = format!("{file}, ${}", at(variable, "/name"));
            let inside = at(variable, "/query").strip_prefix("label_values(").unwrap();
            let (metric, label) = inside.strip_suffix(')').unwrap().rsplit_once(", ").unwrap();
            let mut query = Query::parse(metric);
            query.groups.push(label.to_owned());
            asked.push(Asked { place, query, named: String::new() });
        }
    }
    asked
}

fn alerts() -> Vec<Value> {
    let rules = yaml(&text(RULES));
    let groups = rules["groups"].as_array().unwrap().iter();
    groups.flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

fn queries_of_alerts() -> Vec<Asked> {
    let asked = |alert: &Value| {
        let query = Query::parse(at(alert, "/expr"));
        // An alert on absence has no labels to name.
        let texts = [at(alert, "/annotations/summary"), at(alert, "/annotations/description")];
        let named = texts.concat().replace("$labels.", "").replace("{{ $value", "");
        Asked { place: at(alert, "/alert").to_owned(), query, named }
    };
    alerts().iter().map(asked).collect()
}

/// Adds the metrics of `monoceros kubernetes`.
#[cfg(feature = "kubernetes")]
fn of_the_shim() -> String {
    let registry = prometheus::Registry::new();
    monoceros_kubernetes::meters::Meters::new(&registry).unwrap();
    prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap()
}

/// Does nothing: this build has no such command.
#[cfg(not(feature = "kubernetes"))]
fn of_the_shim() -> String {
    String::new()
}

/// Whether the query uses metrics that only `monoceros kubernetes` has.
fn is_of_the_shim(asked: &Asked) -> bool {
    let mut selectors = asked.query.selectors.iter();
    selectors.any(|selector| selector.metric.starts_with("monoceros_kubernetes_"))
}

#[tokio::test]
async fn each_query_finds_its_metrics() {
    let mut asked: Vec<Asked> = queries_of_boards();
    asked.extend(queries_of_alerts());
    if !cfg!(feature = "kubernetes") {
        asked.retain(|asked| !is_of_the_shim(asked));
    }
    assert!(asked.len() > 60, "{}", asked.len());
    let names = asked.iter().flat_map(|asked| &asked.query.selectors);
    let names: BTreeSet<&str> = names.map(|selector| &*selector.metric).collect();

    let service = Service::start_demo();
    // Counters of refused and ignored requests are shown once there was one.
    let rm = Rm::register(&service, "rm").await;
    let mut unknown = node("nobody", 1, 1);
    unknown.action = monoceros_proto::si::v1::node_info::ActionFromRm::Update.into();
    rm.send_nodes(vec![unknown]).await;
    rm.send_applications(vec![application("refused", "root.nowhere")], vec![]).await;
    let mut missing = Vec::new();
    let complete = async {
        loop {
            let shown = service.get("/ws/v1/metrics").await + &of_the_shim();
            let scrape = Scrape::parse(&shown);
            let there = |name: &&str| scrape.values.contains_key(*name);
            missing = names.iter().copied().filter(|name| !there(name)).collect();
            if missing.is_empty() {
                return scrape;
            }
            sleep(Duration::from_millis(100)).await;
        }
    };
    let scrape = timeout(PATIENCE, complete).await;
    let scrape = scrape.unwrap_or_else(|_| panic!("no service shows {missing:?}"));
    let faults: Vec<String> = asked.iter().flat_map(|asked| scrape.faults(asked)).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn queries_for_what_is_never_shown_are_found() {
    let scrape = "# TYPE a gauge\na{state=\"running\"} 1\n# TYPE b_total counter\nb_total 1\n";
    let scrape = Scrape::parse(scrape);
    let faults = |query: &str| {
        let query = Query::parse(query);
        let named = "{{ state }}".to_owned();
        scrape.faults(&Asked { place: "here".to_owned(), query, named }).join("; ")
    };
    assert_eq!(faults(r#"sum by (state) (a{state=~"running|$s", job="j"})"#), "");
    for (query, fault) in [
        (r#"sum by (state) (a{state=~"running|walking"})"#, "`state` of `a` is never `walking`"),
        (r#"sum by (state) (a{kind="x"})"#, "`a` has no label `kind`"),
        ("sum by (state) (rate(a[5m]))", "rate of `a`"),
        ("deriv(b_total[5m])", "deriv of `b_total`; here: results have no label `state`"),
        ("changes(b_total[5m])", "changes of `b_total`; here: results have no label `state`"),
        ("sum by (state) (c)", "no service shows `c`"),
    ] {
        assert_eq!(faults(query), format!("here: {fault}"));
    }
}

#[test]
fn boards_can_be_imported_together() {
    let boards = boards();
    let ids: BTreeSet<&str> = boards.iter().map(|(_, board)| at(board, "/uid")).collect();
    assert_eq!((boards.len(), ids.len()), (2, 2));
    for (file, board) in &boards {
        let variables = board["templating"]["list"].as_array().unwrap();
        let variables: BTreeSet<&str> = variables.iter().map(|it| at(it, "/name")).collect();
        let panels = board["panels"].as_array().unwrap();
        let mut places: BTreeSet<(u64, u64)> = BTreeSet::new();
        for (number, panel) in panels.iter().enumerate() {
            let title = at(panel, "/title");
            assert_eq!(panel["id"], number + 1, "{file}, {title}");
            let place = &panel["gridPos"];
            let number = |key: &str| place[key].as_u64().unwrap();
            assert!(number("x") + number("w") <= 24, "{file}, {title}");
            for x in number("x")..number("x") + number("w") {
                for y in number("y")..number("y") + number("h") {
                    assert!(places.insert((x, y)), "{file}, {title}: on top of another one");
                }
            }
            if panel["type"] != "row" {
                assert_eq!(at(panel, "/datasource/uid"), "${datasource}", "{file}, {title}");
            }
        }
        let document = board.to_string();
        for used in document.split('$').skip(1).filter(|rest| !rest.starts_with("__")) {
            let name = used.trim_start_matches('{');
            let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
            assert!(variables.contains(name), "{file}: `${name}` is not a variable");
        }
    }
}

#[test]
fn each_alert_has_a_text_and_a_page() {
    let mut names = BTreeSet::new();
    for alert in alerts() {
        let name = at(&alert, "/alert").to_owned();
        let severity = at(&alert, "/labels/severity");
        assert!(["critical", "warning", "info"].contains(&severity), "{name}");
        let (page, heading) = {
            let manual = at(&alert, "/annotations/manual");
            manual.split_once('#').unwrap_or((manual, ""))
        };
        let is_it = |line: &str| {
            let title = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
            line.starts_with('#') && title == heading
        };
        let page = text(page);
        assert!(heading.is_empty() || page.lines().any(is_it), "{name}: no heading `{heading}`");
        assert!(names.insert(name.clone()), "{name} is there twice");
    }
}

#[test]
fn promtool_finds_no_fault_with_the_alerts() {
    let Some(mut promtool) = tool("promtool") else { return };
    printed(promtool.args(["check", "rules"]).arg(root().join(RULES)));
}
