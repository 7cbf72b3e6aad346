//! Lists of several members joined into one list.
//!
//! # Order
//! The rows of this member come first, then those of the others.
//!
//! # A resource manager (RM) in several lists
//! An RM that is being moved may be in the lists of two members. Its rows in one of these lists
//! count: with numbers of sessions, in the one with the highest; otherwise in that of the member
//! which its claim names.

use std::collections::BTreeMap;
use std::ops::Range;

use axum::body::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Deserializer, Value};

/// Position of the rows in the document of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The document is an array of rows.
    Rows,
    /// The document is an object, whose field `sessions` has the rows.
    Sessions,
}

/// List of one member.
#[derive(Debug)]
pub(super) struct List {
    body: Bytes,
    /// Position of the rows in the body, without brackets.
    between: Range<usize>,
    rows: Vec<Row>,
}

/// Row of a list.
#[derive(Debug)]
struct Row {
    /// Position in the body.
    text: Range<usize>,
    /// RMs of which the row is. An entry of `/ws/v1/clusters` has several.
    rms: Vec<String>,
    /// Number of the session. 0 in lists without numbers.
    session: u64,
}

/// Fields of rows that name RMs.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Names {
    rm_id: String,
    cluster_id: String,
    session_id: String,
    rm_build_information: Vec<Build>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Build {
    rm_id: String,
}

impl List {
    /// Reads the document of a list. `Err` says why it cannot be read.
    pub(super) fn parse(form: Form, body: Bytes) -> Result<Self, String> {
        let mut cursor = Cursor { text: &body, at: 0 };
        let (between, rows) = match form {
            Form::Rows => cursor.rows()?,
            Form::Sessions => cursor.sessions()?,
        };
        cursor.skip_blanks();
        if cursor.at < body.len() {
            return Err(cursor.unexpected());
        }
        Ok(Self { body, between, rows })
    }

    /// Returns the RMs of the list, each with its highest session.
    fn rms(&self) -> BTreeMap<&str, u64> {
        let mut rms = BTreeMap::new();
        for row in &self.rows {
            for rm in &row.rms {
                let session = rms.entry(rm.as_str()).or_default();
                *session = row.session.max(*session);
            }
        }
        rms
    }
}

/// Returns the RMs that are in several lists: for each the positions of these lists, the one with
/// the highest session first.
pub(super) fn contested(lists: &[List]) -> BTreeMap<String, Vec<usize>> {
    let mut found: BTreeMap<&str, Vec<(usize, u64)>> = BTreeMap::new();
    for (at, list) in lists.iter().enumerate() {
        for (rm, session) in list.rms() {
            found.entry(rm).or_default().push((at, session));
        }
    }
    found.retain(|_, lists| lists.len() > 1);
    let ordered = found.into_iter().map(|(rm, mut lists)| {
        // Stable: without sessions they stay in the order of the lists.
        lists.sort_by_key(|(_, session)| std::cmp::Reverse(*session));
        (rm.to_owned(), lists.into_iter().map(|(at, _)| at).collect())
    });
    ordered.collect()
}

/// Joins the lists. The document around the rows is that of the first list. `owners` has, for each
/// RM in several lists, the position of the list that counts.
pub(super) fn joined(lists: &[List], owners: &BTreeMap<String, usize>) -> Bytes {
    let Some(own) = lists.first() else { return Bytes::new() };
    let mut whole = own.body[..own.between.start].to_vec();
    let begin = whole.len();
    for (at, list) in lists.iter().enumerate() {
        let counts = |rm: &str| owners.get(rm).is_none_or(|owner| *owner == at);
        for row in &list.rows {
            let text = &list.body[row.text.clone()];
            let n_counting = row.rms.iter().filter(|rm| counts(rm)).count();
            if n_counting == 0 && !row.rms.is_empty() {
                continue;
            }
            if whole.len() > begin {
                whole.push(b',');
            }
            if n_counting == row.rms.len() {
                whole.extend_from_slice(text);
            } else {
                whole.extend_from_slice(&with_builds(text, counts));
            }
        }
    }
    whole.extend_from_slice(&own.body[own.between.end..]);
    whole.into()
}

/// Returns an entry of `/ws/v1/clusters` without the RMs that do not count.
fn with_builds(text: &[u8], counts: impl Fn(&str) -> bool) -> Vec<u8> {
    let Ok(mut row) = serde_json::from_slice::<Value>(text) else { return text.to_vec() };
    if let Some(Value::Array(builds)) = row.get_mut("rmBuildInformation") {
        builds.retain(|build| build["rmId"].as_str().is_none_or(&counts));
    }
    row.to_string().into_bytes()
}

/// Position in the document of a list.
struct Cursor<'b> {
    text: &'b [u8],
    at: usize,
}

impl<'b> Cursor<'b> {
    fn skip_blanks(&mut self) {
        let blanks = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_whitespace());
        self.at += blanks.count();
    }

    /// Moves behind a sign, if it is the next one.
    fn takes(&mut self, sign: u8) -> bool {
        self.skip_blanks();
        let is_next = self.text.get(self.at) == Some(&sign);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, sign: u8) -> Result<(), String> {
        if self.takes(sign) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> String {
        match self.text.get(self.at) {
            Some(byte) => format!("unexpected `{}` at byte {}", byte.escape_ascii(), self.at),
            None => format!("it ends at byte {}", self.at),
        }
    }

    /// Reads a value. Returns it with its position.
    fn value<T: Deserialize<'b>>(&mut self) -> Result<(T, Range<usize>), String> {
        self.skip_blanks();
        let begin = self.at;
        let mut values = Deserializer::from_slice(&self.text[begin..]).into_iter();
        let value = values.next().ok_or_else(|| self.unexpected())?;
        let value = value.map_err(|error| format!("after byte {begin}: {error}"))?;
        self.at = begin + values.byte_offset();
        Ok((value, begin..self.at))
    }

    /// Reads an array of rows. Returns the position between its brackets, too.
    fn rows(&mut self) -> Result<(Range<usize>, Vec<Row>), String> {
        self.expect(b'[')?;
        let begin = self.at;
        let mut rows = Vec::new();
        while !self.takes(b']') {
            if !rows.is_empty() {
                self.expect(b',')?;
            }
            let (names, text) = self.value::<Names>()?;
            let Names { rm_id, cluster_id, session_id, rm_build_information } = names;
            let rms = rm_build_information.into_iter().map(|build| build.rm_id);
            let rms = [rm_id, cluster_id].into_iter().chain(rms).filter(|rm| !rm.is_empty());
            let session = session_id.parse().unwrap_or_default();
            rows.push(Row { text, rms: rms.collect(), session });
        }
        Ok((begin..self.at - 1, rows))
    }

    /// Reads an object with sessions.
    fn sessions(&mut self) -> Result<(Range<usize>, Vec<Row>), String> {
        self.expect(b'{')?;
        let mut sessions = None;
        loop {
            let (field, _) = self.value::<String>()?;
            self.expect(b':')?;
            if field == "sessions" {
                sessions = Some(self.rows()?);
            } else {
                self.value::<IgnoredAny>()?;
            }
            if !self.takes(b',') {
                break;
            }
        }
        self.expect(b'}')?;
        sessions.ok_or_else(|| "it has no field `sessions`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(form: Form, text: &'static str) -> List {
        List::parse(form, Bytes::from_static(text.as_bytes())).unwrap()
    }

    /// Joins lists. `owners`: the list that counts, of each RM in several.
    fn join(form: Form, texts: &[&'static str], owners: &[(&str, usize)]) -> String {
        let lists: Vec<_> = texts.iter().map(|text| list(form, text)).collect();
        let owners = owners.iter().map(|(rm, at)| ((*rm).to_owned(), *at)).collect();
        String::from_utf8(joined(&lists, &owners).to_vec()).unwrap()
    }

    #[test]
    fn rows_of_all_members_are_one_list() {
        assert_eq!(join(Form::Rows, &["[]\n", "[ ]", "[]"], &[]), "[]\n");
        assert_eq!(
            join(Form::Rows, &["[{\"a\":[1]}]", "[]", "[{\"b\":\"]\"} , {}]"], &[]),
            "[{\"a\":[1]},{\"b\":\"]\"},{}]"
        );
        assert_eq!(join(Form::Rows, &["[]", "[{}]"], &[]), "[{}]");
        assert_eq!(
            join(
                Form::Sessions,
                &[
                    r#"{"schedulerId":"\"sessions\":[","sessions":[{"rmId":"a"}],"more":{}}"#,
                    r#"{"sessions":[{"rmId":"b"}]}"#,
                ],
                &[]
            ),
            r#"{"schedulerId":"\"sessions\":[","sessions":[{"rmId":"a"},{"rmId":"b"}],"more":{}}"#
        );
    }

    #[test]
    fn an_rm_in_two_lists_is_shown_once() {
        let sessions = [
            r#"{"sessions":[{"rmId":"a","sessionId":"2"},{"rmId":"b","sessionId":"9"}]}"#,
            r#"{"sessions":[{"rmId":"a","sessionId":"10"},{"rmId":"c","sessionId":"1"}]}"#,
        ];
        let lists = sessions.map(|text| list(Form::Sessions, text));
        assert_eq!(contested(&lists), BTreeMap::from([("a".to_owned(), vec![1, 0])]));
        assert_eq!(
            join(Form::Sessions, &sessions, &[("a", 1)]),
            r#"{"sessions":[{"rmId":"b","sessionId":"9"},{"rmId":"a","sessionId":"10"},{"rmId":"c","sessionId":"1"}]}"#
        );
        let partitions = [
            r#"[{"clusterId":"a","name":"default"},{"clusterId":"a","name":"gpu"}]"#,
            r#"[{"clusterId":"a","name":"default"}]"#,
        ];
        let lists = partitions.map(|text| list(Form::Rows, text));
        assert_eq!(contested(&lists)["a"], [0, 1]);
        assert_eq!(join(Form::Rows, &partitions, &[("a", 1)]), partitions[1]);
        assert_eq!(join(Form::Rows, &partitions, &[("a", 0)]), partitions[0]);
        let clusters = [
            r#"[{"partition":"default","rmBuildInformation":[{"rmId":"a"},{"rmId":"b"}]}]"#,
            r#"[{"partition":"default","rmBuildInformation":[{"rmId":"a"}]}]"#,
        ];
        let (first, second) =
            (r#"{"partition":"default","rmBuildInformation":[{"rmId":"b"}]}"#, &clusters[1][1..]);
        assert_eq!(join(Form::Rows, &clusters, &[("a", 1)]), format!("[{first},{second}"));
        assert_eq!(join(Form::Rows, &clusters, &[("a", 0)]), clusters[0]);
    }

    #[test]
    fn an_unreadable_list_is_no_empty_list() {
        for (form, text) in [
            (Form::Rows, ""),
            (Form::Rows, "{\"error\":1}"),
            (Form::Rows, "[{}"),
            (Form::Rows, "[{} {}]"),
            (Form::Rows, "[{},]"),
            (Form::Rows, "[{}]]"),
            (Form::Rows, "[{\"clusterId\":3}]"),
            (Form::Sessions, "{}"),
            (Form::Sessions, "{\"schedulerId\":\"sessions\"}"),
            (Form::Sessions, "{\"sessions\":[{}]"),
            (Form::Sessions, "[]"),
        ] {
            let read = List::parse(form, Bytes::from_static(text.as_bytes()));
            assert!(read.is_err(), "{text}: {read:?}");
        }
    }
}
