//! Section `traces`: the share of placements that is traced, and the collector.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::seconds;

/// Section `traces`.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a section (with keys `traces.KEY` or MONOCEROS__TRACES__KEY)"
)]
pub struct TraceSettings {
    /// The collector of OTLP over gRPC, as `http://HOST:PORT` or `https://HOST:PORT`. Default:
    /// none, and nothing is traced.
    pub endpoint: Option<String>,
    /// Certificates (PEM) of the authority for the collector. Default: none, and no TLS.
    pub ca: Option<PathBuf>,
    /// Share of placements that is traced, from 0 to 1. Default 0.01.
    pub ratio: f64,
    /// Most spans in the queue. Others are lost. A placement has six. Default 6,000.
    pub queue: NonZeroUsize,
    /// Seconds between exports. Default 5.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub interval: Duration,
    /// Seconds for the collector to answer. Default 5.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub timeout: Duration,
}

impl TraceSettings {
    /// Checks bounds that the types do not have.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(0.0..=1.0).contains(&self.ratio) {
            return Err(format!("`traces.ratio` ({}) is not from 0 to 1", self.ratio));
        }
        for (key, time) in [("interval", self.interval), ("timeout", self.timeout)] {
            if time.is_zero() {
                return Err(format!("`traces.{key}` is 0: nothing could be exported in time"));
            }
        }
        let Some(endpoint) = &self.endpoint else { return Ok(()) };
        let is_tls = endpoint.starts_with("https://");
        if !is_tls && !endpoint.starts_with("http://") {
            return Err(format!(
                "`traces.endpoint` (`{endpoint}`) begins with neither http:// nor https://"
            ));
        }
        if is_tls != self.ca.is_some() {
            return Err(format!(
                "`traces.endpoint` (`{endpoint}`) and `traces.ca` do not fit: with https:// the file \
                 says whom to trust, with http:// nobody is asked"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_trace_settings_are_refused_at_start() {
        let settings = |endpoint: Option<&str>, ca: Option<&str>, ratio, interval| TraceSettings {
            endpoint: endpoint.map(str::to_owned),
            ca: ca.map(PathBuf::from),
            ratio,
            queue: NonZeroUsize::MIN,
            interval: Duration::from_secs(interval),
            timeout: Duration::from_secs(1),
        };
        let (plain, tls) = (Some("http://c:4317"), Some("https://c:4317"));
        for right in [
            settings(None, None, 0.0, 1),
            settings(plain, None, 1.0, 1),
            settings(tls, Some("ca.pem"), 0.5, 1),
        ] {
            assert_eq!(right.check(), Ok(()));
        }
        for (wrong, named) in [
            (settings(plain, None, 1.1, 1), "`traces.ratio` (1.1)"),
            (settings(plain, None, f64::NAN, 1), "`traces.ratio` (NaN)"),
            (settings(plain, None, 1.0, 0), "`traces.interval` is 0"),
            (settings(Some("c:4317"), None, 1.0, 1), "begins with neither"),
            (settings(tls, None, 1.0, 1), "do not fit"),
            (settings(plain, Some("ca.pem"), 1.0, 1), "do not fit"),
        ] {
            let error = wrong.check().unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
