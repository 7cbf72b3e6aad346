//! The label of the leading pod.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use monoceros_kubernetes::connect::mark_leader;
use monoceros_kubernetes::run::ReplicaState;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::log::Log;
use crate::replicas::in_virtual_time;
use crate::stub::{Answer, client, refusal};

const SECOND: Duration = Duration::from_secs(1);

/// Starts labelling against a server with these first answers. Returns the values that were set.
type Labels = Arc<Mutex<Vec<Value>>>;

fn begin(
    first: impl Fn(usize) -> Option<Answer> + Send + Sync + 'static,
) -> (Labels, watch::Sender<ReplicaState>) {
    let labels = Labels::default();
    let (state, states) = watch::channel(ReplicaState::Reading);
    let set = Arc::clone(&labels);
    let requests = Arc::new(Mutex::new(0));
    let first = Arc::new(first);
    let client = client(move |method, path, body| {
        let (set, requests, first) = (Arc::clone(&set), Arc::clone(&requests), Arc::clone(&first));
        async move {
            assert_eq!((&*method, &*path), ("PATCH", "/api/v1/namespaces/ns/pods/own"));
            *requests.lock().unwrap() += 1;
            let number = *requests.lock().unwrap();
            match first(number) {
                Some((0, _)) => std::future::pending().await,
                Some(answer) => answer,
                None => {
                    let label = body["metadata"]["labels"]["monoceros.io/leader"].clone();
                    set.lock().unwrap().push(label);
                    (200, json!({}))
                }
            }
        }
    });
    tokio::spawn(mark_leader(client, "ns".to_owned(), "own".to_owned(), states));
    (labels, state)
}

#[test]
fn label_is_set_while_the_replica_leads() {
    in_virtual_time(async {
        let (labels, state) = begin(|_| None);
        // The label of an earlier process of the pod is removed.
        sleep(SECOND).await;
        assert_eq!(*labels.lock().unwrap(), [Value::Null]);
        state.send_replace(ReplicaState::Standby(None));
        sleep(SECOND).await;
        state.send_replace(ReplicaState::Leads);
        sleep(SECOND).await;
        assert_eq!(*labels.lock().unwrap(), [Value::Null, json!("true")]);
    });
}

#[test]
fn label_is_retried_and_logged_once_a_minute() {
    in_virtual_time(async {
        let log = Log::begin();
        let (labels, state) = begin(|number| (number <= 145).then(|| refusal(403)));
        state.send_replace(ReplicaState::Leads);
        sleep(280 * SECOND).await;
        assert_eq!(log.lines("the own pod cannot be labelled").len(), 5);
        assert_eq!(*labels.lock().unwrap(), [Value::Null; 0]);
        sleep(20 * SECOND).await;
        assert_eq!(*labels.lock().unwrap(), [json!("true")]);
    });
}

#[test]
fn unanswered_label_request_is_repeated() {
    in_virtual_time(async {
        let (labels, state) = begin(|number| (number == 1).then_some((0, Value::Null)));
        state.send_replace(ReplicaState::Leads);
        sleep(15 * SECOND).await;
        assert_eq!(*labels.lock().unwrap(), [json!("true")]);
    });
}
