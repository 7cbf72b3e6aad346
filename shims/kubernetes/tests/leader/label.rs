//! The label of the pod that leads.

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

/// What the label was set to, of a server that answers the first requests like this.
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
fn it_is_there_while_the_replica_leads() {
    in_virtual_time(async {
        let (labels, state) = begin(|_| None);
        // What an earlier process of the pod has left there goes.
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
fn it_is_tried_again_and_that_is_told_once_a_minute() {
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
fn a_request_that_is_not_answered_is_sent_again() {
    in_virtual_time(async {
        let (labels, state) = begin(|number| (number == 1).then_some((0, Value::Null)));
        state.send_replace(ReplicaState::Leads);
        sleep(15 * SECOND).await;
        assert_eq!(*labels.lock().unwrap(), [json!("true")]);
    });
}
