//! Endpoints of applications: lists, single ones, and explanations of pending requests.

use std::collections::BTreeMap;

use axum::http::request::Parts;
use monoceros_actors::snapshot::ApplicationSnapshot;
use monoceros_actors::{
    ApplicationFilter, ApplicationList, ApplicationState, ExplainError, Listed, Page, names,
};

use super::brief;
use super::decoding::decoded_again;
use super::endpoints::{path_of, queue_path, value};
use super::failures::Failure;
use super::gathered::{Waiting, part};
use super::lists::{self, Subject};
use super::replies::EndpointReply;
use super::{Reads, RestEdge};
use crate::reads::Kind;

/// The states of live applications, by the value of the parameter `status`.
pub(super) const ACTIVE_STATUSES: [(&str, ApplicationState); 6] = [
    ("new", ApplicationState::New),
    ("accepted", ApplicationState::Accepted),
    ("running", ApplicationState::Running),
    ("completing", ApplicationState::Completing),
    ("failing", ApplicationState::Failing),
    ("resuming", ApplicationState::Resuming),
];

/// Answers with a list of applications.
pub(super) async fn in_list<S: Reads>(
    edge: &RestEdge<S>,
    request: &Parts,
    partition: String,
    state: &str,
) -> Result<EndpointReply, Failure> {
    let source = &edge.source;
    let (source, of) = (source.clone(), partition.clone());
    let list = applications_wanted(state, request.uri.query());
    let is_brief = brief::is_wanted(request.uri.query());
    let list_text = format!("{list:?}");
    let order = order(state, request.uri.query());
    let order_text = format!("{order:?}");
    let wanted = brief::values(&[&list_text, &order_text], is_brief);
    let subject = Subject::which(Kind::Applications, &partition, &wanted);
    let read = move |page| async move {
        // If the list is unknown too, the partition is reported first.
        source.steps(&of).await?;
        let list = list?;
        let listed = match (order?, list) {
            (Order::Waiting, ApplicationList::Live(filter)) => {
                waiting(&source, &of, filter, Page { brief: is_brief, ..page }).await?
            }
            (order, list) => {
                let newest_first = order == Order::Newest;
                let page = Page { brief: is_brief, newest_first, ..page };
                source.applications(&of, list, page).await?
            }
        };
        Ok(listed.map(|row| brief::application(row, is_brief)))
    };
    lists::list(edge, request, &subject, read).await
}

/// Returns a page of the live applications with pending requests, the oldest submission first.
async fn waiting<S: Reads>(
    source: &S,
    partition: &str,
    filter: ApplicationFilter,
    page: Page,
) -> Result<Listed<ApplicationSnapshot>, Failure> {
    let mut waiting = Waiting::new(&page)?;
    let filter = ApplicationFilter { pending: true, ..filter };
    let mut after = None;
    loop {
        let list = ApplicationList::Live(filter.clone());
        let listed = source.applications(partition, list, part(after, page.brief)).await?;
        after = waiting.take(listed);
        if after.is_none() {
            return Ok(waiting.listed());
        }
    }
}

/// Answers with the live applications of a queue.
pub(super) async fn of_queue<S: Reads>(
    edge: &RestEdge<S>,
    request: &Parts,
    partition: String,
    queue: &str,
) -> Result<EndpointReply, Failure> {
    let (source, of) = (edge.source.clone(), partition.clone());
    let path = queue_path(queue)?;
    let is_brief = brief::is_wanted(request.uri.query());
    let wanted = brief::values(&["queue", &path], is_brief);
    let subject = Subject::which(Kind::Applications, &partition, &wanted);
    let read = move |page| async move {
        let list = ApplicationList::Live(ApplicationFilter::in_queue(&path));
        let page = Page { brief: is_brief, ..page };
        let listed = source.applications(&of, list, page).await?;
        Ok(listed.map(|row| brief::application(row, is_brief)))
    };
    lists::list(edge, request, &subject, read).await
}

/// Answers with the live applications of a queue, optionally in one state.
pub(super) async fn of_queue_in<S: Reads>(
    edge: &RestEdge<S>,
    request: &Parts,
    partition: String,
    queue: String,
    state: String,
) -> Result<EndpointReply, Failure> {
    let (source, of) = (edge.source.clone(), partition.clone());
    let list = active_of_queue(&state, request.uri.query());
    let is_brief = brief::is_wanted(request.uri.query());
    let list_text = format!("{list:?}");
    let wanted = brief::values(&["queue", &queue, &list_text], is_brief);
    let subject = Subject::which(Kind::Applications, &partition, &wanted);
    let read = move |page| async move {
        // If there are several faults, the partition is reported first, then the queue.
        source.steps(&of).await?;
        let path = queue_path(&queue)?;
        if list.is_err() {
            let (tree, _) = source.queues(&of, Some(&path)).await?;
            tree.and_then(|tree| tree.descendant(&path)).ok_or(Failure::QueueNotFound)?;
        }
        let filter = ApplicationFilter { queue: Some(path), ..list? };
        let page = Page { brief: is_brief, ..page };
        let listed = source.applications(&of, ApplicationList::Live(filter), page).await?;
        Ok(listed.map(|row| brief::application(row, is_brief)))
    };
    lists::list(edge, request, &subject, read).await
}

/// Answers with a live application of a queue.
pub(super) async fn one_of_queue<S: Reads>(
    edge: &RestEdge<S>,
    request: &Parts,
    partition: String,
    queue: String,
    application: String,
) -> Result<EndpointReply, Failure> {
    // A malformed escape is reported before an unknown partition.
    let decoded = decoded_again(&queue)?;
    let (source, of) = (edge.source.clone(), partition.clone());
    let subject = Subject::which(Kind::Application, &partition, &[&decoded, &application]);
    let read = move || async move {
        let steps = source.steps(&of).await?;
        let path = path_of(decoded)?;
        let (tree, _) = source.queues(&of, Some(&path)).await?;
        tree.and_then(|tree| tree.descendant(&path)).ok_or(Failure::QueueNotFound)?;
        let found = source.application(&of, &application).await?;
        let found = found.filter(|found| found.queue_name == path);
        Ok((found.ok_or(Failure::ApplicationNotFound)?, steps))
    };
    lists::document(edge, request, &subject, read).await
}

/// Answers with a live application, or with one whose last run ended by its removal. The reference
/// knows no removed applications, and only lists other ended ones.
pub(super) async fn one<S: Reads>(
    edge: &RestEdge<S>,
    request: &Parts,
    partition: String,
    application: String,
) -> Result<EndpointReply, Failure> {
    let source = &edge.source;
    let (source, of) = (source.clone(), partition.clone());
    let subject = Subject::which(Kind::Application, &partition, &[&application]);
    let read = || async move {
        let steps = source.steps(&of).await?;
        let found = match source.application(&of, &application).await? {
            Some(found) => Some(found),
            None => removed(&source, &of, application).await?,
        };
        Ok((found.ok_or(Failure::ApplicationNotFound)?, steps))
    };
    lists::document(edge, request, &subject, read).await
}

/// Returns the last ended run of an application, if that was removed.
async fn removed<S: Reads>(
    source: &S,
    partition: &str,
    application: String,
) -> Result<Option<ApplicationSnapshot>, Failure> {
    let filter = ApplicationFilter { ids: [application].into(), ..ApplicationFilter::default() };
    let page = Page { limit: Some(1), newest_first: true, ..Page::default() };
    let ended = ApplicationList::Ended(filter);
    let last = source.applications(partition, ended, page).await?.rows.pop();
    Ok(last.filter(|last| last.application_state == ApplicationState::Removed.text()))
}

/// Answers with explanations of an application's pending asks.
pub(super) async fn explanation<S: Reads>(
    edge: &RestEdge<S>,
    query: Option<&str>,
    partition: String,
    application: String,
) -> Result<EndpointReply, Failure> {
    let (ask, offset) = (value(query, "ask"), offset(query));
    let asked = offset.as_ref().copied().unwrap_or_default();
    let which = [&*application, &format!("{ask:?} {offset:?}")];
    let subject = Subject::which(Kind::Explanation, &partition, &which);
    let source = edge.source.clone();
    let read = move || async move {
        if let Some(ask) = ask {
            return Ok(source.explain_ask(&partition, &application, &ask).await?);
        }
        // If the offset is malformed too, the partition is reported first.
        let explained = source.explain(&partition, &application, asked).await;
        if !matches!(explained, Err(ExplainError::Unread(_))) {
            offset?;
        }
        Ok(explained?)
    };
    lists::plain(edge, &subject, read).await
}

/// Parses the requested list. It may be filtered by queue (with its subtree), by user, and by a
/// part of the id, and by tags. A list of live applications may also be filtered by state.
fn applications_wanted(state: &str, query: Option<&str>) -> Result<ApplicationList, Failure> {
    let list = match state.to_ascii_lowercase().as_str() {
        "completed" => ApplicationList::Completed,
        "ended" => ApplicationList::Ended,
        "rejected" => ApplicationList::Rejected,
        "active" => ApplicationList::Live,
        _ => return Err(Failure::ApplicationState),
    };
    let queue = value(query, "queue").map(path_of).transpose()?;
    let users = value(query, "user").into_iter().collect();
    let id_part = value(query, "search").map(|part| part.to_lowercase());
    let tags = labels(query)?;
    let is_live = state.eq_ignore_ascii_case("active");
    let of_status = if is_live { of_status(query)? } else { ApplicationFilter::default() };
    Ok(list(ApplicationFilter { queue, below: true, users, id_part, tags, ..of_status }))
}

/// Parses the filter by tags: `NAME=VALUE`, or `NAME` for any value, several of them with commas.
/// Each name occurs once.
fn labels(query: Option<&str>) -> Result<BTreeMap<String, Option<String>>, Failure> {
    let text = value(query, "label").unwrap_or_default();
    let mut tags = BTreeMap::new();
    for term in text.split(',').filter(|term| !term.is_empty()) {
        let (name, value) =
            term.split_once('=').map_or((term, None), |(name, it)| (name, Some(it)));
        if name.is_empty() {
            return Err(Failure::Label(names::shown(term)));
        }
        if tags.insert(name.to_owned(), value.map(str::to_owned)).is_some() {
            return Err(Failure::RepeatedLabel(names::shown(name)));
        }
    }
    Ok(tags)
}

/// Parses the filter of a queue's applications. Only live ones are listed by queue.
fn active_of_queue(state: &str, query: Option<&str>) -> Result<ApplicationFilter, Failure> {
    if !state.eq_ignore_ascii_case("active") {
        return Err(Failure::QueueApplicationState);
    }
    of_status(query)
}

/// Parses the filter by state.
fn of_status(query: Option<&str>) -> Result<ApplicationFilter, Failure> {
    let mut filter = ApplicationFilter::default();
    if let Some(status) = value(query, "status") {
        let known = ACTIVE_STATUSES.iter().find(|(name, _)| name.eq_ignore_ascii_case(&status));
        let (_, state) = known.ok_or(Failure::ActiveStatus)?;
        filter.states.push(*state);
    }
    Ok(filter)
}

/// The order of a list of applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// By the end; of live applications, by id.
    Oldest,
    /// From the application that ended last; of live applications, by id.
    Newest,
    /// Only live applications with pending requests, from the one that was submitted first.
    Waiting,
}

/// Parses the order of a list.
fn order(state: &str, query: Option<&str>) -> Result<Order, Failure> {
    match value(query, "order").as_deref() {
        None | Some("oldest") => Ok(Order::Oldest),
        Some("newest") => Ok(Order::Newest),
        Some("waiting") if state.eq_ignore_ascii_case("active") => Ok(Order::Waiting),
        Some(other) => Err(Failure::Order(names::shown(other))),
    }
}

/// Returns the number of entries to skip.
fn offset(query: Option<&str>) -> Result<usize, Failure> {
    let Some(text) = value(query, "offset") else { return Ok(0) };
    text.parse().map_err(|_| Failure::Offset(names::shown(&text)))
}
