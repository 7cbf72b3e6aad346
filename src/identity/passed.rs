//! An [`Identity`] as a header, between members of a cluster.
//!
//! The member at which a client arrives identifies it, and passes the result on with the calls that
//! it forwards. The receiver trusts the header because it accepts it from members only, on a
//! listener of their own. Fields that it does not know, from a sender of a later version, are ignored.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::HeaderValue;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use super::{Grant, Identity, RmPattern, Who};

/// Header of a request between members: the caller as the sender identified it.
pub const CALLER_HEADER: &str = "x-si-caller";

/// Bytes that are escaped besides those that are no ASCII.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');

#[derive(Deserialize, Serialize)]
struct Passed {
    /// `None` for a caller that no rule matches.
    grant: Option<PassedGrant>,
    /// Whether the sender has no rules.
    anybody: bool,
    from: Option<SocketAddr>,
}

#[derive(Deserialize, Serialize)]
struct PassedGrant {
    caller: String,
    rm_ids: Vec<String>,
    read: bool,
    admin: bool,
}

impl Identity {
    /// Writes the identity for another member.
    pub fn to_header(&self) -> HeaderValue {
        let grant = match &self.who {
            Who::Anybody | Who::Nobody => None,
            Who::Known(grant) => Some(PassedGrant {
                caller: grant.caller.clone(),
                rm_ids: grant.rm_ids.iter().map(ToString::to_string).collect(),
                read: grant.read,
                admin: grant.admin,
            }),
        };
        let passed = Passed { grant, anybody: matches!(self.who, Who::Anybody), from: self.from };
        let text = serde_json::to_string(&passed).expect("texts and flags are a document");
        let text = utf8_percent_encode(&text, ESCAPED).to_string();
        HeaderValue::from_str(&text).expect("other bytes are escaped")
    }

    /// Reads the identity that another member has written. `None` if it cannot be read.
    pub fn from_header(header: &HeaderValue) -> Option<Self> {
        let text = percent_decode(header.as_bytes()).decode_utf8().ok()?;
        let Passed { grant, anybody, from } = serde_json::from_str(&text).ok()?;
        let who = match grant {
            None if anybody => Who::Anybody,
            None => Who::Nobody,
            Some(PassedGrant { caller, rm_ids, read, admin }) => {
                let rm_ids = rm_ids.iter().map(|text| RmPattern::parse(text));
                let rm_ids = rm_ids.collect::<Result<_, _>>().ok()?;
                Who::Known(Arc::new(Grant { caller, rm_ids, read, admin }))
            }
        };
        Some(Self { who, from })
    }

    /// The network address of the caller, if it came by a connection.
    pub fn address(&self) -> Option<SocketAddr> {
        self.from
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Rule;

    #[test]
    fn an_identity_keeps_its_rights_on_the_way() {
        let address: SocketAddr = "[::1]:7".parse().unwrap();
        let rules = [
            Rule::certificate("cn=Zürich 100%", &["a*", "b"], false).unwrap(),
            Rule::reader("dash").unwrap(),
        ];
        for identity in [
            Identity::granted(rules.iter()).at(address),
            Identity::granted(rules.iter().take(1)),
            Identity::anybody().at(address),
            Identity::nobody(),
        ] {
            let passed = Identity::from_header(&identity.to_header()).unwrap();
            assert_eq!(format!("{passed:?}"), format!("{identity:?}"));
        }
        // A sender of a later version.
        let later = r#"{"new":[1],"grant":{"caller":"a","rm_ids":["b"],"read":true,"admin":false,"new":1},"anybody":false,"from":null}"#;
        let passed = Identity::from_header(&HeaderValue::from_static(later)).unwrap();
        assert_eq!(passed.name(), "a");
        for bad in ["", "{}", "%ff", "{\"grant\":{\"caller\":\"a\"}}"] {
            assert!(Identity::from_header(&HeaderValue::from_static(bad)).is_none(), "{bad}");
        }
    }
}
