//! What stays when everything has gone: VT3 and VT4.

use std::fmt::Write as _;

use crate::client::page;
use crate::harness::Service;
use crate::speaker::{Ask, Speaker};

/// Numbers without a pattern, the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // A linear congruential generator; its upper bits are good enough to shuffle items.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// VT3: after ten thousand items, good and bad, and a release of everything, all sums are zero.
#[tokio::test]
async fn ten_thousand_items_leave_nothing_behind() {
    let service = Service::start();
    for rm in Speaker::all(&service).await {
        let mut dice = Dice(7);
        let keys: Vec<String> = (0..50).map(|n| format!("k{n}")).collect();
        let applications = ["app", "app2", "nobody"];
        rm.application("app2", &rm.queue()).await;
        rm.accepted_application("app2").await;
        for _ in 0..100 {
            let mut lists = String::new();
            for _ in 0..100 {
                let key = &keys[usize::try_from(dice.roll(50)).unwrap()];
                let application = applications[usize::try_from(dice.roll(3)).unwrap()];
                if dice.roll(3) == 0 {
                    let name = if rm.revision == "t" { "allocationKey" } else { "UUID" };
                    write!(
                        lists,
                        r#"releases {{ allocationsToRelease {{ applicationID: "{application}"
                            {name}: "{key}" terminationType: {} }} }}"#,
                        dice.roll(6)
                    )
                    .unwrap();
                    continue;
                }
                let sizes = [0, -1, 1, 500, 1_000, 4_000, i64::MAX, i64::MIN];
                let size = sizes[usize::try_from(dice.roll(8)).unwrap()];
                let n = i32::try_from(dice.roll(4)).unwrap();
                let ask =
                    Ask { key, application, size: vec![("vcore", size)], n, ..Ask::default() };
                lists += &rm.ask_text(&ask);
            }
            // The releases of a text are one list: merge them, since a message is given once.
            rm.allocation(&merged(&lists)).await;
        }
        for application in ["app", "app2"] {
            let all = format!(r#"{{ applicationID: "{application}" }}"#);
            let asks = format!("allocationAsksToRelease {all}");
            let asks = if rm.revision == "t" { "" } else { &asks };
            rm.allocation(&format!("releases {{ {asks} allocationsToRelease {all} }}")).await;
        }
        // Whole: it fits only if everything else has gone.
        rm.ask(Ask { key: "whole", size: vec![("vcore", 8_000)], ..Ask::default() }).await;
        rm.allocated("whole").await;
        rm.release("app", "whole", "").await;
        rm.released("whole").await;
        let path = format!("/ws/v1/partition/%5B{}%5Ddefault/queues", rm.client.rm_id);
        let queues = page(&service, &path).await;
        let queues: serde_json::Value = serde_json::from_str(&queues).unwrap();
        check_empty(&queues);
    }
}

/// Every queue has nothing allocated and nothing pending.
fn check_empty(queue: &serde_json::Value) {
    for field in ["allocatedResource", "pendingResource"] {
        let amounts = queue[field].as_object().into_iter().flatten();
        for (name, amount) in amounts {
            assert_eq!(amount, 0, "{} {field} {name}", queue["queuename"]);
        }
    }
    for child in queue["children"].as_array().into_iter().flatten() {
        check_empty(child);
    }
}

/// Puts all releases of a text into one message, in their order.
fn merged(lists: &str) -> String {
    let opening = "releases { ";
    let mut releases = String::new();
    let mut rest = String::new();
    let mut text = lists;
    while let Some(at) = text.find(opening) {
        rest += &text[..at];
        let inner = &text[at + opening.len()..];
        let end = inner.find("} }").unwrap() + 1;
        releases += &inner[..end];
        text = &inner[end + 2..];
    }
    format!("{rest}{text} {opening}{releases} }}")
}
