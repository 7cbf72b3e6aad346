//! Finds the endpoint of a path.
//!
//! A path that differs from an endpoint's only in letter case, doubled or trailing slashes, or dots
//! is redirected to the canonical spelling, with its parameters unchanged. Existing clients spell
//! paths in many ways and follow redirects, so every path that used to work must still be found.

use axum::http::Method;
use percent_encoding::percent_decode_str;

use crate::identity::Right;
use crate::logbook::history::HistorySubject;

/// An endpoint with its parameters, percent-decoded once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Page,
    View,
    Asset { name: String },
    Health,
    Ready,
    Metrics,
    Config,
    ValidateConf,
    WhatIf,
    Clusters,
    Partitions,
    PlacementRules { partition: String },
    Queues { partition: String },
    Queue { partition: String, queue: String },
    Applications { partition: String, queue: String },
    ApplicationsOfQueueIn { partition: String, queue: String, state: String },
    ApplicationOfQueue { partition: String, queue: String, application: String },
    ApplicationsIn { partition: String, state: String },
    Application { partition: String, application: String },
    Explain { partition: String, application: String },
    Nodes { partition: String },
    Node { partition: String, node: String },
    Decisions { partition: String },
    RunTimes { partition: String },
    Users { partition: String },
    User { partition: String, user: String },
    Groups { partition: String },
    Group { partition: String, group: String },
    History { partition: String, kind: HistorySubject, name: String },
    AppHistory,
    ContainerHistory,
    HealthCheck,
    NodeUtilizations,
    EventBatch,
    EventStream,
    Sessions,
    Cluster,
    Stack,
    Profiles,
    Profile { name: String },
    StateDump,
    Snapshot,
}

/// The method that an endpoint answers, besides OPTIONS. With GET it also answers HEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answers {
    Get,
    Post,
}

impl Endpoint {
    pub(super) fn answers(&self) -> Answers {
        match self {
            Self::ValidateConf | Self::WhatIf => Answers::Post,
            _ => Answers::Get,
        }
    }

    /// Returns the partition of the endpoint, if it has one.
    pub(super) fn partition_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::PlacementRules { partition }
            | Self::Queues { partition }
            | Self::Queue { partition, .. }
            | Self::Applications { partition, .. }
            | Self::ApplicationsOfQueueIn { partition, .. }
            | Self::ApplicationOfQueue { partition, .. }
            | Self::ApplicationsIn { partition, .. }
            | Self::Application { partition, .. }
            | Self::Explain { partition, .. }
            | Self::Nodes { partition }
            | Self::Node { partition, .. }
            | Self::Decisions { partition }
            | Self::RunTimes { partition }
            | Self::Users { partition }
            | Self::User { partition, .. }
            | Self::Groups { partition }
            | Self::Group { partition, .. }
            | Self::History { partition, .. } => Some(partition),
            Self::Page
            | Self::View
            | Self::Asset { .. }
            | Self::Health
            | Self::Ready
            | Self::Metrics
            | Self::Config
            | Self::ValidateConf
            | Self::WhatIf
            | Self::Clusters
            | Self::Partitions
            | Self::AppHistory
            | Self::ContainerHistory
            | Self::HealthCheck
            | Self::NodeUtilizations
            | Self::EventBatch
            | Self::EventStream
            | Self::Sessions
            | Self::Cluster
            | Self::Stack
            | Self::Profiles
            | Self::Profile { .. }
            | Self::StateDump
            | Self::Snapshot => None,
        }
    }
}

impl Endpoint {
    /// Whether the endpoint is about this process, so that a standby replica answers it too.
    pub(super) fn is_about_this_process(&self) -> bool {
        matches!(
            self,
            Self::Page
                | Self::View
                | Self::Asset { .. }
                | Self::Health
                | Self::Ready
                | Self::Metrics
                | Self::Cluster
                | Self::Stack
                | Self::Profiles
                | Self::Profile { .. }
        )
    }
}

impl Answers {
    /// Whether the endpoint answers this method.
    pub(super) fn is(self, method: &Method) -> bool {
        match self {
            Self::Get => method == Method::GET || method == Method::HEAD,
            Self::Post => method == Method::POST,
        }
    }

    /// Returns all methods that the endpoint answers.
    pub(super) fn all(self) -> &'static str {
        match self {
            Self::Get => "GET, HEAD, OPTIONS",
            Self::Post => self.methods(),
        }
    }

    /// Returns the methods for web pages of other origins. HEAD is always allowed.
    pub(super) fn methods(self) -> &'static str {
        match self {
            Self::Get => "GET, OPTIONS",
            Self::Post => "OPTIONS, POST",
        }
    }
}

/// The meaning of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// An endpoint, and the right that it needs.
    Found(Endpoint, Right),
    /// The canonical path.
    Redirect(String),
    Unknown,
}

/// A path whose parameters are in braces, the right that it needs, and the constructor of its
/// endpoint.
type RouteRow = (&'static str, Right, fn(&mut Parameters) -> Endpoint);

const TABLE: [RouteRow; 44] = [
    ("/", Right::Nothing, |_| Endpoint::Page),
    ("/ui/{view}", Right::Nothing, |p| {
        // The page itself selects the view.
        p.take();
        Endpoint::View
    }),
    ("/assets/{name}", Right::Nothing, |p| Endpoint::Asset { name: p.take() }),
    ("/healthz", Right::Nothing, |_| Endpoint::Health),
    ("/readyz", Right::Nothing, |_| Endpoint::Ready),
    ("/ws/v1/metrics", Right::ReadAll, |_| Endpoint::Metrics),
    ("/ws/v1/config", Right::Read, |_| Endpoint::Config),
    ("/ws/v1/validate-conf", Right::Known, |_| Endpoint::ValidateConf),
    ("/ws/v1/whatif", Right::ReadAll, |_| Endpoint::WhatIf),
    ("/ws/v1/history/apps", Right::ReadAll, |_| Endpoint::AppHistory),
    ("/ws/v1/history/containers", Right::ReadAll, |_| Endpoint::ContainerHistory),
    ("/ws/v1/scheduler/healthcheck", Right::ReadAll, |_| Endpoint::HealthCheck),
    ("/ws/v1/scheduler/node-utilizations", Right::Known, |_| Endpoint::NodeUtilizations),
    ("/ws/v1/events/batch", Right::ReadAll, |_| Endpoint::EventBatch),
    ("/ws/v1/events/stream", Right::ReadAll, |_| Endpoint::EventStream),
    ("/ws/v1/sessions", Right::ReadAll, |_| Endpoint::Sessions),
    ("/ws/v1/cluster", Right::ReadAll, |_| Endpoint::Cluster),
    ("/ws/v1/clusters", Right::Known, |_| Endpoint::Clusters),
    ("/ws/v1/partitions", Right::Known, |_| Endpoint::Partitions),
    ("/ws/v1/partition/{partition}/placementrules", Right::Read, |p| Endpoint::PlacementRules {
        partition: p.take(),
    }),
    ("/ws/v1/partition/{partition}/queues", Right::Read, |p| Endpoint::Queues {
        partition: p.take(),
    }),
    ("/ws/v1/partition/{partition}/queue/{queue}", Right::Read, |p| Endpoint::Queue {
        partition: p.take(),
        queue: p.take(),
    }),
    ("/ws/v1/partition/{partition}/queue/{queue}/applications", Right::Read, |p| {
        Endpoint::Applications { partition: p.take(), queue: p.take() }
    }),
    ("/ws/v1/partition/{partition}/queue/{queue}/applications/{state}", Right::Read, |p| {
        let (partition, queue, state) = (p.take(), p.take(), p.take());
        Endpoint::ApplicationsOfQueueIn { partition, queue, state }
    }),
    ("/ws/v1/partition/{partition}/queue/{queue}/application/{application}", Right::Read, |p| {
        let (partition, queue, application) = (p.take(), p.take(), p.take());
        Endpoint::ApplicationOfQueue { partition, queue, application }
    }),
    ("/ws/v1/partition/{partition}/applications/{state}", Right::Read, |p| {
        Endpoint::ApplicationsIn { partition: p.take(), state: p.take() }
    }),
    ("/ws/v1/partition/{partition}/application/{application}", Right::Read, |p| {
        Endpoint::Application { partition: p.take(), application: p.take() }
    }),
    ("/ws/v1/partition/{partition}/application/{application}/explain", Right::Read, |p| {
        Endpoint::Explain { partition: p.take(), application: p.take() }
    }),
    ("/ws/v1/partition/{partition}/nodes", Right::Read, |p| Endpoint::Nodes {
        partition: p.take(),
    }),
    ("/ws/v1/partition/{partition}/node/{node}", Right::Read, |p| Endpoint::Node {
        partition: p.take(),
        node: p.take(),
    }),
    ("/ws/v1/partition/{partition}/decisions", Right::Read, |p| Endpoint::Decisions {
        partition: p.take(),
    }),
    ("/ws/v1/partition/{partition}/runtimes", Right::Read, |p| Endpoint::RunTimes {
        partition: p.take(),
    }),
    ("/ws/v1/partition/{partition}/usage/users", Right::Read, |p| Endpoint::Users {
        partition: p.take(),
    }),
    ("/ws/v1/partition/{partition}/usage/user/{user}", Right::Read, |p| Endpoint::User {
        partition: p.take(),
        user: p.take(),
    }),
    ("/ws/v1/partition/{partition}/usage/groups", Right::Read, |p| Endpoint::Groups {
        partition: p.take(),
    }),
    ("/ws/v1/partition/{partition}/usage/group/{group}", Right::Read, |p| Endpoint::Group {
        partition: p.take(),
        group: p.take(),
    }),
    ("/ws/v1/partition/{partition}/history/queue/{queue}", Right::Read, |p| Endpoint::History {
        partition: p.take(),
        kind: HistorySubject::Queue,
        name: p.take(),
    }),
    ("/ws/v1/partition/{partition}/history/user/{user}", Right::Read, |p| Endpoint::History {
        partition: p.take(),
        kind: HistorySubject::User,
        name: p.take(),
    }),
    ("/ws/v1/partition/{partition}/history/node/{node}", Right::Read, |p| Endpoint::History {
        partition: p.take(),
        kind: HistorySubject::Node,
        name: p.take(),
    }),
    ("/ws/v1/snapshot", Right::ReadAll, |_| Endpoint::Snapshot),
    ("/debug/stack", Right::ReadAll, |_| Endpoint::Stack),
    ("/debug/pprof", Right::ReadAll, |_| Endpoint::Profiles),
    ("/debug/pprof/{profile}", Right::ReadAll, |p| Endpoint::Profile { name: p.take() }),
    ("/debug/fullstatedump", Right::ReadAll, |_| Endpoint::StateDump),
];

/// Old paths and their successors.
const MOVED: [(&str, &str); 2] =
    [("/ws/v1/fullstatedump", "/debug/fullstatedump"), ("/ws/v1/stack", "/debug/stack")];

/// Finds the endpoint of a raw path.
pub(super) fn find(path: &str) -> Route {
    for (pattern, right, make) in TABLE {
        if let Some(parameters) = exact(pattern, path) {
            return Route::Found(make(&mut Parameters(parameters.into_iter())), right);
        }
    }
    let segments = cleaned(path);
    for (pattern, ..) in TABLE {
        if let Some(canonical) = respelled(pattern, &segments) {
            return Route::Redirect(canonical);
        }
    }
    for (earlier, path) in MOVED {
        if respelled(earlier, &segments).is_some() {
            return Route::Redirect(path.to_owned());
        }
    }
    Route::Unknown
}

/// The segments in place of the braces, in order.
struct Parameters(std::vec::IntoIter<String>);

impl Parameters {
    fn take(&mut self) -> String {
        self.0.next().expect("a row of the table takes as many parameters as its path has")
    }
}

/// Returns the parameters if `path` matches `pattern` exactly.
fn exact(pattern: &str, path: &str) -> Option<Vec<String>> {
    let mut parameters = Vec::new();
    let mut segments = path.split('/');
    for expected in pattern.split('/') {
        let segment = segments.next()?;
        if expected.starts_with('{') && !segment.is_empty() {
            // A malformed escape stays as it is: no item has such a name, so it is not found.
            parameters.push(percent_decode_str(segment).decode_utf8_lossy().into_owned());
        } else if segment != expected {
            return None;
        }
    }
    segments.next().is_none().then_some(parameters)
}

/// Splits `path` into segments, without empty ones and dots.
fn cleaned(path: &str) -> Vec<&str> {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    segments
}

/// Returns the canonical path if `segments` match `pattern` except for letter case.
fn respelled(pattern: &str, segments: &[&str]) -> Option<String> {
    let expected: Vec<_> = pattern.split('/').filter(|segment| !segment.is_empty()).collect();
    if expected.len() != segments.len() {
        return None;
    }
    let mut canonical = String::new();
    for (expected, segment) in expected.into_iter().zip(segments) {
        let is_parameter = expected.starts_with('{');
        if !is_parameter && !expected.eq_ignore_ascii_case(segment) {
            return None;
        }
        canonical.push('/');
        canonical.push_str(if is_parameter { segment } else { expected });
    }
    Some(if canonical.is_empty() { "/".to_owned() } else { canonical })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_takes_its_parameters() {
        for (pattern, ..) in TABLE {
            assert!(matches!(find(pattern), Route::Found(..)), "{pattern}");
        }
    }

    #[test]
    fn the_manual_has_every_row_of_the_table() {
        let manual = include_str!("../../docs/rest.md");
        for (pattern, ..) in TABLE {
            assert!(manual.contains(&format!("| `{pattern}` |")), "{pattern}");
        }
    }

    #[test]
    fn the_manual_says_what_each_path_needs() {
        let manual = include_str!("../../docs/security.md");
        for (pattern, right, _) in TABLE {
            let row = format!("| `{pattern}` | {} |", right.text());
            assert!(manual.contains(&row), "{row}");
        }
    }

    #[test]
    fn partition_paths_need_the_right_of_their_manager() {
        for (pattern, right, make) in TABLE {
            let n_parameters = pattern.matches('{').count();
            let parameters = vec!["p".to_owned(); n_parameters];
            let mut endpoint = make(&mut Parameters(parameters.into_iter()));
            assert_eq!(endpoint.partition_mut().is_some(), pattern.contains("{partition}"));
            assert_eq!(
                right == Right::Read,
                endpoint.partition_mut().is_some() || endpoint == Endpoint::Config,
                "{pattern}"
            );
        }
    }

    #[test]
    fn parameters_are_split_raw_and_decoded_once() {
        for (segment, queue) in [
            ("root.a", "root.a"),
            ("root.a%2Fb", "root.a/b"),
            ("root.a%252Fb", "root.a%2Fb"),
            ("root.a%23b", "root.a#b"),
            ("root.a+b", "root.a+b"),
            ("%Zt", "%Zt"),
        ] {
            let path = format!("/ws/v1/partition/%5Brm%5Ddefault/queue/{segment}");
            let (partition, queue) = ("[rm]default".to_owned(), queue.to_owned());
            let queue = Endpoint::Queue { partition, queue };
            assert_eq!(find(&path), Route::Found(queue, Right::Read));
        }
    }

    #[test]
    fn other_spellings_lead_to_the_canonical_one() {
        for (path, canonical) in [
            ("/ws/v1/clusters/", "/ws/v1/clusters"),
            ("/ws/v1/CLUSTERS", "/ws/v1/clusters"),
            ("//ws/v1/clusters", "/ws/v1/clusters"),
            ("/ws/./v2/../v1/clusters", "/ws/v1/clusters"),
            ("/WS/v1/Partition/Default/Queue/Root.A/", "/ws/v1/partition/Default/queue/Root.A"),
            ("/ws/v1/partition/p/queue//applications", "/ws/v1/partition/p/queue/applications"),
            ("//", "/"),
            ("/..", "/"),
            ("/ws/v1/fullstatedump", "/debug/fullstatedump"),
            ("/ws/v1/stack", "/debug/stack"),
            ("/debug/pprof/", "/debug/pprof"),
        ] {
            assert_eq!(find(path), Route::Redirect(canonical.to_owned()), "{path}");
        }
    }

    #[test]
    fn other_paths_are_unknown() {
        for path in ["/ws/v1", "/ws/v1/partition//queues", "/ws/v1/clusters/x", "*"] {
            assert_eq!(find(path), Route::Unknown, "{path}");
        }
    }
}
