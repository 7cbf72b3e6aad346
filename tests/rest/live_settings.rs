//! Settings that are changed while the service runs, at SIGHUP.

use std::fs;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::events::made;
use crate::harness::{PATIENCE, Rm, Service, TempFile, ask, node};
use crate::streams::Lines;

/// A service with a file of settings that the test changes.
struct Changing {
    service: Service,
    file: TempFile,
    times: usize,
}

impl Changing {
    fn start(settings: &str) -> Self {
        let file = TempFile::new("settings.toml", settings);
        Self { service: Service::start_configured(file.path()), file, times: 0 }
    }

    /// Changes the settings and waits until they apply.
    async fn set(&mut self, settings: &str) {
        fs::write(self.file.path(), settings).unwrap();
        self.service.hang_up();
        self.times += 1;
        self.service.until_logged("settings in force", self.times).await;
    }

    async fn get(&self, path: &str) -> Value {
        let answer = self.service.http("GET", path, &[], "").await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()
    }

    /// Returns the lowest and the highest number of the kept events.
    async fn kept(&self) -> (u64, u64) {
        let batch = self.get("/ws/v1/events/batch").await;
        (batch["LowestID"].as_u64().unwrap(), batch["HighestID"].as_u64().unwrap())
    }

    async fn add_nodes(&self, rm: &Rm, ids: &[&str]) {
        let accepted = rm.read(|seen| seen.accepted_nodes.len());
        rm.send_nodes(ids.iter().map(|id| node(id, 1, 1)).collect()).await;
        rm.until("nodes", |seen| seen.accepted_nodes.len() == accepted + ids.len()).await;
    }

    /// As [`Self::add_nodes`], and waits for its events. Their number depends on how messages are
    /// grouped into steps.
    async fn add_nodes_reported(&self, rm: &Rm, ids: &[&str]) -> (u64, u64) {
        let before = made(&self.service, 3).await;
        self.add_nodes(rm, ids).await;
        made(&self.service, before + 2 * ids.len() as u64).await;
        self.kept().await
    }
}

#[tokio::test]
async fn event_settings_apply_at_once() {
    let mut it = Changing::start("[event]\nring_buffer_capacity = 10\n");
    let rm = Rm::register(&it.service, "rm").await;
    let (lowest, highest) = it.add_nodes_reported(&rm, &["n1", "n2", "n3", "n4", "n5"]).await;
    assert_eq!(highest - lowest, 9);
    it.set("[event]\nring_buffer_capacity = 6\n").await;
    assert_eq!(it.kept().await, (highest - 5, highest), "the oldest are gone");
    it.set("[event]\nring_buffer_capacity = 20\nrest_response_size = 1\n").await;
    assert_eq!(it.kept().await, (highest - 5, highest), "and do not come back");
    let some = it.get(&format!("/ws/v1/events/batch?start={highest}&count=9")).await;
    assert_eq!(some["EventRecords"].as_array().unwrap().len(), 1);
    let (lowest, highest) = it.add_nodes_reported(&rm, &["n6"]).await;
    assert_eq!(highest - lowest, 8, "there is more room");
    let one = it.get(&format!("/ws/v1/events/batch?start={lowest}")).await;
    assert_eq!(one["EventRecords"].as_array().unwrap().len(), 1, "one in an answer");

    // An open stream continues, whatever the limit is from now on.
    let mut first = Lines::open(&it.service, "", "a").await;
    let mut second = Lines::open(&it.service, "", "b").await;
    assert_eq!((first.status, second.status), (200, 200));
    it.set("[event]\nmax_streams = 1\n").await;
    assert_eq!(Lines::open(&it.service, "", "c").await.status, 503);
    it.add_nodes_reported(&rm, &["n7", "n8"]).await;
    assert_eq!(first.nodes(2).await, ["n7", "n8"]);
    assert_eq!(second.nodes(2).await, ["n7", "n8"]);

    // While tracking is off no events are recorded. Their numbers continue afterwards.
    let (_, highest) = it.kept().await;
    it.set("[event]\ntracking_enabled = false\n").await;
    it.add_nodes(&rm, &["unseen"]).await;
    let off = it.service.http("GET", "/ws/v1/events/batch", &[], "").await;
    assert_eq!(off.json()["message"], json!("Event tracking is disabled"));
    it.set("").await;
    assert_eq!(it.kept().await.1, highest);
    it.add_nodes_reported(&rm, &["n9"]).await;
    assert_eq!(first.nodes(1).await, ["n9"]);
}

#[tokio::test]
async fn the_check_interval_applies_at_once() {
    let mut it = Changing::start("[health]\ncheck_interval = 0\n");
    let healthy = async |it: &Changing| {
        let answer = it.service.http("GET", "/ws/v1/scheduler/healthcheck", &[], "").await;
        answer.json()["Healthy"].as_bool().unwrap()
    };
    let rm = Rm::register(&it.service, "rm").await;
    let nowhere = monoceros_proto::si::v1::NodeInfo {
        attributes: [("si/node-partition".to_owned(), "nowhere".to_owned())].into(),
        ..node("n1", 1, 1)
    };
    rm.send_nodes(vec![nowhere]).await;
    rm.until("refused", |seen| seen.rejected_nodes.len() == 1).await;
    assert!(healthy(&it).await, "nobody has looked since");
    it.set("[health]\ncheck_interval = \"50ms\"\n").await;
    timeout(PATIENCE, async { while healthy(&it).await {} }).await.expect("somebody looks");
    it.set("[health]\ncheck_interval = 0\n").await;
    assert!(!healthy(&it).await, "the last outcome stays");
}

#[tokio::test]
async fn the_log_filter_applies_at_once() {
    let mut it = Changing::start("[log]\nfilter = \"warn\"\n");
    let level = async |it: &Changing| it.get("/debug/fullstatedump").await["logLevel"].clone();
    assert_eq!(level(&it).await, "warn");
    it.set("[log]\nfilter = \"info,monoceros_actors=debug\"\n").await;
    assert_eq!(level(&it).await, "debug");
    let rm = Rm::register(&it.service, "rm").await.with_nodes(&["n1"]).await;
    let rm = rm.with_application("app", "root.a").await;
    rm.send_allocations(vec![], vec![ask("app", "k")], vec![]).await;
    it.service.until_logged("DEBUG", 1).await;

    for (bad, says) in [
        ("[log]\nfilter = \"loud\"\n", "loud"),
        ("[event]\nmax_streems = 3\n", "max_streems"),
        ("[event", "settings"),
    ] {
        fs::write(it.file.path(), bad).unwrap();
        it.service.hang_up();
        let told = async {
            let line = |line: &str| line.contains("settings not read again") && line.contains(says);
            while !it.service.log().lines().any(line) {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, told).await.expect("the log says why");
        assert_eq!(level(&it).await, "debug");
    }
    fs::write(it.file.path(), "[rest]\nmax_body_bytes = 7\n[log]\nfilter = \"info\"\n").unwrap();
    it.service.hang_up();
    it.service.until_logged("settings take effect at the next start", 1).await;
    assert!(it.service.log().contains("keys=rest.max_body_bytes"), "{}", it.service.log());
    assert_eq!(level(&it).await, "info");
}
