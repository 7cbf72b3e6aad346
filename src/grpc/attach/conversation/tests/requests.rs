//! Requests whose caller waits: state dumps, preemption questions, and saving a configuration.

use super::*;

#[test]
fn failed_state_dump_reports_its_reason() {
    let ask = |talk: &mut TestedConversation| {
        talk.attach(&hello(&[cb::Capability::StateDump]));
        let request = talk.conversation.ask_state(talk.now).unwrap();
        talk.effects();
        request
    };
    let told = |talk: &mut TestedConversation| match talk.effects().pop() {
        Some(Effect::Reply(_, ShimReply::State(state))) => state,
        other => panic!("{other:?}"),
    };
    let chunk = |request_id, index, bytes: usize| cb::StateDumpChunk {
        request_id,
        index,
        data: vec![b' '; bytes],
        ..Default::default()
    };
    let mut talk = TestedConversation::new(|options| {
        options.callback.state_dump_max_bytes = 100.try_into().unwrap();
    });
    let request = ask(&mut talk);
    talk.conversation.ask_state(talk.now).unwrap_err();
    talk.say(ShimBody::StateDump(chunk(request, 0, 60)));
    talk.say(ShimBody::StateDump(chunk(request + 100, 0, 60)));
    talk.say(ShimBody::StateDump(chunk(request, 1, 60)));
    assert!(told(&mut talk).unwrap_err().contains("100 bytes"));
    talk.say(ShimBody::StateDump(chunk(request, 2, 60)));
    assert_eq!(talk.effects(), []);

    let request = ask(&mut talk);
    let error = "out of memory".to_owned();
    talk.say(ShimBody::StateDump(cb::StateDumpChunk {
        request_id: request,
        error,
        ..Default::default()
    }));
    assert_eq!(told(&mut talk).unwrap_err(), "out of memory");

    ask(&mut talk);
    talk.messages();
    for _ in 0..31 {
        assert!(talk.wait(Duration::from_secs(1)).is_none());
        talk.messages();
        talk.say(ShimBody::Heartbeat(cb::Heartbeat::default()));
    }
    assert!(told(&mut talk).unwrap_err().contains("in time"));

    ask(&mut talk);
    talk.conversation.detach(talk.now);
    assert!(told(&mut talk).unwrap_err().contains("lost"));
}

#[test]
fn preemption_questions_are_answered_or_time_out() {
    let args = |victims: usize| si::PreemptionPredicatesArgs {
        allocation_key: "a".to_owned(),
        node_id: "n1".to_owned(),
        preempt_allocation_keys: vec!["victim".to_owned(); victims],
        start_index: 0,
    };
    let mut talk = TestedConversation::new(|_| {});
    let without = talk.conversation.ask_preemption(talk.now, vec![args(2), args(0)]);
    assert_eq!(without, Err(vec![Preempted::Victims(1), Preempted::Victims(0)]));
    talk.attach(&hello(&[cb::Capability::PreemptionPredicates]));
    let group = vec![args(3); 4];
    let batch_id = talk.conversation.ask_preemption(talk.now, group).unwrap();
    let results =
        [0, 2, -1, 3].into_iter().zip(0..).map(|(index, query_id)| cb::PreemptionResult {
            query_id,
            outcome: cb::Outcome::Evaluated.into(),
            response: Some(si::PreemptionPredicatesResponse { success: true, index }),
            ..Default::default()
        });
    let results = results.collect();
    talk.say(ShimBody::PreemptionResults(cb::PreemptionResults {
        batch_id,
        results,
        ..Default::default()
    }));
    let expected =
        [Preempted::Victims(1), Preempted::Victims(3), Preempted::Victims(0), Preempted::Failed];
    let reply =
        |answers: &[Preempted], batch| Effect::Reply(batch, ShimReply::Preempted(answers.into()));
    assert_eq!(talk.effects(), [reply(&expected, batch_id)]);
    let batch_id = talk.conversation.ask_preemption(talk.now, vec![args(1)]).unwrap();
    talk.messages();
    talk.wait(Duration::from_secs(2));
    assert_eq!(talk.effects(), [reply(&[Preempted::Failed], batch_id)]);
}

#[test]
fn saving_a_configuration_reports_its_result() {
    let mut talk = TestedConversation::new(|_| {});
    let nothing = std::collections::BTreeMap::new;
    talk.conversation.ask_save(talk.now, "a".to_owned(), nothing()).unwrap_err();
    talk.attach(&hello(&[cb::Capability::ConfigStore]));
    for (success, reason, expected) in
        [(true, "", Ok(())), (false, "read only", Err("read only".to_owned()))]
    {
        let asked = talk.conversation.ask_save(talk.now, "a".to_owned(), nothing());
        let request_id = asked.unwrap();
        let reason = reason.to_owned();
        let result = cb::ConfigSaveResult { request_id, success, reason, ..Default::default() };
        talk.say(ShimBody::ConfigSave(result));
        assert_eq!(talk.effects(), [Effect::Reply(request_id, ShimReply::Saved(expected))]);
    }
}

#[test]
fn oversized_configuration_is_not_sent() {
    let mut talk = TestedConversation::new(|_| {});
    talk.attach(&cb::Hello { max_message_bytes: 1, ..hello(&[cb::Capability::ConfigStore]) });
    let nothing = std::collections::BTreeMap::new;
    let error = talk.conversation.ask_save(talk.now, "x".repeat(65_530), nothing()).unwrap_err();
    assert!(error.contains("no message above 65536"), "{error}");
    talk.conversation.ask_save(talk.now, "x".repeat(65_000), nothing()).unwrap();
    assert!(talk.effects().is_empty());
}
