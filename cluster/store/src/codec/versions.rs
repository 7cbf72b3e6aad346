//! Records of members of other versions.

use super::*;

/// Texts of a record: with every field, with the fields of a later version in them, and with
/// those alone that every version has.
fn versions() -> [(Kind, [String; 3]); 4] {
    let owner = r#"{"member":"a","incarnation":"0000000000000000000000000000002a"}"#;
    let later_owner = owner.replace('}', r#","zone":"z"}"#);
    let of_kind = |kind, present: &str, earlier: &str| {
        let later = present.replace("OWNER", &later_owner);
        let later = later.replacen('{', r#"{"new":{"beat":[1]},"floors":[2],"#, 1);
        (kind, [present.replace("OWNER", owner), later, earlier.replace("OWNER", owner)])
    };
    let era = r#"{"floor":9}"#;
    [
        of_kind(
            Kind::Members,
            r#"{"owner":OWNER,"beat":3,"life":"alive","grpc":"g:1","rest":"r:1","internal":"i:1","version":"9.1.0","load":7,"draining":true,"leaseNs":5000000000,"unserved":["rm"]}"#,
            r#"{"owner":OWNER,"beat":3,"life":"alive"}"#,
        ),
        of_kind(
            Kind::Claims,
            r#"{"epoch":7,"owner":OWNER,"caller":"c","instance":"i","policyGroup":"etl","attempt":3,"wantedBy":OWNER,"sinceMs":5}"#,
            r#"{"epoch":7,"caller":"c","instance":"i","policyGroup":"etl"}"#,
        ),
        of_kind(
            Kind::Groups,
            "{\"version\":2,\"checksum\":\"C\",\"earlier\":[\"B\"],\"source\":\"f\"}\n\u{1f}",
            "{\"version\":2,\"checksum\":\"C\"}\n\u{1f}",
        ),
        of_kind(Kind::Era, era, era),
    ]
}

fn decoded(kind: Kind, text: &str) -> Record {
    decode(kind, "a", &text.to_owned().into()).unwrap()
}

#[test]
fn records_of_a_later_version_are_read_and_written_without_its_fields() {
    for (kind, [present, later, _]) in versions() {
        let record = decoded(kind, &later);
        assert_eq!(record, decoded(kind, &present));
        assert_eq!(encode(&record), present);
    }
}

#[test]
fn records_of_an_earlier_version_have_defaults() {
    for (kind, [present, _, earlier]) in versions() {
        match (decoded(kind, &earlier), decoded(kind, &present)) {
            (Record::Member(record), Record::Member(present)) => {
                assert_eq!((&record.owner, record.life), (&present.owner, Life::Alive));
                assert_eq!((record.lease, present.lease), (None, Some(5_000_000_000)));
                assert_eq!(*record.details, Details::default());
            }
            (Record::Claim(record), Record::Claim(present)) => {
                assert_eq!((record.epoch, record.owner), (present.epoch, None));
                assert_eq!((record.holder.proof, record.holder.attempt), (None, 0));
            }
            (Record::Group(record), Record::Group(present)) => {
                assert_eq!((&record.packed, record.version), (&present.packed, 2));
                assert!(record.earlier.is_empty());
            }
            (record, present) => assert_eq!(record, present),
        }
    }
}

#[test]
fn a_value_that_only_a_later_version_knows_is_refused() {
    let (kind, [member, ..]) = &versions()[0];
    let member = member.replace("alive", "suspended");
    let why = decode(*kind, "a", &member.into()).unwrap_err().to_string();
    assert!(why.contains("unknown variant `suspended`"), "{why}");
}
