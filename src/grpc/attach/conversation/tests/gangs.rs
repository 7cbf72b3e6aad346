//! Questions about members of a gang: bundles of places, and held places.

use super::*;

/// Nodes come first, then the places that name them, then the question; again on each stream.
#[test]
fn bundle_places_precede_the_question() {
    let mut talk = TestedConversation::required();
    for stream in 1..=2 {
        talk.attach(&predicates());
        talk.messages();
        let node: Arc<str> = format!("n{stream}").into();
        let place =
            |key: &str| BundlePlace { key: key.into(), group: None, node: Arc::clone(&node) };
        let places = vec![place("1"), place("2")];
        let question = Question {
            ticket: Ticket { id: QuestionId(stream), partition: 0 },
            application: "app".into(),
            key: "1".into(),
            group: None,
            nodes: vec![node],
            candidates: vec![0],
            allocate: true,
            bundle: Some(Arc::new(QuestionBundle { id: 7, places })),
        };
        talk.conversation.ask(talk.now, vec![question]);
        let messages = talk.messages();
        let [Body::NodeDictionary(nodes), Body::BundlePlaces(told), Body::PredicateBatch(batch)] =
            &messages[..]
        else {
            panic!("{messages:?}")
        };
        let index = nodes.add[0].index;
        assert!(told.places.len() == 2 && told.places.iter().all(|it| it.node_index == index));
        assert_eq!((told.bundle_id, batch.queries[0].bundle_id), (7, 7));
        assert_eq!(batch.dict_version, nodes.dict_version);
    }
}

/// A question about a place held for a member of a group, in a bundle with a request.
fn hold(id: u64) -> Question {
    let node: Arc<str> = "n1".into();
    let place = |key: &str, group: Option<&str>| BundlePlace {
        key: key.into(),
        group: group.map(Arc::from),
        node: Arc::clone(&node),
    };
    let places = vec![place("1", None), place("", Some("workers"))];
    Question {
        ticket: Ticket { id: QuestionId(id), partition: 0 },
        application: "app".into(),
        key: "".into(),
        group: Some("workers".into()),
        nodes: vec![Arc::clone(&node)],
        candidates: vec![0],
        allocate: true,
        bundle: Some(Arc::new(QuestionBundle { id: 7, places })),
    }
}

#[test]
fn held_places_are_asked_by_group() {
    let mut talk = TestedConversation::required();
    let able =
        [cb::Capability::Predicates, cb::Capability::CacheSync, cb::Capability::HoldPredicates];
    talk.effects();
    talk.attach(&hello(&able));
    assert_eq!(talk.effects(), [Effect::Mode(PredicateMode::Remote { holds: true })]);
    talk.messages();
    talk.conversation.ask(talk.now, vec![hold(1)]);
    talk.ask(2, &["n1"]);
    let messages = talk.messages();
    let asked = messages.iter().filter_map(|body| match body {
        Body::PredicateBatch(batch) => Some(&batch.queries),
        _ => None,
    });
    let asked: Vec<_> = asked
        .flatten()
        .map(|it| (&*it.allocation_key, &*it.application_id, &*it.task_group_name, it.assume))
        .collect();
    assert_eq!(asked, [("", "app", "workers", false), ("2", "app", "", true)]);
    let places = messages.iter().find_map(|body| match body {
        Body::BundlePlaces(told) => Some(&told.places),
        _ => None,
    });
    let names: Vec<_> =
        places.unwrap().iter().map(|it| (&*it.allocation_key, &*it.task_group_name)).collect();
    assert_eq!(names, [("1", ""), ("", "workers")]);
}

#[test]
fn held_places_need_the_capability() {
    let mut talk = TestedConversation::required();
    talk.effects();
    talk.attach(&hello(&[cb::Capability::Predicates]));
    assert_eq!(talk.effects(), [Effect::Mode(PredicateMode::Remote { holds: false })]);
    talk.messages();
    // Asked while the earlier stream could still have answered.
    talk.conversation.ask(talk.now, vec![hold(1)]);
    let passed = Verdict::Passed { position: 0, scope: Scope::Static, assumed: false };
    assert_eq!(talk.effects(), [answer(1, passed)]);
    assert!(talk.messages().is_empty());
}
