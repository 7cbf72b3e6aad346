//! Target for the bytes of a message from the network: measured, decoded if measuring allows it,
//! and translated.
//!
//! # Properties for every input
//! * Nothing panics.
//! * Measuring counts at least the items that decoding makes. A message that decodes was not
//!   measured as broken, and names the same resource manager before and after.
//! * A decoded message takes no more memory than measured, except for a constant factor.
//! * Each item has one outcome: it is passed to its partition, rejected by its name with a reason,
//!   or ignored and counted.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use monoceros::extra_config::ExtraConfig;
use monoceros::grpc::attach::CallbackOptions;
use monoceros::grpc::fuzzing::Measuring;
use monoceros::grpc::kind::StreamKind as _;
use monoceros::grpc::legacy::Legacy;
use monoceros::grpc::legacy::echo::Echoes;
use monoceros::grpc::legacy::memory::MemoryUnit;
use monoceros::grpc::legacy::options::LegacyOptions;
use monoceros::grpc::legacy::request::operations;
use monoceros::settings::{Flags, Settings};
use monoceros_actors::fuzzing::Translation;
use monoceros_actors::{Ignored, check_rm_id};
use monoceros_proto::si::legacy::v0 as legacy;
use monoceros_proto::si::v1 as si;
use monoceros_proto::v1;
use prost::Message;

use super::items::{Lists, PARTITIONS, RM, of_allocations, of_applications, of_nodes};
use super::{Kind, configuration};

static MEASURING: LazyLock<Measuring> = LazyLock::new(Measuring::new);

static SETTINGS: LazyLock<Settings> =
    LazyLock::new(|| Settings::load(None, &Flags::default()).expect("the defaults"));

/// How much more memory than measured a message may take. Measuring counts the requested sizes,
/// while lists and maps start with capacity for several elements.
const FACTOR: usize = 4;

/// Feeds one message; the first byte chooses its kind. `in_use` returns the number of allocated
/// bytes, or a constant if that is unknown.
pub fn message(data: &[u8], in_use: fn() -> usize) {
    let Some((kind, data)) = Kind::first(data) else { return };
    let mut session = Session::new(false);
    match kind {
        Kind::Allocation => {
            let path = "/si.v1.Scheduler/UpdateAllocation";
            if let Some(request) = decoded::<si::AllocationRequest>(path, data, in_use) {
                translated(&mut session, request);
            }
        }
        Kind::Application => {
            let path = "/si.v1.Scheduler/UpdateApplication";
            if let Some(request) = decoded::<si::ApplicationRequest>(path, data, in_use) {
                translated(&mut session, request);
            }
        }
        Kind::Node => {
            let path = "/si.v1.Scheduler/UpdateNode";
            if let Some(request) = decoded::<si::NodeRequest>(path, data, in_use) {
                translated(&mut session, request);
            }
        }
        Kind::Update => {
            let path = "/si.v1.Scheduler/Update";
            if let Some(request) = decoded::<legacy::UpdateRequest>(path, data, in_use) {
                of_the_oldest_dialect(&mut session, request);
            }
        }
        Kind::Register => {
            let path = "/si.v1.Scheduler/RegisterResourceManager";
            if let Some(request) = decoded(path, data, in_use) {
                registered(request);
            }
        }
        Kind::Callback | Kind::Greeting => {
            decoded::<v1::ShimMessage>("/monoceros.v1.CallbackService/Attach", data, in_use);
        }
        Kind::Admin => {
            let path = "/monoceros.v1.MetricsService/ReportUtilization";
            decoded::<v1::UtilizationReports>(path, data, in_use);
            let path = "/monoceros.v1.AdminService/UpdateConfig";
            decoded::<si::UpdateConfigurationRequest>(path, data, in_use);
        }
    }
}

/// The part of a session that translation needs.
pub(crate) struct Session {
    translation: Translation,
    options: LegacyOptions,
    echoes: Echoes,
}

impl Session {
    pub(crate) fn new(is_strict: bool) -> Self {
        let mut translation = Translation::new(RM, &PARTITIONS);
        if is_strict {
            translation.be_strict();
        }
        let options = LegacyOptions {
            memory: MemoryUnit::Megabyte,
            priority_classes: [("high".to_owned(), 100)].into(),
            strict_enums: is_strict,
            ..LegacyOptions::default()
        };
        Self { translation, options, echoes: Echoes::default() }
    }
}

/// Decodes the message, if measuring allows it.
fn decoded<M: Message + Default + Lists>(
    path: &str,
    data: &[u8],
    in_use: fn() -> usize,
) -> Option<M> {
    let measured = MEASURING.measure(path, data);
    if !measured.may_be_decoded {
        return None;
    }
    let before = in_use();
    let decoded = M::decode(data);
    let taken = in_use().saturating_sub(before);
    let most = FACTOR * measured.decoded_bytes + 1_024;
    assert!(taken <= most, "{path}: {taken} bytes are taken for {measured:?}");
    let message = decoded.ok()?;
    let n_items = message.n_items();
    assert!(!measured.is_broken, "{path}: measuring does not read what decoding does");
    assert!(measured.items >= n_items, "{path}: {} for {n_items}", measured.items);
    assert_eq!(MEASURING.rm_id(path, data), message.rm_id(), "{path}");
    let plain = message.encode_to_vec();
    let of_plain = MEASURING.measure(path, &plain);
    // Fields that are repeated on the wire may be larger once they are merged.
    if of_plain.may_be_decoded {
        assert_eq!(of_plain.items, n_items, "{path}");
    }
    Some(message)
}

/// A request of the present streams.
pub(crate) trait Translated: Message {
    /// Translates it, and checks the outcome of each item.
    fn translate(self, translation: &mut Translation, is_strict: bool);
}

impl Translated for si::AllocationRequest {
    fn translate(self, translation: &mut Translation, is_strict: bool) {
        let (named, bytes) = (of_allocations(&self), self.encoded_len());
        named.check(translation.allocations(self), is_strict, bytes);
    }
}

impl Translated for si::ApplicationRequest {
    fn translate(self, translation: &mut Translation, is_strict: bool) {
        let (named, bytes) = (of_applications(&self), self.encoded_len());
        named.check(translation.applications(self), is_strict, bytes);
    }
}

impl Translated for si::NodeRequest {
    fn translate(self, translation: &mut Translation, is_strict: bool) {
        let (named, bytes) = (of_nodes(&self), self.encoded_len());
        named.check(translation.nodes(self), is_strict, bytes);
    }
}

/// Translates a request of the present streams.
pub(crate) fn translated<M: Translated>(session: &mut Session, request: M) {
    let Session { translation, options, .. } = session;
    request.translate(translation, options.strict_enums);
}

/// Splits a request of the oldest dialect, and translates the parts.
pub(crate) fn of_the_oldest_dialect(session: &mut Session, request: legacy::UpdateRequest) {
    let existing = request.new_schedulable_nodes.iter();
    let existing: usize = existing.map(|node| node.existing_allocations.len()).sum();
    let n_items = Legacy::items(&request) - existing;
    let parts = operations(request, &session.options, &mut session.echoes);
    let refused = &parts.refused;
    let reasons = refused.rejected_allocations.iter().map(|it| &it.reason);
    let reasons = reasons.chain(refused.rejected_applications.iter().map(|it| &it.reason));
    let reasons = reasons.chain(refused.rejected_nodes.iter().map(|it| &it.reason));
    let mut n_outcomes = parts.reports.len();
    for reason in reasons {
        assert!(reason.ends_with(']') && reason.contains(" ["), "{reason}");
        n_outcomes += 1;
    }
    // Some notes only report a lenient reading of an item, which is processed.
    let is_outcome = |reason: &&Ignored| match reason {
        Ignored::PriorityClass => false,
        Ignored::TerminationType => session.options.strict_enums,
        _ => true,
    };
    n_outcomes += parts.ignored.iter().filter(is_outcome).count();
    n_outcomes += of_applications(&parts.application).items.len();
    n_outcomes += of_allocations(&parts.allocation).items.len();
    n_outcomes += of_nodes(&parts.nodes).items.len();
    assert_eq!(n_outcomes, n_items);
    translated(session, parts.application);
    translated(session, parts.allocation);
    translated(session, parts.nodes);
}

/// Reads the contents of a registration.
fn registered(request: si::RegisterResourceManagerRequest) {
    if check_rm_id(&request.rm_id).is_err() {
        return;
    }
    if !request.config.is_empty() {
        configuration(request.config.as_bytes());
    }
    let entries: BTreeMap<String, String> = request.extra_config.into_iter().collect();
    let extra = &mut ExtraConfig::new(&request.rm_id, &entries);
    let _ = CallbackOptions::new(&SETTINGS).with(extra);
    let _ = LegacyOptions::new(&SETTINGS.session, extra);
    assert!(extra.n_unusable() <= entries.len());
}
