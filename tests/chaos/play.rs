//! Plays one seed: a scheduler, a resource manager, and the events of both.

use std::time::Duration;

use monoceros::grpc::stubs::v1::admin_service_client::AdminServiceClient;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use tokio::time::Instant;

use crate::belief::{Order, Shared};
use crate::compare::View;
use crate::harness::Dice;
use crate::oldest;
use crate::scheduler::Scheduler;
use crate::today::Today;

/// The dialect of the resource manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Today,
    Oldest,
}

/// Comparisons per seed, and actions between them.
const ROUNDS: usize = 4;
const STEPS: usize = 40;
/// Time for both sides to agree at rest.
const PATIENCE: Duration = Duration::from_secs(30);

const QUEUES: [&str; 3] = ["root.a", "root.b.c", "root.b.d"];

/// The queues, one of which may have a quota.
fn configuration(quota: Option<i64>) -> String {
    let max =
        quota.map_or(String::new(), |cores| format!(", resources: {{max: {{vcore: {cores}}}}}"));
    format!(
        "
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues:
          - {{name: a}}
          - name: b
            queues: [{{name: c{max}}}, {{name: d}}]
"
    )
}

enum Speaker {
    Today(Today),
    Oldest,
}

struct Game {
    dice: Dice,
    belief: Shared,
    speaker: Speaker,
    scheduler: Scheduler,
    n_names: usize,
}

/// Plays one seed to its end.
///
/// # Panics
/// If the sides do not agree.
pub(crate) async fn play(dialect: Dialect, scheduler: Scheduler, seed: u64) {
    let belief = Shared::default();
    let (addresses, queues) = (scheduler.addresses(), configuration(None));
    let speaker = match dialect {
        Dialect::Today => Speaker::Today(Today::start(&addresses, &queues, &belief)),
        Dialect::Oldest => {
            oldest::start(addresses, &queues, &belief);
            Speaker::Oldest
        }
    };
    let mut game = Game { dice: Dice(seed), belief, speaker, scheduler, n_names: 0 };
    for _ in 0..ROUNDS {
        for _ in 0..STEPS {
            game.step().await;
        }
        game.agree().await;
    }
    // With enough capacity everything is placed: nothing was forgotten.
    game.configure(None).await;
    let open = Order::NodeComes { id: "spare".to_owned(), capacity: 10_000_000 };
    game.send(vec![open]).await;
    game.until("everything is placed", |belief| belief.waiting.is_empty()).await;
}

impl Game {
    async fn step(&mut self) {
        match self.dice.below(40) {
            0..4 => self.node_comes().await,
            4..6 => self.node_changes().await,
            6 => self.node_goes().await,
            7..11 => self.application_comes().await,
            11 => self.application_goes().await,
            12..24 => self.asks().await,
            24..29 => self.releases().await,
            29..31 => self.withdraws().await,
            31..33 => self.others().await,
            33 => self.says_it_again().await,
            34 => {
                let quota = [None, Some(1), Some(3)][self.dice.below(3)];
                self.configure(quota).await;
            }
            35 => {
                self.belief.get().note(&"the connection is cut");
                self.scheduler.cut();
            }
            36 => self.fail().await,
            37 => self.resync().await,
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }

    /// Sends a message and applies it to the belief.
    async fn send(&self, orders: Vec<Order>) {
        {
            let mut belief = self.belief.get();
            for order in &orders {
                belief.apply(order);
            }
            if matches!(self.speaker, Speaker::Oldest) {
                oldest::send(&orders, &belief);
            }
        }
        if let Speaker::Today(speaker) = &self.speaker {
            speaker.send(&orders).await;
        }
    }

    fn name(&mut self, kind: &str) -> String {
        self.n_names += 1;
        format!("{kind}{}", self.n_names)
    }

    fn any_node(&mut self) -> Option<String> {
        let nodes: Vec<String> = self.belief.get().nodes.keys().cloned().collect();
        self.dice.one_of(&nodes)
    }

    fn any_application(&mut self) -> Option<String> {
        let applications: Vec<String> = self.belief.get().applications.keys().cloned().collect();
        self.dice.one_of(&applications)
    }

    /// Adds a node. Nodes have few names, so that names of removed nodes are used again.
    async fn node_comes(&mut self) {
        let id = format!("n{}", self.dice.below(8));
        let capacity = self.dice.amount(2..8, 1_000);
        if !self.belief.get().nodes.contains_key(&id) {
            self.send(vec![Order::NodeComes { id, capacity }]).await;
        }
    }

    async fn node_changes(&mut self) {
        let Some(id) = self.any_node() else { return };
        let open = !self.belief.get().nodes[&id].is_open;
        self.send(vec![Order::NodeOpens { id, open }]).await;
    }

    async fn node_goes(&mut self) {
        let Some(id) = self.any_node() else { return };
        self.send(vec![Order::NodeGoes { id }]).await;
    }

    async fn application_comes(&mut self) {
        let (id, queue) = (self.name("app"), QUEUES[self.dice.below(3)].to_owned());
        self.send(vec![Order::ApplicationComes { id, queue }]).await;
    }

    async fn application_goes(&mut self) {
        let Some(id) = self.any_application() else { return };
        self.send(vec![Order::ApplicationGoes { id }]).await;
    }

    async fn asks(&mut self) {
        let Some(application) = self.any_application() else { return };
        let n = 1 + self.dice.below(5);
        let asks = (0..n).map(|_| {
            let size = self.dice.amount(1..5, 500);
            Order::Ask { application: application.clone(), key: self.name("k"), size }
        });
        let asks = asks.collect();
        self.send(asks).await;
    }

    /// Releases some of an application's allocations.
    async fn releases(&mut self) {
        let Some(application) = self.any_application() else { return };
        let held: Vec<Order> = {
            let belief = self.belief.get();
            let requests = belief.applications[&application].requests.iter();
            let held = requests.filter_map(|(key, request)| {
                let place = request.placed.as_ref().filter(|_| !request.is_ending)?;
                let (key, uuid) = (key.clone(), place.uuid.clone());
                Some(Order::Release { application: application.clone(), key, uuid })
            });
            held.collect()
        };
        let some = held.into_iter().filter(|_| self.dice.below(2) == 0).collect();
        self.send(some).await;
    }

    async fn withdraws(&mut self) {
        let Some(application) = self.any_application() else { return };
        let waiting: Vec<String> = {
            let belief = self.belief.get();
            let requests = belief.applications[&application].requests.iter();
            let waiting =
                requests.filter(|(_, request)| request.placed.is_none() && !request.is_ending);
            waiting.map(|(key, _)| key.clone()).collect()
        };
        let Some(key) = self.dice.one_of(&waiting) else { return };
        // It may have been placed already. Then it must be released, for which the oldest dialect
        // has another message.
        self.send(vec![Order::Withdraw { application, key }]).await;
    }

    /// Adds, resizes or removes foreign allocations.
    async fn others(&mut self) {
        let Some(node) = self.any_node() else { return };
        let keys: Vec<String> = self.belief.get().nodes[&node].foreign.keys().cloned().collect();
        let size = (self.dice.below(3) > 0).then(|| self.dice.amount(1..10, 100));
        let key = match self.dice.one_of(&keys) {
            Some(key) => key,
            None if size.is_none() => return,
            None => self.name("other"),
        };
        self.send(vec![Order::Foreign { node, key, size }]).await;
    }

    /// Repeats a message.
    async fn says_it_again(&mut self) {
        let mut known = Vec::new();
        {
            let belief = self.belief.get();
            for (id, node) in &belief.nodes {
                known.push(Order::NodeComes { id: id.clone(), capacity: node.capacity });
            }
            for (id, application) in &belief.applications {
                let queue = application.queue.clone();
                known.push(Order::ApplicationComes { id: id.clone(), queue });
                if matches!(self.speaker, Speaker::Oldest) {
                    // In the oldest dialect, a repeated request adds allocations.
                    continue;
                }
                // A request that ends would be another one if it were asked for again.
                for (key, request) in application.requests.iter().filter(|(_, it)| !it.is_ending) {
                    let (application, key) = (id.clone(), key.clone());
                    known.push(Order::Ask { application, key, size: request.size });
                }
            }
        }
        if let Some(order) = self.dice.one_of(&known) {
            self.send(vec![order]).await;
        }
    }

    /// A client of the service that has the books. `None` while there is none.
    async fn admin(&self) -> Option<AdminServiceClient<tonic::transport::Channel>> {
        Some(AdminServiceClient::new(self.scheduler.owner().await?.channel().await))
    }

    /// Sets or removes a quota. Whether a manager is registered, so that there are queues, depends
    /// on the last action.
    async fn configure(&mut self, quota: Option<i64>) {
        self.belief.get().note(&format!("quota {quota:?}"));
        let request = si::UpdateConfigurationRequest {
            rm_id: "rm".to_owned(),
            config: configuration(quota),
            ..Default::default()
        };
        let Some(mut admin) = self.admin().await else { return };
        let answer = admin.update_config(request).await;
        self.belief.get().note(&answer.map(|answer| answer.into_inner().success));
    }

    async fn resync(&mut self) {
        self.belief.get().note(&"resync");
        let request = v1::TriggerResyncRequest { rm_id: "rm".to_owned(), ..Default::default() };
        let Some(mut admin) = self.admin().await else { return };
        // It may not be registered at this moment.
        let _ = admin.trigger_resync(request).await;
    }

    async fn fail(&mut self) {
        let what = self.scheduler.fail(&mut self.dice).await;
        self.belief.get().note(&what);
    }

    async fn agree(&mut self) {
        self.scheduler.mend().await;
        self.until("both sides agree", |_| true).await;
        self.belief.get().settle();
    }

    /// Waits until both sides agree, and `reached`.
    async fn until(&self, what: &str, reached: impl Fn(&View) -> bool) {
        let begin = Instant::now();
        loop {
            let reported = match self.scheduler.owner().await {
                Some(owner) => View::reported(owner).await,
                None => Err("nobody owns it".to_owned()),
            };
            let believed = {
                let belief = self.belief.get();
                if let Some(fault) = belief.faults.first() {
                    panic!("{}\n\n{fault}", belief.history());
                }
                View::believed(&belief)
            };
            if reported.as_ref() == Ok(&believed) && reached(&believed) {
                return;
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "{}\n\nnot reached: {what}\nbelieved: {believed:?}\ntold: {reported:?}",
                self.belief.get().history(),
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
