//! Records as JSON, and back. The compressed text of a configuration follows its JSON in the next
//! line.
//!
//! # Members of several versions
//! Members of neighbouring versions read each other's records. Unknown fields are ignored, and fields
//! that a later version adds need a default. A member that writes a record again leaves out the
//! fields that it does not know, so a default has to mean the same as before. New values of fields
//! that are there, such as another life, come one version after the one that can read them: a
//! record with an unknown value cannot be read.

use std::sync::Arc;

use bytes::Bytes;
use monoceros_cluster::{
    Claim, Configuration, Details, Epoch, Era, Holder, Incarnation, Life, MAX_EARLIER, MAX_PACKED,
    MemberId, MemberRecord, Owner, ProofHash, Record, RmId,
};
use serde::{Deserialize, Serialize};

use crate::store::{Failure, Kind};

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct MemberText {
    owner: OwnerText,
    beat: u64,
    life: LifeText,
    #[serde(default)]
    grpc: String,
    #[serde(default)]
    rest: String,
    #[serde(default)]
    internal: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    load: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    draining: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    not_in_force: u32,
    /// Nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    unserved: Vec<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
enum LifeText {
    Alive,
    Left,
    Deposed,
}

#[derive(Deserialize, Serialize)]
struct OwnerText {
    member: String,
    /// 32 hexadecimal digits.
    incarnation: String,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClaimText {
    epoch: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<OwnerText>,
    caller: String,
    instance: String,
    policy_group: String,
    /// 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    proof: Option<String>,
    #[serde(default)]
    attempt: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wanted_by: Option<OwnerText>,
    #[serde(default)]
    since_ms: u64,
}

#[derive(Deserialize, Serialize)]
struct GroupText {
    version: u64,
    checksum: String,
    #[serde(default)]
    earlier: Vec<String>,
    #[serde(default)]
    source: String,
}

#[derive(Deserialize, Serialize)]
struct EraText {
    floor: u64,
}

/// Encodes a record.
pub(crate) fn encode(record: &Record) -> Bytes {
    let text = match record {
        Record::Member(member) => serde_json::to_vec(&MemberText::from(member)),
        Record::Claim(claim) => serde_json::to_vec(&ClaimText::from(claim)),
        Record::Group(group) => serde_json::to_vec(&GroupText::from(group)),
        Record::Era(era) => serde_json::to_vec(&EraText { floor: era.floor.0 }),
    };
    let mut text = text.expect("texts whose keys are strings can be written as JSON");
    if let Record::Group(group) = record {
        text.push(b'\n');
        text.extend_from_slice(&group.packed);
    }
    text.into()
}

/// Decodes a record of a kind. Fails if it is of another kind.
pub(crate) fn decode(kind: Kind, id: &str, value: &Bytes) -> Result<Record, Failure> {
    let unreadable = |reason: String| {
        let key = format!("{}/{}", kind.folder(), id.escape_debug());
        Failure::unreadable(key, reason)
    };
    let read = || match kind {
        Kind::Members => {
            let text: MemberText = parse(value)?;
            text.record(id).map(Record::Member)
        }
        Kind::Claims => parse::<ClaimText>(value)?.claim().map(Record::Claim),
        Kind::Era => {
            let text: EraText = parse(value)?;
            Ok(Record::Era(Era { floor: Epoch(text.floor) }))
        }
        Kind::Groups => configuration(value).map(Record::Group),
    };
    read().map_err(unreadable)
}

fn parse<'t, T: Deserialize<'t>>(value: &'t [u8]) -> Result<T, String> {
    serde_json::from_slice(value).map_err(|why| why.to_string())
}

/// The configuration of a group. Its text stays compressed.
fn configuration(value: &[u8]) -> Result<Configuration, String> {
    let end = value.iter().position(|byte| *byte == b'\n').ok_or("it has no second line")?;
    let (head, packed) = (parse::<GroupText>(&value[..end])?, &value[end + 1..]);
    if head.checksum.is_empty() != packed.is_empty() {
        return Err("only one of checksum and text is there".to_owned());
    }
    if packed.len() > MAX_PACKED {
        return Err(format!("its text has {} bytes: the most is {MAX_PACKED}", packed.len()));
    }
    Ok(Configuration {
        version: head.version,
        checksum: head.checksum.into(),
        earlier: head.earlier.into_iter().take(MAX_EARLIER).map(Into::into).collect(),
        source: head.source.into(),
        packed: packed.into(),
    })
}

impl From<&Configuration> for GroupText {
    fn from(group: &Configuration) -> Self {
        Self {
            version: group.version,
            checksum: group.checksum.as_ref().to_owned(),
            earlier: group.earlier.iter().map(|it| it.as_ref().to_owned()).collect(),
            source: group.source.as_ref().to_owned(),
        }
    }
}

impl From<&MemberRecord> for MemberText {
    fn from(record: &MemberRecord) -> Self {
        let details = &record.details;
        Self {
            owner: OwnerText::from(&record.owner),
            beat: record.beat,
            life: match record.life {
                Life::Alive => LifeText::Alive,
                Life::Left => LifeText::Left,
                Life::Deposed => LifeText::Deposed,
            },
            grpc: details.grpc.clone(),
            rest: details.rest.clone(),
            internal: details.internal.clone(),
            version: details.version.clone(),
            load: details.load,
            draining: details.draining,
            not_in_force: details.not_in_force,
            lease_ns: record.lease,
            unserved: details.unserved.iter().map(|rm| rm.0.as_ref().to_owned()).collect(),
        }
    }
}

impl MemberText {
    /// The record, which has to name the member under whose id it is kept.
    fn record(self, id: &str) -> Result<MemberRecord, String> {
        if self.owner.member != id {
            return Err(format!("it is the record of member `{}`", self.owner.member));
        }
        Ok(MemberRecord {
            owner: self.owner.owner()?,
            beat: self.beat,
            life: match self.life {
                LifeText::Alive => Life::Alive,
                LifeText::Left => Life::Left,
                LifeText::Deposed => Life::Deposed,
            },
            lease: self.lease_ns,
            details: Arc::new(Details {
                grpc: self.grpc,
                rest: self.rest,
                internal: self.internal,
                version: self.version,
                load: self.load,
                draining: self.draining,
                not_in_force: self.not_in_force,
                unserved: self.unserved.into_iter().map(|rm| RmId(rm.into())).collect(),
            }),
        })
    }
}

impl From<&Owner> for OwnerText {
    fn from(owner: &Owner) -> Self {
        let incarnation = format!("{:032x}", owner.incarnation.0);
        Self { member: owner.member.0.as_ref().to_owned(), incarnation }
    }
}

impl OwnerText {
    fn owner(self) -> Result<Owner, String> {
        let [high, low] = hex::<16>(&self.incarnation)
            .map(|bytes| [u64_of(&bytes[..8]), u64_of(&bytes[8..])])
            .ok_or_else(|| format!("`{}` is no incarnation", self.incarnation.escape_debug()))?;
        Ok(Owner {
            member: MemberId(self.member.into()),
            incarnation: Incarnation(u128::from(high) << 64 | u128::from(low)),
        })
    }
}

impl From<&Claim> for ClaimText {
    fn from(claim: &Claim) -> Self {
        let holder = &claim.holder;
        Self {
            epoch: claim.epoch.0,
            owner: claim.owner.as_ref().map(OwnerText::from),
            caller: holder.caller.as_ref().to_owned(),
            instance: holder.instance.as_ref().to_owned(),
            policy_group: holder.policy_group.as_ref().to_owned(),
            proof: holder.proof.map(|ProofHash(bytes)| hex_of(&bytes)),
            attempt: holder.attempt,
            wanted_by: claim.wanted_by.as_ref().map(OwnerText::from),
            since_ms: claim.since_ms,
        }
    }
}

impl ClaimText {
    fn claim(self) -> Result<Claim, String> {
        let proof = self
            .proof
            .map(|text| hex(&text).map(ProofHash).ok_or_else(|| "its proof is no hash".to_owned()));
        Ok(Claim {
            epoch: Epoch(self.epoch),
            owner: self.owner.map(OwnerText::owner).transpose()?,
            holder: Holder {
                caller: self.caller.into(),
                instance: self.instance.into(),
                policy_group: self.policy_group.into(),
                proof: proof.transpose()?,
                attempt: self.attempt,
            },
            wanted_by: self.wanted_by.map(OwnerText::owner).transpose()?,
            since_ms: self.since_ms,
        })
    }
}

/// Lower-case hexadecimal digits of `bytes`.
pub(crate) fn hex_of(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        write!(text, "{byte:02x}").ok();
        text
    })
}

/// The bytes of exactly `2 * N` hexadecimal digits.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = u8::try_from(digit(0)? << 4 | digit(1)?).ok()?;
    }
    Some(bytes)
}

fn u64_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod versions;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::option;
    use proptest::prelude::*;

    fn owner() -> impl Strategy<Value = Owner> {
        (any::<String>(), any::<u128>()).prop_map(|(member, incarnation)| Owner {
            member: MemberId(member.into()),
            incarnation: Incarnation(incarnation),
        })
    }

    fn member() -> impl Strategy<Value = MemberRecord> {
        let lives = [Life::Alive, Life::Left, Life::Deposed];
        (owner(), any::<u64>(), prop::sample::select(lives.to_vec()), any::<[String; 4]>())
            .prop_map(|(owner, beat, life, [grpc, rest, internal, version])| MemberRecord {
                owner,
                beat,
                life,
                lease: (beat % 2 == 0).then_some(beat),
                details: Arc::new(Details {
                    grpc,
                    rest,
                    internal,
                    version,
                    load: !beat,
                    draining: beat % 2 == 1,
                    not_in_force: u32::from(beat % 3 == 1),
                    unserved: (0..beat % 3).map(|at| RmId(at.to_string().into())).collect(),
                }),
            })
    }

    fn claim() -> impl Strategy<Value = Claim> {
        let proof = option::of(any::<[u8; 32]>());
        let numbers = any::<[u64; 3]>();
        (option::of(owner()), option::of(owner()), any::<[String; 3]>(), proof, numbers).prop_map(
            |(owner, wanted_by, [caller, instance, group], proof, [epoch, attempt, since_ms])| {
                Claim {
                    epoch: Epoch(epoch),
                    owner,
                    holder: Holder {
                        caller: caller.into(),
                        instance: instance.into(),
                        policy_group: group.into(),
                        proof: proof.map(ProofHash),
                        attempt,
                    },
                    wanted_by,
                    since_ms,
                }
            },
        )
    }

    fn group() -> impl Strategy<Value = Configuration> {
        let packed = prop::collection::vec(any::<u8>(), 1..64);
        (any::<u64>(), any::<[String; 3]>(), packed).prop_map(
            |(version, [checksum, earlier, source], packed)| Configuration {
                version,
                checksum: format!("{checksum}.").into(),
                earlier: vec![earlier.into()],
                source: source.into(),
                packed: packed.into(),
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn records_are_decoded_as_they_were_encoded(
            member in member(),
            claim in claim(),
            group in group(),
        ) {
            let id = member.owner.member.0.clone();
            let member = Record::Member(member);
            prop_assert_eq!(decode(Kind::Members, &id, &encode(&member)).unwrap(), member);
            let claim = Record::Claim(claim);
            prop_assert_eq!(decode(Kind::Claims, "rm", &encode(&claim)).unwrap(), claim);
            let group = Record::Group(group);
            prop_assert_eq!(decode(Kind::Groups, "etl", &encode(&group)).unwrap(), group);
        }

        #[test]
        fn any_bytes_are_a_record_or_refused(bytes in any::<Vec<u8>>()) {
            let bytes = Bytes::from(bytes);
            for kind in [Kind::Members, Kind::Claims, Kind::Era, Kind::Groups] {
                decode(kind, "a", &bytes).ok();
            }
        }
    }

    #[test]
    fn the_text_of_a_claim_is_stable() {
        let text = r#"{"epoch":7,"owner":{"member":"a","incarnation":"0000000000000000000000000000002a"},"caller":"c","instance":"i","policyGroup":"default","attempt":3,"sinceMs":5}"#;
        let bytes = Bytes::from(text);
        let claim = decode(Kind::Claims, "rm", &bytes).unwrap();
        assert_eq!(encode(&claim), bytes);
        let later = text.replace("\"epoch\"", "\"new\":{},\"epoch\"");
        assert_eq!(decode(Kind::Claims, "rm", &later.into()).unwrap(), claim);
    }

    #[test]
    fn the_head_of_a_configuration_is_legible() {
        let text = b"{\"version\":2,\"checksum\":\"C\",\"earlier\":[\"B\"],\"source\":\"a file\"}\n\x1f\n\x8b";
        let bytes = Bytes::from_static(text);
        let group = decode(Kind::Groups, "etl", &bytes).unwrap();
        assert_eq!(encode(&group), bytes);
        let Record::Group(group) = group else { panic!("{group:?}") };
        assert_eq!((group.version, &group.packed[..]), (2, &b"\x1f\n\x8b"[..]));
    }

    #[test]
    fn bad_records_say_which_and_why() {
        let said = |kind, text: &str| {
            decode(kind, "a", &Bytes::from(text.to_owned())).unwrap_err().to_string()
        };
        let member = r#"{"owner":{"member":"b","incarnation":"x"},"beat":1,"life":"alive"}"#;
        let expected = "record `members/a` cannot be read: it is the record of member `b`";
        assert_eq!(said(Kind::Members, member), expected);
        let expected = "record `members/a` cannot be read: `x` is no incarnation";
        assert_eq!(said(Kind::Members, &member.replace("\"b\"", "\"a\"")), expected);
        assert!(said(Kind::Era, "{}").starts_with("record `era/a` cannot be read: missing field"));
        let expected = "record `groups/a` cannot be read: it has no second line";
        assert_eq!(said(Kind::Groups, r#"{"version":1,"checksum":"C"}"#), expected);
        let expected = "record `groups/a` cannot be read: only one of checksum and text is there";
        assert_eq!(said(Kind::Groups, "{\"version\":1,\"checksum\":\"C\"}\n"), expected);
        let much = format!("{{\"version\":1,\"checksum\":\"C\"}}\n{}", "x".repeat(MAX_PACKED + 1));
        let expected =
            "record `groups/a` cannot be read: its text has 917505 bytes: the most is 917504";
        assert_eq!(said(Kind::Groups, &much), expected);
    }
}
