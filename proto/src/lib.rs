//! The messages of the Scheduler Interface and of the service's own calls, generated from
//! `proto/monoceros/**/*.proto`.
//!
//! No transport and no logic: an embedder of the scheduler needs these types and neither gRPC nor
//! HTTP. One set of messages serves every revision of the interface that speaks three streams; the
//! `.proto` files say what an absent field means.
//!
//! # Packages and modules
//! This crate is the protobuf package `monoceros`, and its modules nest exactly like the packages
//! below, because generated code of one package refers to another by that path. No package is called
//! `si.v1`: that is the name of the published interface, and whoever has its stubs in one program
//! with ours must not find a message twice. The bytes are the same, and so is the service
//! (`docs/grpc.md`, "Paths and packages").
//!
//! Maps are `BTreeMap`s, so that equal messages encode to equal bytes.
//!
//! # Making messages
//! What a resource manager says has constructors:
//!
//! ```
//! use monoceros_proto::si::v1 as si;
//!
//! let machine = si::Resource::default().cores(4).gibibytes(16).with("nvidia.com/gpu", 1);
//! let nodes = si::NodeRequest::report("rm", [si::NodeInfo::new("n1", machine)]);
//! let application = si::AddApplicationRequest::new("app", "ada").in_queue("root.lab");
//! let ask = si::Allocation::ask("app", "task", [("vcore", 500)]).with_priority(10);
//! assert_eq!(ask.resource_per_alloc.unwrap().resources["vcore"].value, 500);
//! # let _ = (nodes, application);
//! ```

mod messages;

/// The packages below `monoceros.si`.
pub mod si {
    /// Package `monoceros.si.v1`: the Scheduler Interface.
    #[allow(
        missing_docs,
        clippy::pedantic,
        reason = "generated; fields whose name says it all carry no comment in the .proto file"
    )]
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/monoceros.si.v1.rs"));
    }

    /// The packages below `monoceros.si.legacy`.
    pub mod legacy {
        /// Package `monoceros.si.legacy.v0`: what only the oldest revision of the interface has.
        #[allow(
            missing_docs,
            clippy::pedantic,
            reason = "generated; fields whose name says it all carry no comment in the .proto file"
        )]
        pub mod v0 {
            include!(concat!(env!("OUT_DIR"), "/monoceros.si.legacy.v0.rs"));
        }
    }
}

/// Package `monoceros.v1`: what operators ask, and the questions to an RM that is only a gRPC client.
#[allow(
    missing_docs,
    clippy::pedantic,
    reason = "generated; fields whose name says it all carry no comment in the .proto file"
)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/monoceros.v1.rs"));
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::si::v1::*;

    #[test]
    fn fields_that_only_some_revisions_know_keep_their_numbers() {
        let allocation = Allocation {
            uuid: "u".into(),
            priority: -7,
            allocation_id: "i".into(),
            originator: true,
            ..Allocation::default()
        };
        let expected = [
            &[0x1a, 1, b'u'][..],
            &[0x30, 0xf9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            &[0x6a, 1, b'i'],
            &[0x70, 1],
        ]
        .concat();
        assert_eq!(allocation.encode_to_vec(), expected);
    }

    #[test]
    fn private_fields_have_number_1000() {
        let response = NodeResponse { seq: 5, ..NodeResponse::default() };
        assert_eq!(response.encode_to_vec(), [0xc0, 0x3e, 5]);
        let request = AllocationRequest { ack_seq: 5, ..AllocationRequest::default() };
        assert_eq!(request.encode_to_vec(), [0xc0, 0x3e, 5]);
        let group = TaskGroup { name: "g".into(), min_members: 2, ..TaskGroup::default() };
        let request = AddApplicationRequest { task_groups: vec![group], ..Default::default() };
        assert_eq!(request.encode_to_vec(), [0xc2, 0x3e, 5, 0x0a, 1, b'g', 0x10, 2]);
    }

    #[test]
    fn a_reader_of_another_revision_skips_what_it_does_not_know() {
        let newest = AllocationResponse {
            rejected_allocations: vec![RejectedAllocation::default()],
            seq: 1,
            ..AllocationResponse::default()
        };
        let read = NodeRequest::decode(&*newest.encode_to_vec()).expect("unknown fields only");
        assert_eq!(read.nodes, []);
    }

    #[test]
    fn equal_maps_have_equal_bytes_whatever_the_order_of_insertion() {
        let pair = |name: &str| (name.to_owned(), Quantity { value: 1 });
        let one = Resource { resources: [pair("a"), pair("b")].into() };
        let other = Resource { resources: [pair("b"), pair("a")].into() };
        assert_eq!(one.encode_to_vec(), other.encode_to_vec());
    }

    #[test]
    fn termination_types_and_node_actions_have_the_numbers_of_the_interface() {
        assert_eq!(TerminationType::StoppedByRm as i32, 1);
        assert_eq!(TerminationType::PlaceholderReplaced as i32, 4);
        assert_eq!(TerminationType::SchedulingFailedOnRm as i32, 5);
        assert_eq!(node_info::ActionFromRm::Create as i32, 1);
        assert_eq!(node_info::ActionFromRm::CreateDrain as i32, 6);
        assert_eq!(event_record::Type::Usergroup as i32, 5);
    }
}
