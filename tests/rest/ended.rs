//! Ended and rejected applications: in both orders, by page, and filtered.

use monoceros_proto::si::v1 as si;
use serde_json::Value;

use crate::harness::{Rm, Service, application, ask};

const LISTS: &str = "/ws/v1/partition/default/applications";

fn ids(list: &Value) -> Vec<String> {
    let rows = list.as_array().unwrap().iter();
    rows.map(|row| row["applicationID"].as_str().unwrap().to_owned()).collect()
}

async fn list(service: &Service, query: &str) -> Vec<String> {
    let answer = service.http("GET", &format!("{LISTS}/{query}"), &[], "").await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.body);
    ids(&answer.json())
}

/// Reads all pages of a list, one row each.
async fn row_by_row(service: &Service, query: &str) -> Vec<String> {
    let (mut path, mut read) = (format!("{LISTS}/{query}&limit=1"), Vec::new());
    loop {
        let page = service.http("GET", &path, &[], "").await;
        read.extend(ids(&page.json()));
        let mut head = page.head.lines();
        let Some(next) = head.find_map(|line| line.strip_prefix("link: <")) else { return read };
        next.split_once('>').unwrap().0.clone_into(&mut path);
    }
}

/// Submits six applications of two users to two queues that do not exist.
async fn start() -> (Service, Rm) {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await;
    for (at, id) in ["Job-1", "job-2", "other-1", "job-3", "other-2", "job-10"].iter().enumerate() {
        let mut new = application(id, ["root.x.a", "root.x.b"][at % 2]);
        ["ada", "bob"][at / 3].clone_into(&mut new.ugi.as_mut().unwrap().user);
        rm.send_applications(vec![new], vec![]).await;
        rm.until(id, |seen| seen.rejected_applications.len() == at + 1).await;
    }
    (service, rm)
}

#[tokio::test]
async fn ended_applications_are_filtered_in_either_order() {
    let (service, _rm) = start().await;
    let all = ["Job-1", "job-2", "other-1", "job-3", "other-2", "job-10"];
    let newest: Vec<_> = all.into_iter().rev().collect();
    for (query, expected) in [
        ("", &all[..]),
        ("?order=oldest", &all),
        ("?order=newest", &newest),
        ("?search=JOB-1", &["Job-1", "job-10"]),
        ("?search=job-1&order=newest", &["job-10", "Job-1"]),
        ("?user=bob", &["job-3", "other-2", "job-10"]),
        ("?queue=root.x.a", &["Job-1", "other-1", "other-2"]),
        ("?queue=root", &all),
        ("?queue=root.x.b&user=ada&search=job", &["job-2"]),
        ("?user=nobody", &[]),
    ] {
        assert_eq!(list(&service, &format!("rejected{query}")).await, expected, "{query}");
    }
    assert_eq!(list(&service, "completed?order=newest").await, [""; 0]);
    for (query, expected) in [
        ("order=oldest", &all[..]),
        ("order=newest", &newest),
        ("order=newest&search=job", &["job-10", "job-3", "job-2", "Job-1"]),
    ] {
        assert_eq!(row_by_row(&service, &format!("rejected?{query}")).await, expected, "{query}");
    }
}

/// Submits an application with two labels, and removes another that waits.
#[tokio::test]
async fn a_removed_application_is_found_with_its_labels() {
    let service = Service::start();
    let rm = Rm::register(&service, "rm").await;
    for (id, team) in [("gone", "physics"), ("stays", "biology")] {
        let mut new = application(id, "root.a");
        let tags = [("team", team), ("tier", "1")];
        new.tags = tags.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        rm.send_applications(vec![new], vec![]).await;
        rm.until(id, |seen| seen.accepted_applications.contains(&id.to_owned())).await;
    }
    rm.send_allocations(vec![], vec![ask("gone", "k1")], vec![]).await;
    let path = "/ws/v1/partition/default/application/gone";
    while !service.get(path).await.contains("pendingResource") {}
    let removal = si::RemoveApplicationRequest {
        application_id: "gone".to_owned(),
        partition_name: "default".to_owned(),
    };
    rm.send_applications(vec![], vec![removal]).await;
    rm.until("the ask is released", |seen| !seen.released.is_empty()).await;
    assert_eq!(list(&service, "completed").await, [""; 0]);
    for (query, expected) in [
        ("ended", &["gone"][..]),
        ("ended?label=team=physics", &["gone"]),
        ("ended?label=team=biology", &[]),
        ("active?label=team=biology,tier", &["stays"]),
        ("active?label=team=biology,tier=2", &[]),
        ("active?label=none", &[]),
    ] {
        assert_eq!(list(&service, query).await, expected, "{query}");
    }
    let found = service.http("GET", path, &[], "").await.json();
    assert_eq!(found["applicationState"], "Removed");
    assert_eq!(found["applicationTags"]["team"], "physics");
    let message = found["removedMessage"].as_str().unwrap();
    assert!(message.starts_with("removed by its resource manager rm, waited for "), "{message}");
    let explained = service.http("GET", &format!("{path}/explain"), &[], "").await;
    assert_eq!(explained.status, 404);
    let text = "application `gone` was removed by its resource manager rm at ";
    assert!(explained.body.contains(text), "{}", explained.body);
}

#[tokio::test]
async fn an_unknown_order_is_refused() {
    let service = Service::start();
    let _rm = Rm::register(&service, "rm").await;
    let answer = service.http("GET", &format!("{LISTS}/completed?order=alphabet"), &[], "").await;
    assert_eq!(answer.status, 400);
    assert!(
        answer.body.contains("order `alphabet` is neither oldest nor newest"),
        "{}",
        answer.body
    );
}

/// In YuniKorn's interface, the status filters live applications only.
#[tokio::test]
async fn a_status_does_not_filter_ended_applications() {
    let (service, _rm) = start().await;
    assert_eq!(list(&service, "rejected?status=running&search=job-2").await, ["job-2"]);
}
