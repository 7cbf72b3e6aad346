//! Probable mistakes in the units of a node.
//!
//! Every name is a resource type, so a node with another name for processor time is valid: it has a
//! type that no quota covers, beside `vcore` or without it. Its resource manager is warned, once
//! with each node.

use crate::values::resources::{Name, Resources};

/// The name of processor time in Kubernetes. Here it is a type like any other.
const CPU: &str = "cpu";

/// A probable mistake in the capacity of a node. `Display` writes the sentence for its resource
/// manager.
///
/// ```
/// use monoceros_rules::nodes::units::UnitWarning;
/// use monoceros_rules::values::resources::Resources;
///
/// let about = |all: &[(&str, i64)]| UnitWarning::about(&Resources::of(all));
/// assert_eq!(about(&[("cpu", 4), ("vcore", 4_000)]), Some(UnitWarning::Cpu));
/// assert_eq!(about(&[("vcore", 4_000)]), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitWarning {
    /// Processor time is named `cpu`.
    #[error(
        "`cpu` is a type of its own: processor time is `vcore`, in thousandths of a core, and \
         memory is `memory`, in bytes"
    )]
    Cpu,
}

impl UnitWarning {
    /// Returns the probable mistake in the capacity of a node.
    pub fn about(total: &Resources) -> Option<Self> {
        let cpu = Name::known(CPU)?;
        total.find(cpu).map(|_| Self::Cpu)
    }
}
