//! Measuring of network messages, for fuzz targets: `docs/fuzzing.md`.

use std::fmt;

use super::Common;
use super::measure::{measure, text};
use crate::settings::{Flags, Settings};

/// Measures messages under the default limits.
pub struct Measuring(Common);

/// The size of a message, read off its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Messages in lists at every depth.
    pub items: usize,
    /// Approximate size once decoded.
    pub decoded_bytes: usize,
    /// Whether the message cannot be parsed, or exceeds the limits.
    pub is_broken: bool,
    /// Whether the message may be decoded.
    pub may_be_decoded: bool,
}

impl Measuring {
    /// # Panics
    /// If the default settings cannot be loaded.
    #[expect(clippy::new_without_default, reason = "it reads the settings")]
    pub fn new() -> Self {
        let settings = Settings::load(None, &Flags::default()).expect("the defaults");
        Self(Common::new(&settings.grpc, &settings.limits))
    }

    /// Measures a message to the method with this path.
    ///
    /// # Panics
    /// If there is no such method.
    pub fn measure(&self, path: &str, bytes: &[u8]) -> Measured {
        let Common { shapes, .. } = &self.0;
        let method = shapes.method(path).expect("a method");
        let most = self.0.most(method);
        let measure = measure(shapes, method.request, bytes, most);
        Measured {
            items: measure.items,
            decoded_bytes: measure.decoded_bytes,
            is_broken: measure.is_broken,
            may_be_decoded: !measure.exceeds(most),
        }
    }

    /// The resource manager named by a message, read without decoding it.
    ///
    /// # Panics
    /// If there is no such method.
    pub fn rm_id<'b>(&self, path: &str, bytes: &'b [u8]) -> &'b str {
        let Common { shapes, .. } = &self.0;
        let method = shapes.method(path).expect("a method");
        let shape = shapes.shape(method.request);
        shape.rm_id.and_then(|field| text(shape, bytes, field)).unwrap_or_default()
    }
}

impl fmt::Debug for Measuring {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Measuring").finish_non_exhaustive()
    }
}
