//! Messages of the Scheduler Interface in the JSON form that protobuf defines, which `grpcurl` and
//! the libraries of every language read.

use std::sync::LazyLock;

use prost::Message;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor};
use serde_json::Value;

use crate::grpc::stubs::DESCRIPTORS;

/// A message that a snapshot has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Node,
    Application,
    Allocation,
    AllocationAsk,
}

/// The descriptions of the messages.
struct Descriptors {
    node: MessageDescriptor,
    application: MessageDescriptor,
    allocation: MessageDescriptor,
    ask: MessageDescriptor,
}

static DESCRIBED: LazyLock<Descriptors> = LazyLock::new(|| {
    let pool = DescriptorPool::decode(DESCRIPTORS).expect("this build has the descriptors");
    let named = |name: &str| {
        let found = pool.get_message_by_name(&format!("monoceros.si.v1.{name}"));
        found.expect("this build has the messages")
    };
    Descriptors {
        node: named("NodeInfo"),
        application: named("AddApplicationRequest"),
        allocation: named("Allocation"),
        ask: named("AllocationAsk"),
    }
});

impl Kind {
    fn descriptor(self) -> MessageDescriptor {
        let described = match self {
            Self::Node => &DESCRIBED.node,
            Self::Application => &DESCRIBED.application,
            Self::Allocation => &DESCRIBED.allocation,
            Self::AllocationAsk => &DESCRIBED.ask,
        };
        described.clone()
    }

    /// The message in JSON.
    pub(super) fn written(self, message: &impl Message) -> Result<Value, String> {
        let mut dynamic = DynamicMessage::new(self.descriptor());
        dynamic.transcode_from(message).map_err(|error| error.to_string())?;
        serde_json::to_value(&dynamic).map_err(|error| error.to_string())
    }

    /// The message of this JSON. Fields that this program does not know are an error.
    pub(super) fn read<M: Message + Default>(self, value: Value) -> Result<M, String> {
        let options = DeserializeOptions::new().deny_unknown_fields(true);
        let read = DynamicMessage::deserialize_with_options(self.descriptor(), value, &options);
        let dynamic = read.map_err(|error| error.to_string())?;
        dynamic.transcode_to().map_err(|error| error.to_string())
    }
}
