//! Responses: headers by class of document, error objects, redirects and compression.
//!
//! Existing dashboards and scripts depend on the headers and on the form of errors, down to the
//! spelling of `UTF-8`. docs/rest.md lists them.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header::{
    ACCEPT_ENCODING, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ALLOW, CACHE_CONTROL, CONNECTION,
    CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap,
    HeaderName, HeaderValue, LINK, LOCATION, REFERRER_POLICY, RETRY_AFTER, VARY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt as _};
use monoceros_actors::Steps;
use serde::Serialize;

use super::documents::Tag;
use super::failures::Failure;
use super::routes::Answers;
use crate::identity::Denied;
use crate::reads::{Document, Sliced, gzip};
use crate::snapshot::SnapshotError;

/// The partition's step at which a document was begun.
const FIRST_STEP: HeaderName = HeaderName::from_static("x-step-first");
/// The partition's step at which the last row was read.
const LAST_STEP: HeaderName = HeaderName::from_static("x-step-last");
/// Headers that web pages of other origins may read.
const EXPOSED: &str = "ETag,Link,X-Step-First,X-Step-Last";

const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// Returns the headers that let web pages of any origin read public documents.
fn cors(answers: Answers) -> [(HeaderName, &'static str); 3] {
    [
        (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (ACCESS_CONTROL_ALLOW_METHODS, answers.methods()),
        (ACCESS_CONTROL_ALLOW_HEADERS, "X-Requested-With,Content-Type,Accept,Origin,Authorization"),
    ]
}

/// Content policy of the web UI: it loads files only from its own server, runs no inline scripts,
/// and is shown in no frame.
const PAGE_POLICY: &str = "default-src 'none'; connect-src 'self'; img-src 'self'; script-src 'self'; \
                           style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The class of a document, which decides its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Json,
    Yaml,
    Metrics,
    Page,
    Asset(AssetKind),
    /// A file, which is compressed already.
    Snapshot,
    Text,
    Html,
}

/// The type of a bundle's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AssetKind {
    Script,
    Style,
    Picture,
    /// Licences of the libraries in the bundle.
    Licences,
}

impl AssetKind {
    fn content_type(self) -> &'static str {
        match self {
            Self::Script => "text/javascript; charset=utf-8",
            Self::Style => "text/css; charset=utf-8",
            Self::Picture => "image/svg+xml",
            Self::Licences => TEXT,
        }
    }

    /// Returns the caching header: a name with a hash always has the same content.
    fn caching(self) -> &'static str {
        match self {
            Self::Script | Self::Style | Self::Picture => "public, max-age=31536000, immutable",
            Self::Licences => "no-cache",
        }
    }
}

#[derive(Debug)]
pub(super) struct EndpointReply {
    status: StatusCode,
    class: Class,
    document: Arc<Document>,
    read: Option<(Tag, Steps)>,
    /// The link to the next page.
    next: Option<String>,
}

impl EndpointReply {
    pub(super) fn ok(class: Class, document: impl Into<Bytes>) -> Self {
        Self::new(StatusCode::OK, class, document)
    }

    pub(super) fn new(status: StatusCode, class: Class, document: impl Into<Bytes>) -> Self {
        let document = Arc::new(Document::own(document));
        Self { status, class, document, read: None, next: None }
    }

    /// Answers with a document that other requests may share.
    pub(super) fn shared(class: Class, document: Arc<Document>) -> Self {
        Self { status: StatusCode::OK, class, document, read: None, next: None }
    }

    /// Answers with a document of a partition, read for the request `wanted`, and a link to the
    /// next page.
    pub(super) fn read(document: Arc<Document>, wanted: &str, next: Option<String>) -> Self {
        let read = document.steps.map(|steps| (Tag::of(&steps, wanted), steps));
        Self { read, next, ..Self::shared(Class::Json, document) }
    }

    /// Answers that the client has the current document, which has this tag.
    pub(super) fn not_modified(tag: Tag, steps: Steps) -> Self {
        let reply = Self::new(StatusCode::NOT_MODIFIED, Class::Json, Bytes::new());
        Self { read: Some((tag, steps)), ..reply }
    }
}

/// The body of an error of a handler.
#[derive(Serialize)]
struct ErrorObject<'t> {
    status_code: u16,
    message: &'t str,
    description: &'t str,
}

/// Formats an error object.
pub(super) fn error_object(status: StatusCode, message: &str) -> Vec<u8> {
    let object = ErrorObject { status_code: status.as_u16(), message, description: message };
    serde_json::to_vec(&object).expect("a number and two texts are JSON")
}

impl From<Failure> for EndpointReply {
    fn from(failure: Failure) -> Self {
        let status = failure.status();
        Self::new(status, Class::Json, error_object(status, &failure.to_string()))
    }
}

/// Makes the response of an endpoint to a request with these headers.
pub(super) async fn respond(
    reply: Result<EndpointReply, Failure>,
    answers: Answers,
    request: &HeaderMap,
) -> Response {
    let is_busy = matches!(
        reply,
        Err(Failure::Busy(_) | Failure::NoSnapshot(SnapshotError::Busy) | Failure::WhatIfBusy)
    );
    let reply = reply.unwrap_or_else(EndpointReply::from);
    let EndpointReply { status, class, document, read, next } = reply;
    let mut response = match class {
        Class::Json => {
            let kind = [(CONTENT_TYPE, "application/json; charset=UTF-8")];
            (cors(answers), kind).into_response()
        }
        Class::Yaml => {
            let kind = [(CONTENT_TYPE, "application/x-yaml; charset=UTF-8")];
            (cors(answers), kind).into_response()
        }
        Class::Metrics => {
            [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")].into_response()
        }
        Class::Page => [
            (CONTENT_TYPE, HTML),
            (CONTENT_SECURITY_POLICY, PAGE_POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
            (CACHE_CONTROL, "no-cache"),
        ]
        .into_response(),
        Class::Asset(kind) => [
            (CONTENT_TYPE, kind.content_type()),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (CACHE_CONTROL, kind.caching()),
        ]
        .into_response(),
        Class::Snapshot => [
            (CONTENT_TYPE, "application/gzip"),
            (CONTENT_DISPOSITION, "attachment; filename=\"monoceros-snapshot.jsonl.gz\""),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (CACHE_CONTROL, "no-store"),
        ]
        .into_response(),
        Class::Text => [(CONTENT_TYPE, TEXT)].into_response(),
        Class::Html => [(CONTENT_TYPE, HTML)].into_response(),
    };
    *response.status_mut() = status;
    let headers = response.headers_mut();
    note_reading(read, next, headers);
    if is_busy {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
    }
    *response.body_mut() = Body::new(Sliced::new(document.bytes()));
    if class != Class::Snapshot
        && accepts_gzip(request)
        && let Some(compressed) = document.compressed(gzip).await
    {
        *response.body_mut() = Body::new(Sliced::new(compressed));
        let headers = response.headers_mut();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    response
}

/// Makes a response that sends lines as they occur. It is never compressed, because each line must
/// arrive when it is sent.
pub(super) fn streamed(
    lines: impl Stream<Item = Bytes> + Send + 'static,
    answers: Answers,
) -> Response {
    let kind = [(CONTENT_TYPE, "application/json; charset=UTF-8")];
    let body = Body::from_stream(lines.map(Ok::<_, std::convert::Infallible>));
    (cors(answers), kind, body).into_response()
}

/// Adds the headers with the steps of a read and the next page.
fn note_reading(read: Option<(Tag, Steps)>, next: Option<String>, headers: &mut HeaderMap) {
    let Some((tag, steps)) = read else { return };
    if let Ok(tag) = HeaderValue::from_str(tag.text()) {
        headers.insert(ETAG, tag);
    }
    headers.insert(FIRST_STEP, HeaderValue::from(steps.first));
    headers.insert(LAST_STEP, HeaderValue::from(steps.last));
    let next = next.map(|next| format!("<{next}>; rel=\"next\""));
    if let Some(Ok(next)) = next.as_deref().map(HeaderValue::from_str) {
        headers.insert(LINK, next);
    }
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
}

/// Makes the response to a caller without the right.
pub(super) async fn denied(denied: Denied, answers: Answers, request: &HeaderMap) -> Response {
    let is_unknown = denied == Denied::Unknown;
    let mut response = respond(Err(denied.into()), answers, request).await;
    if is_unknown {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// Makes the response to OPTIONS, which browsers send before other requests.
pub(super) fn options(answers: Answers) -> Response {
    ([(ALLOW, answers.all())], cors(answers)).into_response()
}

pub(super) fn method_not_allowed(answers: Answers) -> Response {
    let headers = [(ALLOW, answers.all()), (CONTENT_TYPE, TEXT)];
    (StatusCode::METHOD_NOT_ALLOWED, headers, "Method Not Allowed").into_response()
}

/// Makes the response on a connection beyond the limit.
pub(super) fn too_many() -> Response {
    let text = "too many connections are open (`rest.max_connections`): come back";
    let headers = [(CONTENT_TYPE, TEXT), (CONNECTION, "close"), (RETRY_AFTER, "1")];
    (StatusCode::SERVICE_UNAVAILABLE, headers, text).into_response()
}

pub(super) fn unknown_path() -> Response {
    (StatusCode::NOT_FOUND, [(CONTENT_TYPE, TEXT)], "404 page not found").into_response()
}

/// Redirects a client to `path`, with its query.
pub(super) fn redirect(method: &Method, path: &str, query: Option<&str>) -> Response {
    let target = query.map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"));
    let Ok(location) = HeaderValue::from_bytes(target.as_bytes()) else {
        return unknown_path();
    };
    let (status, title) = if method == Method::GET || method == Method::HEAD {
        (StatusCode::MOVED_PERMANENTLY, "Moved Permanently")
    } else {
        (StatusCode::TEMPORARY_REDIRECT, "Temporary Redirect")
    };
    let body = format!("<a href=\"{}\">{title}</a>.\n", escaped(&target));
    let headers = [(LOCATION, location), (CONTENT_TYPE, HeaderValue::from_static(HTML))];
    (status, headers, body).into_response()
}

/// Whether the client accepts gzip: it names it without `q=0`.
fn accepts_gzip(request: &HeaderMap) -> bool {
    let values = request.get_all(ACCEPT_ENCODING).into_iter();
    values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|token| {
        let (coding, parameter) = token.split_once(';').unwrap_or((token, ""));
        coding.trim().eq_ignore_ascii_case("gzip") && parameter.trim() != "q=0"
    })
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_accepted_by_name_except_q_0() {
        for (value, accepted) in [
            ("gzip", true),
            ("GZIP", true),
            (" deflate , gzip ", true),
            ("gzip;q=0.5", true),
            ("gzip; q=1", true),
            ("gzip;q=0.0", true),
            ("gzip;q=0", false),
            ("gzip; q=0", false),
            ("*", false),
            ("deflate, br", false),
            ("xgzip", false),
            ("", false),
        ] {
            let mut request = HeaderMap::new();
            request.insert(ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(accepts_gzip(&request), accepted, "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[test]
    fn redirect_links_are_escaped() {
        assert_eq!(escaped("/a?\"><b>&"), "/a?&quot;&gt;&lt;b&gt;&amp;");
    }
}
