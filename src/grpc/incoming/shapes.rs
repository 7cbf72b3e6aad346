//! What the messages of each method look like on the wire, read off the descriptors that the build
//! wrote: which fields are lists, texts, maps or messages, and how much each takes once decoded.
//!
//! # Why from descriptors
//! A message has to be measured before anything of it is decoded, for all types alike. A list of
//! fields by hand would be wrong after the next change of the interface.

use std::collections::HashMap;

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FileDescriptorSet};

use super::super::stubs::DESCRIPTORS;

/// A text or a list in a decoded message: pointer, length, capacity.
const LIST_BYTES: usize = 24;
/// A number, with what pads it.
const NUMBER_BYTES: usize = 8;
/// A map that is empty.
const MAP_BYTES: usize = 48;

/// A message type, by its place among all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShapeId(usize);

/// What one field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldKind {
    /// A number, or a list of numbers.
    Number,
    /// A text, or bytes.
    Text,
    /// A message of a type.
    Message(ShapeId),
    /// Entries of a map: messages of a type with a key and a value.
    Entry(ShapeId),
}

/// One field of a message type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    /// What it holds.
    pub(super) kind: FieldKind,
    /// Whether it is a list.
    pub(super) is_list: bool,
    /// Whether it is behind a pointer, since its type may hold, by a field of that field and so on,
    /// the type that it is in.
    pub(super) is_boxed: bool,
}

/// One message type.
#[derive(Debug, Default)]
pub(super) struct Shape {
    /// By the number of the field.
    fields: Vec<Option<Field>>,
    /// What a value of it takes by itself, without what its lists and texts point to.
    pub(super) own_bytes: usize,
    /// The field that names the resource manager, if there is one.
    pub(super) rm_id: Option<u32>,
}

/// One method of a service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Method {
    /// The type of its requests.
    pub(super) request: ShapeId,
    /// Whether the client sends any number of them.
    pub(super) is_stream: bool,
}

/// All types, and all methods by their paths.
#[derive(Debug)]
pub(super) struct Shapes {
    shapes: Vec<Shape>,
    methods: HashMap<String, Method>,
}

impl Shape {
    /// The field of this number, if there is one.
    pub(super) fn field(&self, number: u32) -> Option<Field> {
        *self.fields.get(usize::try_from(number).ok()?)?
    }

    /// Whether the field of this number is a map.
    pub(super) fn is_map(&self, number: u32) -> bool {
        self.field(number).is_some_and(|field| matches!(field.kind, FieldKind::Entry(_)))
    }
}

impl Shapes {
    /// Those of the services that are served here, under all their names.
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
                    methods.insert(path, Method { request, is_stream });
                }
            }
        }
        Self { shapes, methods }
    }

    /// The method of this path, if it is one of ours.
    pub(super) fn method(&self, path: &str) -> Option<Method> {
        self.methods.get(path).copied()
    }

    /// A type.
    pub(super) fn shape(&self, id: ShapeId) -> &Shape {
        &self.shapes[id.0]
    }
}

/// All message types below `scope`, with their full names.
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
                // Not of these files: what it holds cannot be known, only how long it is.
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
        if field.name() == "rmID" && kind == FieldKind::Text {
            shape.rm_id = u32::try_from(number).ok();
        }
    }
    shape
}

/// Whether a value of type `id` can hold one of type `to` without a list between them.
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

/// What a value takes by itself. A type that holds itself is behind a pointer there.
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
    fn methods_are_known_by_all_their_paths() {
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
    fn a_type_takes_about_what_the_compiler_makes_of_it() {
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
