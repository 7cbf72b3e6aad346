//! The wire shape of each method's messages, from the descriptors written by the build: which
//! fields are lists, texts, maps or messages, and how much memory each takes once decoded.
//!
//! # Why from descriptors
//! A message is measured before it is decoded, for all types alike. A table of fields written by
//! hand would be wrong after the next change of the interface.

use std::collections::HashMap;

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FileDescriptorSet};

use super::super::stubs::DESCRIPTORS;

/// A text or list in a decoded message: pointer, length, capacity.
pub(super) const LIST_BYTES: usize = 24;
/// A number with padding.
pub(super) const NUMBER_BYTES: usize = 8;
/// An empty map.
const MAP_BYTES: usize = 48;

/// A message type, as an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShapeId(usize);

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldKind {
    /// A number, or a list of numbers.
    Number,
    /// A text, or bytes.
    Text,
    /// A message of this type.
    Message(ShapeId),
    /// Map entries: messages of this type with a key and a value.
    Entry(ShapeId),
}

/// One field of a message type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) kind: FieldKind,
    pub(super) is_list: bool,
    /// Whether the field is behind a pointer, because its type can contain the type it is in.
    pub(super) is_boxed: bool,
}

/// One message type.
#[derive(Debug, Default)]
pub(super) struct Shape {
    /// By field number.
    fields: Vec<Option<Field>>,
    /// Size of a value itself, without the memory its lists and texts point to.
    pub(super) own_bytes: usize,
    /// The field that names the resource manager, if there is one.
    pub(super) rm_id: Option<u32>,
    /// The same field, also where it is spelled `rm_id`.
    pub(super) rm: Option<u32>,
    /// The field that names the partition, if there is one.
    pub(super) partition: Option<u32>,
}

/// One method of a service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Method {
    /// The type of its requests.
    pub(super) request: ShapeId,
    /// Whether the client sends a stream of requests.
    pub(super) is_stream: bool,
    /// Whether the answer is one message.
    pub(super) is_answered_once: bool,
}

/// All message types, and all methods by path.
#[derive(Debug)]
pub(super) struct Shapes {
    shapes: Vec<Shape>,
    methods: HashMap<String, Method>,
}

impl Shape {
    pub(super) fn field(&self, number: u32) -> Option<Field> {
        *self.fields.get(usize::try_from(number).ok()?)?
    }

    /// Whether the field of this number is a map.
    pub(super) fn is_map(&self, number: u32) -> bool {
        self.field(number).is_some_and(|field| matches!(field.kind, FieldKind::Entry(_)))
    }
}

impl Shapes {
    /// Reads the shapes of the services of this edge, under all their names.
    pub(super) fn new() -> Self {
        let files = FileDescriptorSet::decode(DESCRIPTORS).expect("the build wrote descriptors");
        let mut found = Vec::new();
        for file in &files.file {
            let package = format!(".{}", file.package());
            for message in &file.message_type {
                gather(&package, message, &mut found);
            }
        }
        let named = found.iter().enumerate();
        let ids: HashMap<&str, ShapeId> =
            named.map(|(at, (name, _))| (name.as_str(), ShapeId(at))).collect();
        let mut shapes: Vec<Shape> =
            (0..found.len()).map(|at| shape(ShapeId(at), &ids, &found)).collect();
        for (at, shape) in shapes.iter_mut().enumerate() {
            shape.own_bytes = own_bytes(ShapeId(at), &found, &ids, &mut Vec::new());
        }
        let mut methods = HashMap::new();
        for file in &files.file {
            for service in &file.service {
                for method in &service.method {
                    let Some(&request) = ids.get(method.input_type()) else { continue };
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    let is_stream = method.client_streaming();
                    let is_answered_once = !method.server_streaming();
                    methods.insert(path, Method { request, is_stream, is_answered_once });
                }
            }
        }
        Self { shapes, methods }
    }

    /// The method of this path, if it is one of this edge.
    pub(super) fn method(&self, path: &str) -> Option<Method> {
        self.methods.get(path).copied()
    }

    /// A type.
    pub(super) fn shape(&self, id: ShapeId) -> &Shape {
        &self.shapes[id.0]
    }
}

/// Collects all message types below `scope` with their full names.
fn gather<'d>(
    scope: &str,
    message: &'d DescriptorProto,
    found: &mut Vec<(String, &'d DescriptorProto)>,
) {
    let name = format!("{scope}.{}", message.name());
    for nested in &message.nested_type {
        gather(&name, nested, found);
    }
    found.push((name, message));
}

fn is_entry(message: &DescriptorProto) -> bool {
    message.options.as_ref().is_some_and(prost_types::MessageOptions::map_entry)
}

fn shape(of: ShapeId, ids: &HashMap<&str, ShapeId>, found: &[(String, &DescriptorProto)]) -> Shape {
    let mut shape = Shape::default();
    for field in &found[of.0].1.field {
        let Ok(number) = usize::try_from(field.number()) else { continue };
        let kind = match field.r#type() {
            Type::String | Type::Bytes => FieldKind::Text,
            Type::Message | Type::Group => match ids.get(field.type_name()) {
                Some(&id) if is_entry(found[id.0].1) => FieldKind::Entry(id),
                Some(&id) => FieldKind::Message(id),
                // Defined in another file: only its length can be counted.
                None => FieldKind::Text,
            },
            _ => FieldKind::Number,
        };
        if shape.fields.len() <= number {
            shape.fields.resize(number + 1, None);
        }
        let is_list = field.label() == Label::Repeated;
        let is_boxed = !is_list
            && matches!(kind, FieldKind::Message(id) if leads_to(of, id, found, ids, &mut Vec::new()));
        shape.fields[number] = Some(Field { kind, is_list, is_boxed });
        let number = u32::try_from(number).ok();
        match field.name() {
            "rmID" if kind == FieldKind::Text => (shape.rm_id, shape.rm) = (number, number),
            "rm_id" if kind == FieldKind::Text => shape.rm = number,
            "partition_name" if kind == FieldKind::Text => shape.partition = number,
            _ => {}
        }
    }
    shape
}

/// Whether a value of type `id` can contain one of type `to` without a list in between.
fn leads_to(
    to: ShapeId,
    id: ShapeId,
    found: &[(String, &DescriptorProto)],
    ids: &HashMap<&str, ShapeId>,
    seen: &mut Vec<ShapeId>,
) -> bool {
    if id == to {
        return true;
    }
    if seen.contains(&id) {
        return false;
    }
    seen.push(id);
    let fields = found[id.0].1.field.iter().filter(|field| field.label() != Label::Repeated);
    let mut below = fields.filter_map(|field| ids.get(field.type_name()));
    below.any(|&below| leads_to(to, below, found, ids, seen))
}

/// The size of a value itself. A type that contains itself does so by a pointer.
fn own_bytes(
    id: ShapeId,
    found: &[(String, &DescriptorProto)],
    ids: &HashMap<&str, ShapeId>,
    above: &mut Vec<usize>,
) -> usize {
    if above.contains(&id.0) {
        return NUMBER_BYTES;
    }
    above.push(id.0);
    let fields = found[id.0].1.field.iter().map(|field| {
        let message = ids.get(field.type_name());
        if field.label() == Label::Repeated {
            let is_map = message.is_some_and(|id| is_entry(found[id.0].1));
            return if is_map { MAP_BYTES } else { LIST_BYTES };
        }
        match (field.r#type(), message) {
            (Type::Message | Type::Group, Some(&id)) => {
                NUMBER_BYTES + own_bytes(id, found, ids, above)
            }
            (Type::String | Type::Bytes, _) => LIST_BYTES,
            _ => NUMBER_BYTES,
        }
    });
    let bytes = fields.sum();
    above.pop();
    bytes
}

#[cfg(test)]
mod tests {
    use monoceros_proto::si::v1 as si;

    use super::*;

    #[test]
    fn methods_are_found_by_all_paths() {
        let shapes = Shapes::new();
        for path in ["/si.v1.Scheduler/UpdateNode", "/monoceros.si.v1.Scheduler/UpdateNode"] {
            let method = shapes.method(path).unwrap();
            assert!(method.is_stream, "{path}");
            assert!(shapes.shape(method.request).rm_id.is_some(), "{path}");
        }
        let registration = shapes.method("/si.v1.Scheduler/RegisterResourceManager").unwrap();
        assert!(!registration.is_stream);
        assert!(shapes.method("/grpc.health.v1.Health/Check").is_none());
    }

    #[test]
    fn own_bytes_match_the_compiled_size() {
        let shapes = Shapes::new();
        let nodes = shapes.method("/si.v1.Scheduler/UpdateNode").unwrap();
        let field = |shape: ShapeId, number| shapes.shape(shape).field(number).unwrap();
        let Field { kind: FieldKind::Message(node), is_list: true, .. } = field(nodes.request, 1)
        else {
            panic!("the first field are the nodes");
        };
        let (own, real) = (shapes.shape(node).own_bytes, size_of::<si::NodeInfo>());
        assert!(own >= real && own <= 2 * real, "{own} for {real}");
    }
}
