//! Measured sizes, compared with the decoder on random and unusual encodings.

use monoceros_proto::si::legacy::v0 as legacy;
use monoceros_proto::si::v1 as si;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use prost::Message as _;

use super::*;

/// Measures without limits.
fn measure(shapes: &Shapes, shape: ShapeId, bytes: &[u8]) -> Measure {
    let most = Most { items: usize::MAX, decoded_bytes: usize::MAX };
    super::measure(shapes, shape, bytes, most)
}

fn shapes() -> (Shapes, ShapeId) {
    let shapes = Shapes::new();
    let nodes = shapes.method("/si.v1.Scheduler/UpdateNode").unwrap().request;
    (shapes, nodes)
}

fn node(id: &str, n_allocations: usize) -> si::NodeInfo {
    let quantity = si::Quantity { value: 1 << 40 };
    let resources = [("memory".to_owned(), quantity), ("vcore".to_owned(), quantity)];
    let resource = si::Resource { resources: resources.into() };
    si::NodeInfo {
        node_id: id.to_owned(),
        attributes: [("si/node-partition".to_owned(), "default".to_owned())].into(),
        schedulable_resource: Some(resource.clone()),
        occupied_resource: Some(resource),
        existing_allocations: vec![si::Allocation::default(); n_allocations],
        ..Default::default()
    }
}

#[test]
fn items_are_counted_at_every_depth() {
    let (shapes, of) = shapes();
    let request = si::NodeRequest {
        nodes: vec![node("a", 3), node("b", 0)],
        rm_id: "rm".to_owned(),
        ..Default::default()
    };
    let bytes = request.encode_to_vec();
    let measure = measure(&shapes, of, &bytes);
    assert_eq!((measure.items, measure.is_broken), (5, false));
    let shape = shapes.shape(of);
    assert_eq!(text(shape, &bytes, shape.rm_id.unwrap()), Some("rm"));
}

#[test]
fn measured_size_is_the_decoded_size() {
    let (shapes, of) = shapes();
    let empty =
        si::NodeRequest { nodes: vec![si::NodeInfo::default(); 1_000], ..Default::default() };
    let bytes = empty.encode_to_vec();
    let measured = measure(&shapes, of, &bytes);
    assert_eq!((bytes.len(), measured.items), (2_000, 1_000));
    let held = empty.nodes.capacity() * size_of::<si::NodeInfo>();
    assert!(measured.decoded_bytes >= held, "{} for {held}", measured.decoded_bytes);
}

#[test]
fn measuring_stops_at_the_limit() {
    let (shapes, of) = shapes();
    let bytes = b"\x0a\x00".repeat(1_000);
    let most = Most { items: 10, decoded_bytes: usize::MAX };
    assert_eq!(super::measure(&shapes, of, &bytes, most).items, 11);
    let most = Most { items: usize::MAX, decoded_bytes: 10_000 };
    let measured = super::measure(&shapes, of, &bytes, most);
    assert!(measured.items < 100 && measured.decoded_bytes > 10_000);
}

#[test]
fn stock_node_measures_some_kilobytes() {
    let (shapes, of) = shapes();
    let nodes = vec![node("a-node-with-a-usual-name.example", 0); 1_000];
    let bytes = si::NodeRequest { nodes, ..Default::default() }.encode_to_vec();
    let each = measure(&shapes, of, &bytes).decoded_bytes / 1_000;
    assert!((500..4_000).contains(&each), "{each}");
}

#[test]
fn groups_are_skipped_and_nesting_is_bounded() {
    let (shapes, of) = shapes();
    // Group 20 containing a group 21, then the name of the resource manager.
    let bytes = b"\xa3\x01\xab\x01\x08\x05\xac\x01\xa4\x01\x12\x02rm";
    assert_eq!(measure(&shapes, of, bytes).items, 0);
    assert_eq!(text(shapes.shape(of), bytes, 2), Some("rm"));
    assert!(measure(&shapes, of, &b"\xa3\x01".repeat(1_000)).is_broken);
}

/// A map entry of the node's attributes has the wire type of an eight-byte number. The decoder
/// reads it all the same as an entry of ten bytes, and behind it the allocations. If measuring took
/// the eight bytes for a number, it would find a text behind them that is as long as all
/// allocations.
#[test]
fn map_entry_with_wrong_wire_type_is_measured() {
    let (shapes, of) = shapes();
    let n_allocations = 1_000;
    let length = 2 * n_allocations;
    // The entry is an unknown field whose last bytes begin a text (field 1).
    let mut entry = vec![0x1a, 8, 0, 0, 0, 0, 0, 0x0a];
    prost::encoding::encode_varint(length as u64, &mut entry);
    assert_eq!(entry.len(), 10);
    let mut node = vec![0x19, 10];
    node.extend(entry);
    node.extend(b"\x32\x00".repeat(n_allocations));
    let mut bytes = vec![0x0a];
    prost::encoding::encode_varint(node.len() as u64, &mut bytes);
    bytes.extend(node);
    let request = si::NodeRequest::decode(&*bytes).unwrap();
    assert_eq!(request.nodes[0].existing_allocations.len(), n_allocations);
    let measured = measure(&shapes, of, &bytes);
    assert_eq!((measured.items, measured.is_broken), (1 + n_allocations, false));
}

#[test]
fn recursive_messages_are_counted() {
    let shapes = Shapes::new();
    let of = shapes.method("/si.v1.Scheduler/Update").unwrap().request;
    let n_levels = 90;
    let mut expression = legacy::AffinityTargetExpression::default();
    for _ in 0..n_levels {
        let within = Some(Box::new(expression));
        expression =
            legacy::AffinityTargetExpression { target_operator: within, ..Default::default() };
    }
    let expressions = legacy::NodeAffinityConstraints { target_expressions: vec![expression] };
    let simple = legacy::SimplePlacementConstraint {
        node_affinity_constraint: Some(expressions),
        ..Default::default()
    };
    let constraint = legacy::placement_constraint::Constraint::SimpleConstraint(simple);
    let constraint = legacy::PlacementConstraint { constraint: Some(constraint) };
    let ask =
        legacy::AllocationAsk { placement_constraint: Some(constraint), ..Default::default() };
    let request = legacy::UpdateRequest { asks: vec![ask], ..Default::default() };
    let measured = measure(&shapes, of, &request.encode_to_vec());
    let held = n_levels * size_of::<legacy::AffinityTargetExpression>();
    assert!(!measured.is_broken);
    assert!(measured.decoded_bytes >= held, "{} for {held}", measured.decoded_bytes);
}

#[test]
fn nesting_limit_equals_the_decoders() {
    let shapes = Shapes::new();
    let of = shapes.method("/si.v1.Scheduler/Update").unwrap().request;
    // Field numbers from outside to inside: ask, constraint, simple constraint, node constraint,
    // expression. On deeper levels, field 1.
    let path = [1, 9, 1, 1, 2];
    let nested = |n_levels: usize| {
        let mut bytes = Vec::new();
        for level in (0..n_levels).rev() {
            let number = path.get(level).copied().unwrap_or(1);
            let mut above = Vec::new();
            prost::encoding::bytes::encode(number, &bytes, &mut above);
            bytes = above;
        }
        bytes
    };
    let reads = |bytes: &[u8]| legacy::UpdateRequest::decode(bytes).is_ok();
    assert_eq!((reads(&nested(100)), reads(&nested(101))), (true, false));
    assert!(!measure(&shapes, of, &nested(100)).is_broken);
    assert!(measure(&shapes, of, &nested(101)).is_broken);
}

/// Generates unusual encodings from random choices: map entries with any wire type, groups,
/// unknown fields, lists of numbers in both forms, overlong numbers, messages in parts, and
/// sometimes a wrong length.
struct Liberties<'c> {
    shapes: &'c Shapes,
    choices: std::slice::Iter<'c, u8>,
}

impl Liberties<'_> {
    fn choose(&mut self, sides: u8) -> u8 {
        self.choices.next().map_or(0, |choice| choice % sides)
    }

    fn number(&mut self, value: u64, bytes: &mut Vec<u8>) {
        let at = bytes.len();
        prost::encoding::encode_varint(value, bytes);
        if self.choose(8) == 7 && bytes.len() - at < 9 {
            *bytes.last_mut().unwrap() |= 0x80;
            bytes.push(0);
        }
    }

    fn delimited(&mut self, value: &[u8], bytes: &mut Vec<u8>) {
        let length = match self.choose(64) {
            63 => value.len() + 1,
            62 => value.len().saturating_sub(1),
            _ => value.len(),
        };
        self.number(length as u64, bytes);
        bytes.extend(value);
    }

    fn plain(&mut self, number: u32, bytes: &mut Vec<u8>) {
        let (wire_type, length) = [(0, 0), (1, 8), (5, 4)][usize::from(self.choose(3))];
        self.number(u64::from(number << 3 | wire_type), bytes);
        match length {
            0 => self.number(300, bytes),
            // Outside of a group, these bytes would be a list of nodes.
            length => bytes.extend(b"\x0a\x00".repeat(length / 2)),
        }
    }

    fn message(&mut self, shape: ShapeId, depth: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..self.choose(6) {
            let number = u32::from(1 + self.choose(12));
            match self.shapes.shape(shape).field(number).map(|field| field.kind) {
                Some(FieldKind::Message(id)) if depth > 0 => {
                    let value = self.message(id, depth - 1);
                    self.number(u64::from(number << 3 | 2), &mut bytes);
                    self.delimited(&value, &mut bytes);
                }
                Some(FieldKind::Entry(id)) if depth > 0 => {
                    let value = self.message(id, depth - 1);
                    let wire_type = self.choose(6);
                    self.number(u64::from(number << 3) | u64::from(wire_type), &mut bytes);
                    self.delimited(&value, &mut bytes);
                }
                Some(FieldKind::Text) => {
                    self.number(u64::from(number << 3 | 2), &mut bytes);
                    self.delimited(b"rm", &mut bytes);
                }
                Some(FieldKind::Number) if self.choose(16) == 15 => {
                    self.number(u64::from(number << 3 | 2), &mut bytes);
                    self.delimited(b"\x01\x02", &mut bytes);
                }
                Some(FieldKind::Number) => {
                    self.number(u64::from(number << 3), &mut bytes);
                    self.number(1, &mut bytes);
                }
                Some(_) => {}
                None if self.choose(2) == 0 => self.plain(number, &mut bytes),
                None => {
                    self.number(u64::from(number << 3 | 3), &mut bytes);
                    // Inside a group no field is known, not even a map.
                    self.plain(1 + number % 3, &mut bytes);
                    self.number(u64::from(number << 3 | 4), &mut bytes);
                }
            }
        }
        bytes
    }
}

fn is_measured_as_it_is_decoded(
    of: ShapeId,
    shapes: &Shapes,
    bytes: &[u8],
) -> Result<bool, TestCaseError> {
    let measured = measure(shapes, of, bytes);
    let Ok(request) = si::NodeRequest::decode(bytes) else { return Ok(false) };
    let lists = request.nodes.iter().map(|node| 1 + node.existing_allocations.len());
    prop_assert!(!measured.is_broken);
    prop_assert!(measured.items >= lists.sum());
    let shape = shapes.shape(of);
    let rm_id = text(shape, bytes, shape.rm_id.unwrap());
    prop_assert_eq!(rm_id.unwrap_or_default(), request.rm_id);
    Ok(true)
}

#[test]
fn liberties_are_sometimes_valid() {
    let (shapes, of) = shapes();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut n_read = 0;
    for _ in 0..1_000 {
        let choices = prop::collection::vec(any::<u8>(), 200);
        let choices = choices.new_tree(&mut runner).unwrap().current();
        let bytes = Liberties { shapes: &shapes, choices: choices.iter() }.message(of, 5);
        n_read += usize::from(is_measured_as_it_is_decoded(of, &shapes, &bytes).unwrap());
    }
    assert!(n_read > 300, "{n_read}");
}

proptest! {
    #[test]
    fn random_bytes_are_measured_as_decoded(bytes: Vec<u8>) {
        let (shapes, of) = shapes();
        is_measured_as_it_is_decoded(of, &shapes, &bytes)?;
    }

    #[test]
    fn liberties_are_measured_as_decoded(choices: Vec<u8>) {
        let (shapes, of) = shapes();
        let bytes = Liberties { shapes: &shapes, choices: choices.iter() }.message(of, 5);
        is_measured_as_it_is_decoded(of, &shapes, &bytes)?;
    }

    #[test]
    fn truncated_message_is_broken_or_shorter(cut in 0_usize..200) {
        let (shapes, of) = shapes();
        let nodes = vec![node("n", 2); 2];
        let bytes = si::NodeRequest { nodes, ..Default::default() }.encode_to_vec();
        let whole = measure(&shapes, of, &bytes);
        let cut = measure(&shapes, of, &bytes[..cut.min(bytes.len())]);
        prop_assert!(cut.decoded_bytes <= whole.decoded_bytes && cut.items <= whole.items);
    }
}
