//! Records in config maps of Kubernetes, one each.
//!
//! # Names
//! An id may have any text, so the name of its config map is a hash of it. The id itself stands in
//! the config map and is compared with the one that was asked for. Labels say which cluster and
//! which kind a record belongs to.
//!
//! # Versions and revisions
//! The version is the config map's `resourceVersion`, and the revision of the store that of a list.
//! A single record is read by a list, too: the revision of the store is in the reply to a list, and
//! not in that to a read by name. Both are numbers of one sequence, since all config maps are in
//! one store. Lists without a `resourceVersion` are linearizable.

mod watch;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::ObjectList;
use kube::{Api, Client, Config};
use monoceros_cluster::{Revision, Version, Versioned};
use sha2::{Digest as _, Sha256};

use crate::causes::with_causes;
use crate::codec::hex_of;
use crate::hints::Hints;
use crate::store::{
    ClusterName, Failure, Interrupted, Kind, Listing, Reading, RecordKey, Store, Written, in_time,
    list,
};

/// Label with the name of the cluster.
const CLUSTER: &str = "monoceros.io/cluster";
/// Label with the kind of the record.
const KIND: &str = "monoceros.io/record";
/// Field of a config map with the record's id.
const ID: &str = "id";
/// Field with the record: text, or bytes that are none.
const RECORD: &str = "record";
/// Silence after which a watch is restarted. The server sends something every few minutes.
const SILENCE: Duration = Duration::from_secs(295);

/// A store of records in config maps.
#[derive(Clone)]
pub struct Kubernetes {
    api: Api<ConfigMap>,
    /// Address of the API server.
    endpoint: Arc<str>,
    cluster: Arc<str>,
    timeout: Duration,
    /// Most records in one reply, where a test wants fewer than usual.
    page: Option<u32>,
}

/// Reads how to reach the API server from `kubeconfig`; else from the file that `KUBECONFIG` names
/// or the usual one, else from the service account of the pod.
pub async fn config(kubeconfig: Option<&Path>) -> Result<Config, Failure> {
    let Some(path) = kubeconfig else {
        return Config::infer().await.map_err(|why| {
            let why = with_causes(&why);
            Failure::Refused(format!("neither a kubeconfig nor a service account: {why}"))
        });
    };
    let named = |why: &dyn std::error::Error| {
        Failure::Refused(format!("{}: {}", path.display(), with_causes(why)))
    };
    let read = Kubeconfig::read_from(path).map_err(|why| named(&why))?;
    let options = KubeConfigOptions::default();
    Config::from_custom_kubeconfig(read, &options).await.map_err(|why| named(&why))
}

impl Kubernetes {
    /// A store in the namespace that `config` names, whose requests end after `timeout`. The first
    /// request connects.
    pub fn new(
        mut config: Config,
        cluster: &ClusterName,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        let endpoint = config.cluster_url.to_string();
        let endpoint = endpoint.trim_end_matches('/');
        config.connect_timeout = Some(timeout);
        config.read_timeout = Some(SILENCE);
        // The caller sends a request again, since it knows whether a repeat is needed.
        config.default_retry = false;
        let namespace = config.default_namespace.clone();
        let client = Client::try_from(config);
        let client = client.map_err(|why| Failure::refused(endpoint, reason(&why)))?;
        Ok(Self {
            api: Api::namespaced(client, &namespace),
            endpoint: endpoint.into(),
            cluster: cluster.as_str().into(),
            timeout,
            page: None,
        })
    }

    /// Reads this many records at once, so that a test needs few records to have several pages.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_page(mut self, page: u32) -> Self {
        self.page = Some(page);
        self
    }

    /// Name of the record's config map: 128 bits of a hash keep ids apart.
    fn name(&self, key: &RecordKey) -> String {
        let kind = key.kind().folder();
        let text = format!("{}/{kind}/{}", self.cluster, key.id());
        format!("monoceros-{kind}-{}", &hex_of(&Sha256::digest(text))[..32])
    }

    /// Place of a record that was listed with this name. Fails if it should have another name: a
    /// copy would hide the record.
    fn record_key(&self, kind: Kind, name: &str, id: &Arc<str>) -> Result<RecordKey, Failure> {
        let key = RecordKey::new(kind, id).map_err(|why| Failure::unreadable(name, why))?;
        if self.name(&key) != name {
            let reason = format!("it is not the name of record `{key}`");
            return Err(Failure::unreadable(name, reason));
        }
        Ok(key)
    }

    fn selector(&self, kind: Kind) -> String {
        format!("{CLUSTER}={},{KIND}={}", self.cluster, kind.folder())
    }

    /// Ends a request when its time is over.
    async fn in_time<T>(
        &self,
        request: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        in_time(&self.endpoint, self.timeout, request).await
    }

    fn failure(&self, error: &kube::Error) -> Failure {
        match error {
            // After any other status the request may have been carried out.
            kube::Error::Api(status) if status.code < 500 && !matches!(status.code, 408 | 429) => {
                Failure::refused(&self.endpoint, &status.message)
            }
            kube::Error::Api(status) => Failure::no_answer(&self.endpoint, &status.message),
            _ => Failure::no_answer(&self.endpoint, reason(error)),
        }
    }

    async fn list(&self, params: &ListParams) -> Result<ObjectList<ConfigMap>, Failure> {
        self.api.list(params).await.map_err(|why| self.failure(&why))
    }

    fn revision(&self, list: &ObjectList<ConfigMap>) -> Result<Revision, Failure> {
        let found = list.metadata.resource_version.as_deref().unwrap_or_default();
        number(&self.endpoint, found).map(Revision)
    }

    async fn read_key(&self, key: &RecordKey) -> Result<Reading, Failure> {
        let name = self.name(key);
        let list =
            self.list(&ListParams::default().fields(&format!("metadata.name={name}"))).await?;
        let revision = self.revision(&list)?;
        let Some(found) = list.items.into_iter().next() else {
            return Ok(Reading { record: None, revision });
        };
        let (id, record) = record(found)?;
        if id != *key.id() {
            let reason = format!("`{name}` is the record of `{}`", id.escape_debug());
            return Err(Failure::unreadable(key, reason));
        }
        Ok(Reading { record: Some(key.check_read(record)?), revision })
    }

    async fn read_kind(&self, kind: Kind) -> Result<Listing, Failure> {
        list(|| self.read_pages(kind)).await
    }

    /// Reads all pages as they were at the revision of the first.
    async fn read_pages(&self, kind: Kind) -> Result<Listing, Interrupted> {
        let limit = self.page.unwrap_or(kind.page());
        let all = ListParams::default().labels(&self.selector(kind)).limit(limit);
        let mut page = self.list(&all).await?;
        let mut listing = Listing { revision: self.revision(&page)?, ..Listing::default() };
        loop {
            for found in page.items {
                let name = found.metadata.name.clone().unwrap_or_default();
                let (id, found) = record(found)?;
                listing.add(&self.record_key(kind, &name, &id)?, found)?;
            }
            let all = match page.metadata.continue_.as_deref() {
                None | Some("") => return Ok(listing),
                Some(more) => all.clone().continue_token(more),
            };
            page = self.api.list(&all).await.map_err(|why| match &why {
                // The pages of this list are no longer kept.
                kube::Error::Api(status) if status.code == 410 => {
                    Interrupted::Forgotten(self.failure(&why))
                }
                _ => Interrupted::Failed(self.failure(&why)),
            })?;
        }
    }

    /// Counts the config maps of a kind in the cache of the API server, which may be a moment old: it
    /// would read each of them from its store otherwise.
    async fn count_kind(&self, kind: Kind) -> Result<usize, Failure> {
        let all = ListParams::default().labels(&self.selector(kind)).match_any();
        let list = self.api.list_metadata(&all).await.map_err(|why| self.failure(&why))?;
        Ok(list.items.len())
    }

    async fn write(
        &self,
        key: &RecordKey,
        expected: Option<Version>,
        value: Bytes,
    ) -> Result<Written, Failure> {
        key.check(&value)?;
        let name = self.name(key);
        let map = self.config_map(key, &name, expected, value);
        let options = PostParams::default();
        let written = match expected {
            None => self.api.create(&options, &map).await,
            Some(_) => self.api.replace(&name, &options, &map).await,
        };
        match written {
            Ok(map) => {
                let version = version(&map)?;
                if Some(version) != expected {
                    return Ok(Written::Won(version, Revision(version.0)));
                }
                // The contents were the same, so the version is old and below the store's revision.
                let reading = self.read_key(key).await;
                let Reading { record, revision } = reading.map_err(Failure::of_a_write)?;
                match record {
                    Some(found) if found.version == version => Ok(Written::Won(version, revision)),
                    record => Ok(Written::Lost(record, revision)),
                }
            }
            Err(kube::Error::Api(status)) if is_lost(status.code, expected) => {
                let Reading { record, revision } = self.read_key(key).await?;
                if record.as_ref().map(|record| record.version) == expected {
                    // The conflict was about something else, such as a quota.
                    return Err(Failure::no_answer(&self.endpoint, &status.message));
                }
                Ok(Written::Lost(record, revision))
            }
            Err(why) => Err(self.failure(&why)),
        }
    }

    fn config_map(
        &self,
        key: &RecordKey,
        name: &str,
        expected: Option<Version>,
        value: Bytes,
    ) -> ConfigMap {
        let labels = [(CLUSTER, &*self.cluster), (KIND, key.kind().folder())];
        let labels = labels.map(|(label, value)| (label.to_owned(), value.to_owned()));
        let mut data = BTreeMap::from([(ID.to_owned(), key.id().as_ref().to_owned())]);
        let mut binary_data = None;
        match String::from_utf8(value.into()) {
            Ok(text) => {
                data.insert(RECORD.to_owned(), text);
            }
            Err(bytes) => {
                let bytes = ByteString(bytes.into_bytes());
                binary_data = Some(BTreeMap::from([(RECORD.to_owned(), bytes)]));
            }
        }
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some(labels.into()),
                resource_version: expected.map(|version| version.0.to_string()),
                ..ObjectMeta::default()
            },
            data: Some(data),
            binary_data,
            immutable: None,
        }
    }
}

impl Store for Kubernetes {
    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn read<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Result<Reading, Failure>> {
        Box::pin(self.in_time(self.read_key(key)))
    }

    fn read_all(&self, kind: Kind) -> BoxFuture<'_, Result<Listing, Failure>> {
        Box::pin(self.in_time(self.read_kind(kind)))
    }

    fn count(&self, kind: Kind) -> BoxFuture<'_, Result<usize, Failure>> {
        Box::pin(self.in_time(self.count_kind(kind)))
    }

    fn compare_and_set<'a>(
        &'a self,
        key: &'a RecordKey,
        expected: Option<Version>,
        value: Bytes,
    ) -> BoxFuture<'a, Result<Written, Failure>> {
        Box::pin(self.in_time(self.write(key, expected, value)))
    }

    fn watch(&self, kind: Kind, from: Revision) -> Hints {
        watch::begin(self.clone(), kind, from)
    }
}

impl std::fmt::Debug for Kubernetes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubernetes")
            .field("endpoint", &self.endpoint)
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

/// Whether a status can mean that the record has another version: it is there already, it was
/// changed, or it is gone.
fn is_lost(code: u16, expected: Option<Version>) -> bool {
    code == 409 || code == 404 && expected.is_some()
}

/// Text of an error with its causes. An error about credentials has a fixed text, since its own may
/// contain them: the output of a command, or part of a file.
fn reason(error: &kube::Error) -> String {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = next {
        if cause.is::<kube::client::AuthError>() {
            return "no credentials can be had as the kubeconfig says".to_owned();
        }
        next = cause.source();
    }
    with_causes(error)
}

/// Id and contents of a record's config map.
fn record(map: ConfigMap) -> Result<(Arc<str>, Versioned<Bytes>), Failure> {
    let version = version(&map)?;
    let name = map.metadata.name.unwrap_or_default();
    let missing = |field| Failure::unreadable(&name, format!("config map without `{field}`"));
    let mut data = map.data.unwrap_or_default();
    let id = data.remove(ID).ok_or_else(|| missing(ID))?;
    let text = data.remove(RECORD).map(Bytes::from);
    let bytes = || map.binary_data.and_then(|mut data| data.remove(RECORD));
    let value = text.or_else(|| bytes().map(|bytes| bytes.0.into()));
    let value = value.ok_or_else(|| missing(RECORD))?;
    Ok((id.into(), Versioned { version, value }))
}

fn version(map: &ConfigMap) -> Result<Version, Failure> {
    let name = map.metadata.name.as_deref().unwrap_or_default();
    number(name, map.metadata.resource_version.as_deref().unwrap_or_default()).map(Version)
}

/// The number in a `resourceVersion`.
fn number(of: &str, text: &str) -> Result<u64, Failure> {
    text.parse().map_err(|_| {
        let shown: String = text.chars().take(40).collect();
        let reason = format!("resourceVersion `{}` is no number", shown.escape_debug());
        Failure::unreadable(of, reason)
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    fn map(fields: &[(&str, &str)], version: &str) -> ConfigMap {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        ConfigMap {
            metadata: ObjectMeta {
                name: Some("monoceros-rms-1".to_owned()),
                resource_version: Some(version.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(fields.collect()),
            ..ConfigMap::default()
        }
    }

    #[test]
    fn credentials_are_not_shown() {
        let secret = || kube::client::AuthError::AuthExec("secret".to_owned());
        for error in [kube::Error::Auth(secret()), kube::Error::Service(Box::new(secret()))] {
            assert_eq!(reason(&error), "no credentials can be had as the kubeconfig says");
        }
        let other = kube::Error::Service("connection closed".into());
        assert!(reason(&other).ends_with("connection closed"), "{}", reason(&other));
    }

    #[tokio::test]
    async fn a_record_under_another_name_is_refused() {
        let config = Config::new("http://127.0.0.1:1".parse().unwrap());
        let cluster = ClusterName::new("c").unwrap();
        let store = Kubernetes::new(config, &cluster, Duration::from_secs(1)).unwrap();
        let key = RecordKey::new(Kind::Claims, &"rm".into()).unwrap();
        let found = |name: &str| store.record_key(Kind::Claims, name, key.id());
        assert_eq!(found(&store.name(&key)).as_ref(), Ok(&key));
        let expected = "record `copy` cannot be read: it is not the name of record `rms/rm`";
        assert_eq!(found("copy").unwrap_err().to_string(), expected);
    }

    /// Replies to requests in turn, each on a connection of its own.
    fn serve(listener: TcpListener, replies: Vec<(u16, String)>) {
        std::thread::spawn(move || {
            for (code, body) in replies {
                let (stream, _) = listener.accept().unwrap();
                let mut stream = BufReader::new(stream);
                let (mut line, mut length) = (String::new(), 0);
                while stream.read_line(&mut line).unwrap() > 2 {
                    if let Some(bytes) = line.to_lowercase().strip_prefix("content-length:") {
                        length = bytes.trim().parse().unwrap();
                    }
                    line.clear();
                }
                stream.read_exact(&mut vec![0; length]).unwrap();
                let head = "content-type: application/json\r\nconnection: close\r\n";
                let length = body.len();
                write!(
                    stream.get_mut(),
                    "HTTP/1.1 {code} -\r\n{head}content-length: {length}\r\n\r\n{body}"
                )
                .unwrap();
            }
        });
    }

    #[tokio::test]
    async fn a_conflict_about_something_else_is_no_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let config = Config::new(endpoint.parse().unwrap());
        let cluster = ClusterName::new("c").unwrap();
        let store = Kubernetes::new(config, &cluster, Duration::from_secs(5)).unwrap();
        let key = RecordKey::new(Kind::Claims, &"rm".into()).unwrap();
        let name = store.name(&key);
        let conflict = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":409,
            "reason":"Conflict","message":"the quota\nhas changed"}"#;
        let list = |version: u64| {
            let item = format!(
                r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}},
                    "data":{{"id":"rm","record":"{{}}"}}}}"#
            );
            let metadata = r#"{"resourceVersion":"9"}"#;
            (200, format!(r#"{{"metadata":{metadata},"items":[{item}]}}"#))
        };
        let conflict = || (409, conflict.to_owned());
        serve(listener, vec![conflict(), list(7), conflict(), list(8)]);
        let write = || store.compare_and_set(&key, Some(Version(7)), "new".into());
        let expected = format!("{endpoint}: the quota has changed");
        assert_eq!(write().await, Err(Failure::NoAnswer(expected)));
        let found = Versioned { version: Version(8), value: "{}".into() };
        assert_eq!(write().await, Ok(Written::Lost(Some(found), Revision(9))));
    }

    #[test]
    fn config_maps_that_are_no_records_are_named() {
        let (id, found) = record(map(&[("id", "rm"), ("record", "{}")], "7")).unwrap();
        assert_eq!((&*id, found.version, &found.value[..]), ("rm", Version(7), &b"{}"[..]));
        let said = |map| record(map).unwrap_err().to_string();
        let expected = "record `monoceros-rms-1` cannot be read: config map without `record`";
        assert_eq!(said(map(&[("id", "rm")], "7")), expected);
        let expected = "record `monoceros-rms-1` cannot be read: resourceVersion `x` is no number";
        assert_eq!(said(map(&[("id", "rm"), ("record", "")], "x")), expected);
    }
}
