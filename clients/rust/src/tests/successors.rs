//! Clients of one session each, which a program starts one after the other.

use super::*;
use crate::Identity;

/// Starts a client of one session.
async fn next(members: &Members, identity: &Identity) -> (Program, u64) {
    let options = options(members, &["m1"]).identity(identity.clone()).once();
    let mut program = Program::start(options);
    let session = program.session().await;
    (program, session)
}

/// Waits for the end of a client.
async fn end(program: &mut Program) -> Status {
    loop {
        if let Event::Ended(status) = program.next().await {
            return status;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_successor_of_a_client_goes_to_another_member() {
    for is_frozen in [false, true] {
        let members = Members::start(&["m1", "m2", "m3"]);
        let identity = Identity::new();
        let (mut program, _) = next(&members, &identity).await;
        assert!(program.client.channel().is_some());
        sleep(Duration::from_secs(3)).await;
        let break_it = if is_frozen { Members::freeze } else { Members::kill };
        break_it(&members, "m1");
        let broken = Instant::now();
        let status = end(&mut program).await;
        assert!(crate::is_lost(&status), "{status:?}");
        let (_, session) = next(&members, &identity).await;
        assert_eq!((session, members.registrations().join(" ")), (2, "m1 m2".to_owned()));
        assert!(broken.elapsed() < ms(450), "{:?}", broken.elapsed());
        let second = &members.calls()[1];
        assert_eq!(second.text("x-si-session"), Some("1"));
        assert_eq!(second.text("x-si-suspects"), is_frozen.then_some("of m1"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_successor_of_a_client_follows_a_redirect() {
    let members = Members::start(&["m1", "m2", "m3"]);
    let identity = Identity::new();
    let (mut program, _) = next(&members, &identity).await;
    members.end(1, &refusal("SESSION_MOVED", Some("m3")));
    end(&mut program).await;
    next(&members, &identity).await;
    assert_eq!(members.registrations(), ["m1", "m3"]);
}

#[tokio::test(start_paused = true)]
async fn bounds_of_silence_are_kept_from_client_to_client() {
    let members = Members::start(&["m1", "m2"]);
    let identity = Identity::new();
    members.mute("m1");
    let mut silent = Vec::new();
    for _ in 0..3 {
        let (mut program, _) = next(&members, &identity).await;
        let begun = Instant::now();
        assert_eq!(crate::reason(&end(&mut program).await), Some("C_SILENT"));
        silent.push(begun.elapsed().as_millis() / 100);
    }
    assert_eq!(silent, [3, 6, 12]);
}

#[tokio::test(start_paused = true)]
async fn successors_of_brief_sessions_pause() {
    let members = Members::start(&["m1", "m2"]);
    let identity = Identity::new();
    let begun = Instant::now();
    for session in 1..=8 {
        let (mut program, _) = next(&members, &identity).await;
        members.end(session, &refusal("MEMBER_FENCED", None));
        end(&mut program).await;
    }
    assert!(begun.elapsed() > Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_client_hears_nothing_more_of_the_lost_owner_before_its_end() {
    let members = Members::start(&["m1", "m2"]);
    let identity = Identity::new();
    let (mut program, _) = next(&members, &identity).await;
    program.ask("a").await;
    sleep(Duration::from_secs(2)).await;
    members.kill("m1");
    // The answer is queued for the program by now.
    sleep(Duration::from_secs(1)).await;
    let next = program.next().await;
    assert!(matches!(next, Event::Ended(_)), "{next:?}");
}
