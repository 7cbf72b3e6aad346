//! The places of gang members that are decided as a whole (a bundle), as announced on one stream.
//!
//! # Why not in the questions
//! Whether a member may run can depend on the places of the other members. A thousand members in
//! each of a thousand questions would be a million places, so a question only names its bundle. All
//! places are sent before the first question, and later only the changed ones.
//!
//! # Invariants
//! * When a question about a member is sent, the shim has received the places of all members as of
//!   the question, or later ones.
//! * One bundle per partition is kept, here and by the shim: the next one ends it.

use std::collections::BTreeMap;
use std::sync::Arc;

use monoceros_actors::{BundlePlace, QuestionBundle, QuestionId};
use monoceros_proto::v1 as cb;

use super::batching::Question;
use super::dictionary::Dictionary;
use super::outgoing::portions;
use super::results::clamped;

/// The bundles announced on one stream.
#[derive(Debug, Default)]
pub(super) struct Bundles {
    /// The newest bundle of each partition, by its number.
    by_partition: BTreeMap<u32, Known>,
}

#[derive(Debug)]
struct Known {
    application: Arc<str>,
    newest: Arc<QuestionBundle>,
    /// The question with which the bundle arrived.
    as_of: QuestionId,
    announced: Option<Arc<QuestionBundle>>,
    /// The previous bundle, if its end is still to be announced.
    over: Option<u64>,
}

/// Maximum size of a message without its places and the bytes of the application's name.
const OVERHEAD_BYTES: usize = 64;

impl Bundles {
    /// Records the bundle of a question to be sent. A question that was delayed may carry older
    /// places.
    pub(super) fn note(&mut self, question: &Question) {
        let Some(bundle) = &question.bundle else { return };
        let (newest, as_of) = (Arc::clone(bundle), question.ticket.id);
        let known = self.by_partition.get(&question.ticket.partition);
        let over = match known {
            Some(known) if as_of <= known.as_of => return,
            Some(known) if known.newest.id == bundle.id => known.over,
            Some(known) => Some(known.announced.as_ref().map_or(0, |announced| announced.id)),
            None => None,
        };
        let announced = known.and_then(|known| known.announced.clone());
        let application = Arc::clone(&question.application);
        let known = Known { application, newest, as_of, announced, over };
        self.by_partition.insert(question.ticket.partition, known);
    }

    /// Returns the messages that must precede the recorded questions. They name nodes by their
    /// indexes in `dictionary`, whose updates must be sent first.
    pub(super) fn updates(
        &mut self,
        dictionary: &mut Dictionary,
        max_bytes: usize,
    ) -> Vec<cb::BundlePlaces> {
        let known = self.by_partition.values_mut();
        known.flat_map(|known| known.updates(dictionary, max_bytes)).collect()
    }
}

impl Known {
    fn updates(&mut self, dictionary: &mut Dictionary, max_bytes: usize) -> Vec<cb::BundlePlaces> {
        let before = self.announced.replace(Arc::clone(&self.newest));
        if before.as_ref().is_some_and(|announced| Arc::ptr_eq(announced, &self.newest)) {
            return Vec::new();
        }
        let before = before.filter(|announced| announced.id == self.newest.id);
        let before = before.as_ref().map_or(&[][..], |announced| &announced.places);
        let places = self.newest.places.iter().enumerate();
        let changed = places.filter(|(member, place)| before.get(*member) != Some(*place));
        let changed: Vec<cb::BundlePlace> = changed
            .map(|(member, BundlePlace { key, group, node })| cb::BundlePlace {
                member: clamped(member),
                allocation_key: key.to_string(),
                node_index: dictionary.index(node),
                task_group_name: group.as_deref().unwrap_or_default().to_owned(),
            })
            .collect();
        let mut over = self.over.take();
        let room = max_bytes.saturating_sub(OVERHEAD_BYTES + self.application.len());
        let message = |places| cb::BundlePlaces {
            bundle_id: self.newest.id,
            application_id: self.application.to_string(),
            over: over.take().unwrap_or_default(),
            places,
        };
        portions(changed, usize::MAX, room).map(message).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::batching::Ticket;
    use super::*;

    const LARGE: usize = 10_000;

    fn bundle(id: u64, nodes: &[&str]) -> Arc<QuestionBundle> {
        let places = nodes.iter().enumerate();
        let places = places.map(|(at, node)| BundlePlace {
            key: format!("k{at}").into(),
            group: None,
            node: Arc::from(*node),
        });
        Arc::new(QuestionBundle { id, places: places.collect() })
    }

    fn question(id: u64, partition: u32, bundle: Option<&Arc<QuestionBundle>>) -> Question {
        Question {
            ticket: Ticket { id: QuestionId(id), partition },
            application: "app".into(),
            key: "k0".into(),
            group: None,
            nodes: vec!["n0".into()],
            candidates: vec![0],
            allocate: true,
            bundle: bundle.cloned(),
        }
    }

    /// Bundle, ended bundle, and each place as member and node index.
    type Told = (u64, u64, Vec<(u32, u32)>);

    fn announced(messages: &[cb::BundlePlaces]) -> Vec<Told> {
        let place = |place: &cb::BundlePlace| (place.member, place.node_index);
        let announced = |message: &cb::BundlePlaces| {
            (message.bundle_id, message.over, message.places.iter().map(place).collect())
        };
        messages.iter().map(announced).collect()
    }

    #[test]
    fn places_are_announced_when_they_change() {
        let (mut bundles, mut dictionary) = (Bundles::default(), Dictionary::default());
        let first = bundle(7, &["n0", "n1", "n1"]);
        bundles.note(&question(1, 0, Some(&first)));
        bundles.note(&question(2, 0, Some(&first)));
        bundles.note(&question(3, 0, None));
        let messages = bundles.updates(&mut dictionary, LARGE);
        assert_eq!(announced(&messages), [(7, 0, vec![(0, 0), (1, 1), (2, 1)])]);
        assert_eq!(messages[0].application_id, "app");
        assert_eq!(messages[0].places[2].allocation_key, "k2");
        bundles.note(&question(4, 0, Some(&first)));
        assert!(bundles.updates(&mut dictionary, LARGE).is_empty());
        bundles.note(&question(5, 0, Some(&bundle(7, &["n0", "n2", "n1"]))));
        // A question asked before the move and sent again announces nothing.
        bundles.note(&question(4, 0, Some(&first)));
        assert_eq!(announced(&bundles.updates(&mut dictionary, LARGE)), [(7, 0, vec![(1, 2)])]);
    }

    #[test]
    fn next_bundle_ends_the_previous_one() {
        let (mut bundles, mut dictionary) = (Bundles::default(), Dictionary::default());
        bundles.note(&question(1, 0, Some(&bundle(7, &["n0"]))));
        bundles.note(&question(2, 1, Some(&bundle(8, &["n0"]))));
        let both = [(7, 0, vec![(0, 0)]), (8, 0, vec![(0, 0)])];
        assert_eq!(announced(&bundles.updates(&mut dictionary, LARGE)), both);
        bundles.note(&question(3, 0, Some(&bundle(9, &["n0"]))));
        bundles.note(&question(4, 0, Some(&bundle(9, &["n1"]))));
        assert_eq!(announced(&bundles.updates(&mut dictionary, LARGE)), [(9, 7, vec![(0, 1)])]);
        // A bundle never announced need not be ended.
        bundles.note(&question(5, 0, Some(&bundle(10, &["n0"]))));
        bundles.note(&question(6, 0, Some(&bundle(11, &["n0"]))));
        assert_eq!(announced(&bundles.updates(&mut dictionary, LARGE)), [(11, 9, vec![(0, 0)])]);
    }

    #[test]
    fn long_lists_are_split() {
        let (mut bundles, mut dictionary) = (Bundles::default(), Dictionary::default());
        bundles.note(&question(1, 0, Some(&bundle(7, &["n0"]))));
        bundles.updates(&mut dictionary, LARGE);
        bundles.note(&question(2, 0, Some(&bundle(8, &["n0"; 100]))));
        let messages = bundles.updates(&mut dictionary, 500);
        assert!(messages.len() > 2);
        assert!(messages.iter().all(|message| prost::Message::encoded_len(message) <= 500));
        let members = messages.iter().flat_map(|message| &message.places);
        assert!(members.map(|place| place.member).eq(0..100));
        let over: Vec<u64> = messages.iter().map(|message| message.over).collect();
        assert!(over[0] == 7 && over[1..].iter().all(|over| *over == 0), "{over:?}");
    }
}
