use super::*;

/// Acts as a scheduler that accepts and places everything possible at once, and acknowledges it.
fn obey(model: &mut Model, orders: Orders) {
    let can_be = |new: &si::AddApplicationRequest| {
        !["swarm", "stray", "giant"].iter().any(|kind| new.application_id.starts_with(kind))
    };
    let (accepted, rejected): (Vec<_>, Vec<_>) = orders.new.into_iter().partition(can_be);
    let accepted = accepted
        .into_iter()
        .map(|new| si::AcceptedApplication { application_id: new.application_id });
    let rejected = rejected.into_iter().map(|new| si::RejectedApplication {
        application_id: new.application_id,
        ..Default::default()
    });
    model.on_applications(si::ApplicationResponse {
        accepted: accepted.collect(),
        rejected: rejected.collect(),
        ..Default::default()
    });
    // Each member takes the place of a placeholder.
    let is_member =
        |ask: &&si::Allocation| ask.application_id.starts_with("mpi") && !ask.placeholder;
    let mut replaced = Vec::new();
    for member in orders.asks.iter().filter(is_member) {
        let id = &member.application_id;
        let is_taken = |key: &&String| {
            replaced.iter().any(|it: &si::AllocationRelease| {
                it.application_id == *id && it.allocation_key == **key
            })
        };
        let mut places = model.applications[id].places.keys();
        if let Some(place) = places.find(|key| !is_taken(key)) {
            replaced.push(release(id, place, TerminationType::PlaceholderReplaced));
        }
    }
    let stopped = orders.releases.into_iter();
    let stopped = stopped.filter(|it| it.termination_type() == TerminationType::StoppedByRm);
    model.on_allocations(si::AllocationResponse {
        new: orders.asks,
        released: stopped.chain(replaced).collect(),
        ..Default::default()
    });
}

/// Runs an hour, and calls `look` after each tick.
fn one_hour(mut look: impl FnMut(&Model, &Orders)) {
    let mut model = Model::new(1);
    for tick in 0..4 * 3_600 {
        model.tick(Duration::from_millis(250 * tick));
        let orders = model.take_orders();
        look(&model, &orders);
        obey(&mut model, orders);
        // Applications whose tasks are done complete at once.
        let done = model.applications.iter().filter(|(_, a)| a.ends != FOREVER && a.is_done());
        let updated = done.map(|(id, _)| si::UpdatedApplication {
            application_id: id.clone(),
            state: "Completed".to_owned(),
            ..Default::default()
        });
        let updated = updated.collect();
        model.on_applications(si::ApplicationResponse { updated, ..Default::default() });
    }
}

#[test]
fn the_cluster_is_busy_and_not_swamped() {
    let (mut sum, mut n_looks, mut least) = (0, 0, 100);
    one_hour(|model, _| {
        assert!(model.running_cores() <= CORES, "{} cores run", model.running_cores());
        assert!(model.applications.len() <= MOST_APPLICATIONS);
        if model.now > Duration::from_secs(60) {
            sum += model.running_cores() * 100 / CORES;
            n_looks += 1;
            least = least.min(model.running_cores() * 100 / CORES);
        }
    });
    let average = sum / n_looks;
    assert!((65..=85).contains(&average), "{average} % busy on average");
    assert!(least > 45, "only {least} % busy at some time");
}

#[test]
fn every_kind_runs_and_nodes_drain_and_return() {
    let (mut submitted, mut removed) = (BTreeMap::<String, u64>::new(), BTreeMap::new());
    let (mut drained, mut returned) = (0, 0);
    let kind = |id: &str| id.split('-').next().unwrap().to_owned();
    one_hour(|_, orders| {
        for new in &orders.new {
            *submitted.entry(kind(&new.application_id)).or_default() += 1;
        }
        for remove in &orders.remove {
            *removed.entry(kind(&remove.application_id)).or_insert(0_u64) += 1;
        }
        let count = |action: ActionFromRm| {
            orders.nodes.iter().filter(|node| node.action() == action).count()
        };
        drained += count(ActionFromRm::DrainNode);
        returned += count(ActionFromRm::DrainToSchedulable);
    });
    for kind in
        ["spark", "service", "batch", "mpi", "training", "adhoc", "bulk", "report", "database"]
    {
        assert!(submitted[kind] > 25, "{submitted:?}");
    }
    for kind in ["giant", "swarm", "stray"] {
        assert!(submitted[kind] > 15, "{submitted:?}");
    }
    assert!(removed["spark"] + 20 > submitted["spark"]);
    assert!(removed["training"] + 20 > submitted["training"]);
    assert!(removed["service"] + 20 > submitted["service"]);
    for kind in ["batch", "mpi", "adhoc", "bulk", "report"] {
        assert!(!removed.contains_key(kind), "they complete by themselves");
    }
    assert!(drained > 10 && returned + 1 >= drained, "{drained} drained, {returned} back");
}

#[test]
fn a_preempted_container_is_confirmed_and_requested_again() {
    let mut model = Model::new(1);
    let running = |model: &Model| {
        let busy = model.applications.iter().find(|(_, a)| a.running.len() > 1);
        busy.map(|(id, a)| (id.clone(), a.running.keys().next_back().unwrap().clone()))
    };
    let mut tick = 0;
    let (id, key) = loop {
        tick += 1;
        model.tick(Duration::from_millis(250 * tick));
        let orders = model.take_orders();
        obey(&mut model, orders);
        if let Some(container) = running(&model) {
            break container;
        }
    };
    model.take_orders();
    let preempted = release(&id, &key, TerminationType::PreemptedByScheduler);
    model.on_allocations(si::AllocationResponse {
        released: vec![preempted.clone()],
        ..Default::default()
    });
    let orders = model.take_orders();
    assert_eq!(orders.releases, [preempted]);
    assert_eq!(orders.asks.len(), 1);
    assert_ne!(orders.asks[0].allocation_key, key, "asks come before releases");
}

/// Returns a model with one accepted application of this kind. All other applications are removed.
fn with_one(kind: &str) -> (Model, String) {
    let mut model = Model::new(7);
    for tick in 1.. {
        model.tick(TICK * tick);
        let orders = model.take_orders();
        if let Some(new) = orders.new.iter().find(|new| new.application_id.starts_with(kind)) {
            let id = new.application_id.clone();
            model.applications.retain(|known, _| *known == id);
            model.next_arrival = FOREVER;
            model.next_drain = FOREVER;
            obey(&mut model, Orders { new: orders.new, ..Orders::default() });
            return (model, id);
        }
    }
    unreachable!("every kind comes")
}

const TICK: Duration = Duration::from_millis(250);

fn place(model: &mut Model, asks: &[si::Allocation]) {
    model.on_allocations(si::AllocationResponse { new: asks.to_vec(), ..Default::default() });
}

fn end(model: &mut Model, id: &str, key: &str, cause: TerminationType) {
    let released = vec![release(id, key, cause)];
    model.on_allocations(si::AllocationResponse { released, ..Default::default() });
}

fn resume(model: &mut Model, id: &str) {
    let updated = vec![si::UpdatedApplication {
        application_id: id.to_owned(),
        state: "Resuming".to_owned(),
        ..Default::default()
    }];
    model.on_applications(si::ApplicationResponse { updated, ..Default::default() });
}

#[test]
fn members_are_requested_once_all_placeholders_have_nodes() {
    let (mut model, id) = with_one("mpi");
    let places = model.take_orders().asks;
    assert!(places.len() >= 6);
    assert!(places.iter().all(|ask| ask.placeholder && ask.task_group_name == "members"));
    place(&mut model, &places[1..]);
    assert_eq!(model.take_orders().asks, []);
    place(&mut model, &places[..1]);
    let members = model.take_orders().asks;
    assert_eq!(members.len(), places.len());
    for (member, place) in members.iter().zip(&places) {
        assert!(!member.placeholder && member.task_group_name == "members");
        assert_eq!(member.resource_per_alloc, place.resource_per_alloc);
    }
    let key = &places[0].allocation_key;
    end(&mut model, &id, key, TerminationType::PlaceholderReplaced);
    let confirmed = release(&id, key, TerminationType::PlaceholderReplaced);
    let orders = model.take_orders();
    assert_eq!((orders.releases, orders.asks), (vec![confirmed], vec![]));
}

#[test]
fn a_placeholder_lost_early_is_requested_again() {
    let (mut model, id) = with_one("mpi");
    let places = model.take_orders().asks;
    place(&mut model, &places[1..]);
    let lost = &places[1].allocation_key;
    end(&mut model, &id, lost, TerminationType::PreemptedByScheduler);
    let orders = model.take_orders();
    assert_eq!(orders.releases, [release(&id, lost, TerminationType::PreemptedByScheduler)]);
    assert_eq!(orders.asks.len(), 1);
    assert!(orders.asks[0].placeholder && orders.asks[0].allocation_key != *lost);
    place(&mut model, &places[..1]);
    assert_eq!(model.take_orders().asks, [], "the one that was lost has no node yet");
    place(&mut model, &orders.asks);
    assert_eq!(model.take_orders().asks.len(), places.len());
}

#[test]
fn a_placeholder_timeout_requests_the_members_once() {
    let (mut model, id) = with_one("mpi");
    let places = model.take_orders().asks;
    place(&mut model, &places[1..]);
    resume(&mut model, &id);
    let members = model.take_orders().asks;
    assert_eq!(members.len(), places.len());
    assert!(members.iter().all(|ask| !ask.placeholder));
    for place in &places[1..] {
        end(&mut model, &id, &place.allocation_key, TerminationType::Timeout);
    }
    let orders = model.take_orders();
    assert_eq!(orders.asks, []);
    assert_eq!(orders.releases.len(), places.len() - 1, "each is confirmed");
}

#[test]
fn a_declared_gang_requests_driver_then_workers() {
    let (mut model, id) = with_one("training");
    let driver = model.take_orders().asks;
    assert_eq!(driver.len(), 1);
    assert_eq!((&*driver[0].task_group_name, driver[0].originator), ("driver", true));
    place(&mut model, &driver);
    let workers = model.take_orders().asks;
    assert!((4..=8).contains(&workers.len()));
    assert!(workers.iter().all(|ask| ask.task_group_name == "members" && !ask.placeholder));
    place(&mut model, &workers[1..]);
    let ends = |model: &Model| {
        let running = &model.applications[&id].running;
        running.values().copied().collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(ends(&model), [FOREVER].into(), "one is missing");
    place(&mut model, &workers[..1]);
    let end = *ends(&model).first().unwrap();
    assert_eq!(ends(&model), [end, FOREVER].into(), "the workers at once, and the driver never");
    model.tick(end);
    let orders = model.take_orders();
    assert_eq!(orders.releases.len(), workers.len());
    assert_eq!(orders.remove.len(), 1, "it is removed with its driver");
}

#[test]
fn a_replaced_worker_restarts_the_gang() {
    let (mut model, id) = with_one("training");
    for _ in 0..2 {
        let asks = model.take_orders().asks;
        place(&mut model, &asks);
    }
    let first_end = *model.applications[&id].running.values().min().unwrap();
    model.tick(first_end.saturating_sub(TICK));
    end(&mut model, &id, "worker-1", TerminationType::PreemptedByScheduler);
    let asks = model.take_orders().asks;
    assert_eq!(asks.len(), 1);
    assert_eq!(asks[0].task_group_name, "members");
    place(&mut model, &asks);
    let running = &model.applications[&id].running;
    assert!(running.values().all(|end| *end > first_end), "{running:?}");
}
