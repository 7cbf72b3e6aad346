//! Requests for one resource manager, for a partition with a plain name, and for lists.

use std::sync::Arc;

use axum::body::Bytes;
use tokio::time::{Duration, Instant, sleep};
use tonic::Status;

use super::*;

/// A member that answers with this status and body, or never.
#[derive(Clone)]
struct Fake(&'static str, Option<StatusCode>, Bytes);

impl Fake {
    /// A member without partitions, unless it has the status 200.
    fn new(id: &'static str, status: Option<StatusCode>) -> Self {
        let body = status
            .map(|status| error_object(status, &Failure::PartitionNotFound.to_string()).into());
        Self(id, status, body.unwrap_or_default())
    }

    fn with_list(id: &'static str, list: impl Into<Bytes>) -> Self {
        Self(id, Some(StatusCode::OK), list.into())
    }
}

impl Remote for Fake {
    fn id(&self) -> &str {
        self.0
    }

    fn grpc(&self) -> &str {
        self.0
    }

    fn send(
        &self,
        _: Request<tonic::body::Body>,
        _: &Identity,
    ) -> BoxFuture<'static, Result<axum::http::Response<tonic::body::Body>, Status>> {
        let Self(_, status, body) = self.clone();
        let Some(status) = status else { return std::future::pending().boxed() };
        async move {
            sleep(GATHER_PATIENCE / 2).await;
            let mut response = Response::new(tonic::body::Body::new(Body::from(body)));
            *response.status_mut() = status;
            if status == StatusCode::MISDIRECTED_REQUEST {
                response.headers_mut().insert("x-si-reason", "NOT_OWNER".parse().unwrap());
            }
            Ok(response)
        }
        .boxed()
    }
}

struct Others(Vec<Fake>);

impl Routing for Others {
    fn others(&self) -> Vec<Arc<dyn Remote>> {
        self.0.iter().map(|it| Arc::new(it.clone()) as Arc<dyn Remote>).collect()
    }

    /// One, if there are other members.
    fn resource_managers(&self) -> Vec<String> {
        self.0.first().map(|_| "rm".to_owned()).into_iter().collect()
    }

    fn serves(&self, _: &str) -> bool {
        false
    }

    /// The first member, and the last one after the claim was read.
    fn route<'a>(&'a self, _: &'a str, source: OwnerSource) -> BoxFuture<'a, Route> {
        let owner = match source {
            OwnerSource::LastRenewal => self.0.first(),
            OwnerSource::ReadNow => self.0.last(),
        };
        let route = match owner {
            Some(owner) => Route::To(Arc::new(owner.clone())),
            None => Route::Refused(ClaimRefusal::ArbiterUnavailable),
        };
        async { route }.boxed()
    }

    fn claim_owner<'a>(&'a self, rm: &'a str) -> BoxFuture<'a, Option<String>> {
        let owner = (rm == "moved").then(|| "b".to_owned());
        async { owner }.boxed()
    }
}

fn play(story: impl AsyncFnOnce(Parts, Identity)) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    let (parts, ()) = Request::new(()).into_parts();
    runtime.block_on(story(parts, Identity::anybody()));
}

#[test]
fn an_owner_that_cannot_be_named_is_no_missing_partition() {
    play(async |parts, caller| {
        let answer = at_owner(&Others(Vec::new()), "rm", &parts, &caller).await.unwrap();
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        let body = to_bytes(answer.into_body(), ERROR_BYTES).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap();
        assert!(body.contains("the arbiter of the cluster does not answer"), "{body}");
    });
}

#[test]
fn a_request_follows_an_rm_that_has_moved() {
    play(async |parts, caller| {
        let (former, owner) = (Some(StatusCode::MISDIRECTED_REQUEST), Some(StatusCode::OK));
        let others = Others(vec![Fake::new("a", former), Fake::new("b", owner)]);
        let answer = at_owner(&others, "rm", &parts, &caller).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let others = Others(vec![Fake::new("a", former), Fake::new("b", former)]);
        let answer = at_owner(&others, "rm", &parts, &caller).await.unwrap();
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE, "it moves all the time");
    });
}

#[test]
fn a_configuration_comes_from_the_owner_of_its_rm() {
    play(async |mut parts, caller| {
        let here = ["[here]default".to_owned()];
        let others = Others(vec![Fake::new("a", Some(StatusCode::OK))]);
        let answer = configuration(&here, &others, &parts, &caller).await;
        assert!(answer.is_none(), "this member has one");
        let answer = configuration(&[], &others, &parts, &caller).await;
        assert_eq!(answer.unwrap().status(), StatusCode::OK, "the only one");
        let nobody = Others(Vec::new());
        let answer = configuration(&[], &nobody, &parts, &caller).await;
        assert!(answer.is_none(), "the default configuration");
        parts.uri = Uri::from_static("/ws/v1/config?rm=rm");
        let answer = configuration(&here, &others, &parts, &caller).await;
        assert_eq!(answer.unwrap().status(), StatusCode::OK, "the named one");
        let answer = configuration(&here, &nobody, &parts, &caller).await;
        assert_eq!(answer.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    });
}

#[test]
fn members_are_asked_for_a_partition_side_by_side() {
    play(async |parts, caller| {
        let begun = Instant::now();
        let (none, ok) = (Some(StatusCode::NOT_FOUND), Some(StatusCode::OK));
        let others = Others(vec![Fake::new("a", none), Fake::new("b", None), Fake::new("c", ok)]);
        let answer = at_any(&others, &parts, &caller).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()[MISSING_HEADER], "b");
        assert!(begun.elapsed() < GATHER_PATIENCE + Duration::from_millis(10));
        let others = Others(vec![Fake::new("a", none), Fake::new("b", None), Fake::new("c", None)]);
        assert_eq!(at_any(&others, &parts, &caller).await.unwrap_err(), ["b", "c"]);
        assert!(begun.elapsed() < 2 * GATHER_PATIENCE + Duration::from_millis(20));
    });
}

/// Joins the list of this member, `me`, with those of others. Returns status, members without
/// a list, and body.
async fn join(
    own: &'static str,
    others: Vec<Fake>,
    (parts, caller): (&Parts, &Identity),
    form: Form,
) -> (StatusCode, Option<String>, String) {
    let here = async { Response::new(Body::from(own)) };
    let answer = joined_lists(&Others(others), "me", here, parts, caller, form).await;
    let (head, body) = answer.into_parts();
    let missing = head.headers.get(MISSING_HEADER).map(|it| it.to_str().unwrap().to_owned());
    let body = to_bytes(body, usize::MAX).await.unwrap();
    (head.status, missing, String::from_utf8(body.to_vec()).unwrap())
}

#[test]
fn rows_of_the_owner_count_where_two_members_show_one_rm() {
    play(async |parts, caller| {
        let row = |rm| format!(r#"{{"clusterId":"{rm}","name":"default"}}"#);
        let (moved, unclear) = (row("moved"), row("unclear"));
        let own: &'static str = format!("[{moved},{unclear}]").leak();
        let others = vec![Fake::with_list("b", format!("[{unclear},{moved}]"))];
        let answer = join(own, others, (&parts, &caller), Form::Rows).await;
        assert_eq!(answer, (StatusCode::OK, None, format!("[{unclear},{moved}]")));
        let own = r#"{"sessions":[{"rmId":"moved","sessionId":"9"}]}"#;
        let other = r#"{"sessions":[{"rmId":"moved","sessionId":"10"}]}"#;
        let others = vec![Fake::with_list("b", other)];
        let answer = join(own, others, (&parts, &caller), Form::Sessions).await;
        assert_eq!(answer.2, other);
    });
}

#[test]
fn members_without_a_readable_list_are_named() {
    play(async |parts, caller| {
        let others = vec![
            Fake::with_list("a", r#"[{"clusterId":"a"}"#),
            Fake::new("b", None),
            Fake::new("c", Some(StatusCode::NOT_FOUND)),
            Fake::with_list("d", "[{}]"),
        ];
        let answer = join("[]\n", others, (&parts, &caller), Form::Rows).await;
        assert_eq!(answer, (StatusCode::OK, Some("a,b,c".to_owned()), "[{}]\n".to_owned()));
    });
}

#[test]
fn lists_beyond_the_bound_are_refused() {
    play(async |parts, caller| {
        let large = || format!("[{}{{}}]", " ".repeat(LISTS_BYTES / 2));
        let others = || vec![Fake::with_list("a", large())];
        let answer = join("[{}]", others(), (&parts, &caller), Form::Rows).await;
        assert_eq!((answer.0, &*answer.2), (StatusCode::OK, "[{},{}]"));
        let others = vec![Fake::with_list("a", "[]"), Fake::with_list("b", large() + &large())];
        let (status, _, body) = join("[{}]", others, (&parts, &caller), Form::Rows).await;
        assert_eq!(status, StatusCode::INSUFFICIENT_STORAGE);
        let text = "the list of member `b` is too large: those of all members may have 64 MiB";
        assert!(body.contains(text), "{body}");
    });
}
