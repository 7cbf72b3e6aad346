//! The size of a message, read off its bytes: list elements at every depth, and approximate memory
//! once decoded.
//!
//! # Why
//! An empty message in a list takes two bytes on the wire and some hundred in memory, and
//! sixty-four megabytes of them compress to sixty-five kilobytes. To decode first and count
//! afterwards would be too late.
//!
//! # Invariants
//! * Measuring allocates nothing and reads each byte at most once per level.
//! * It stops as soon as a message is known to be too large, so oversized messages cost no more
//!   than others.
//! * It stops at malformed bytes, and nothing of such a message may be decoded: if an inner message
//!   is longer than the outer one, the decoder may read more than was measured.
//! * Any message that the decoder accepts is not broken.
//! * It reads the same fields from the same bytes as the decoder, including the decoder's
//!   liberties: the decoder accepts a map entry with any wire type. Otherwise a message could be
//!   made in which the decoder finds lists where measuring sees a text.

use super::shapes::{FieldKind, LIST_BYTES, NUMBER_BYTES, Shape, ShapeId, Shapes};

/// The deepest nesting of messages or groups that the decoder accepts.
const DEPTH: usize = 100;

/// Growth of a list by doubling may reserve up to twice the room needed.
const SLACK: usize = 2;

/// The smallest heap allocation.
const ALLOCATION_BYTES: usize = 16;

/// The size of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Measure {
    /// Messages in lists at every depth, without map entries.
    pub(super) items: usize,
    /// Approximate size once decoded.
    pub(super) decoded_bytes: usize,
    /// Whether the message cannot be parsed, or exceeds the limits.
    pub(super) is_broken: bool,
}

/// The limits of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Most {
    /// See [`Measure::items`].
    pub(super) items: usize,
    /// See [`Measure::decoded_bytes`].
    pub(super) decoded_bytes: usize,
}

/// The bytes still to be read.
struct Reading<'b>(&'b [u8]);

/// The bytes are malformed, or the message exceeds the limits.
struct Broken;

/// A field value.
enum Value<'b> {
    /// A number.
    Number,
    /// Length-delimited bytes.
    Bytes(&'b [u8]),
    /// The end of a group.
    GroupEnd,
}

/// Measures a message of type `shape`; stops once it exceeds `most`.
pub(super) fn measure(shapes: &Shapes, shape: ShapeId, bytes: &[u8], most: Most) -> Measure {
    let own_bytes = shapes.shape(shape).own_bytes;
    let mut measure = Measure { decoded_bytes: own_bytes, ..Measure::default() };
    // Plus one, since the outermost message is not nested.
    measure.is_broken = within(shapes, shape, bytes, (DEPTH + 1, most), &mut measure).is_err();
    measure
}

/// A text field of the outermost message; the last occurrence counts, as for the decoder.
pub(super) fn text<'b>(shape: &Shape, bytes: &'b [u8], number: u32) -> Option<&'b str> {
    let (mut reading, mut found) = (Reading(bytes), None);
    while let Ok(Some((tag, value))) = reading.field(shape) {
        if let Value::Bytes(bytes) = value
            && tag == number
        {
            found = std::str::from_utf8(bytes).ok();
        }
    }
    found
}

fn within(
    shapes: &Shapes,
    shape: ShapeId,
    bytes: &[u8],
    (depth, most): (usize, Most),
    measure: &mut Measure,
) -> Result<(), Broken> {
    let depth = depth.checked_sub(1).ok_or(Broken)?;
    let shape = shapes.shape(shape);
    let mut reading = Reading(bytes);
    while let Some((number, value)) = reading.field(shape)? {
        let Some(field) = shape.field(number) else { continue };
        let bytes = match value {
            Value::Bytes(bytes) => bytes,
            Value::Number if field.is_list => {
                measure.add(SLACK * NUMBER_BYTES);
                continue;
            }
            Value::Number => continue,
            Value::GroupEnd => return Err(Broken),
        };
        match field.kind {
            // Packed numbers: each takes at least one byte.
            FieldKind::Number => measure.add(SLACK * NUMBER_BYTES * bytes.len()),
            FieldKind::Text => {
                let list = if field.is_list { SLACK * LIST_BYTES } else { 0 };
                let own = bytes.len().next_multiple_of(ALLOCATION_BYTES);
                measure.add(list + own);
            }
            FieldKind::Message(id) => {
                let own = shapes.shape(id).own_bytes;
                if field.is_list {
                    measure.items += 1;
                    measure.add(SLACK * own);
                } else if field.is_boxed {
                    measure.add(own.next_multiple_of(ALLOCATION_BYTES));
                }
                within(shapes, id, bytes, (depth, most), measure)?;
            }
            FieldKind::Entry(id) => {
                measure.add(SLACK * shapes.shape(id).own_bytes);
                within(shapes, id, bytes, (depth, most), measure)?;
            }
        }
        if measure.exceeds(most) {
            return Err(Broken);
        }
    }
    Ok(())
}

impl Measure {
    /// Whether the message exceeds the limits.
    pub(super) fn exceeds(&self, most: Most) -> bool {
        self.items > most.items || self.decoded_bytes > most.decoded_bytes
    }

    fn add(&mut self, bytes: usize) {
        self.decoded_bytes = self.decoded_bytes.saturating_add(bytes);
    }
}

impl<'b> Reading<'b> {
    /// Reads the next field and skips groups. `None` at the end.
    fn field(&mut self, shape: &Shape) -> Result<Option<(u32, Value<'b>)>, Broken> {
        loop {
            if self.0.is_empty() {
                return Ok(None);
            }
            let (number, value) = self.value(|number| shape.is_map(number))?;
            match value {
                Some(value) => return Ok(Some((number, value))),
                None => self.pass_group()?,
            }
        }
    }

    /// Reads one field. The value is `None` where a group begins.
    fn value(&mut self, is_map: impl Fn(u32) -> bool) -> Result<(u32, Option<Value<'b>>), Broken> {
        let key = u32::try_from(self.varint()?).map_err(|_| Broken)?;
        let number = key >> 3;
        if number == 0 {
            return Err(Broken);
        }
        let value = match key & 7 {
            2 => self.delimited(),
            0..=5 if is_map(number) => self.delimited(),
            0 => self.varint().map(|_| Some(Value::Number)),
            1 => self.take(8).map(|_| Some(Value::Number)),
            3 => Ok(None),
            4 => Ok(Some(Value::GroupEnd)),
            5 => self.take(4).map(|_| Some(Value::Number)),
            _ => Err(Broken),
        };
        Ok((number, value?))
    }

    /// Reads a length and that many bytes.
    fn delimited(&mut self) -> Result<Option<Value<'b>>, Broken> {
        let length = usize::try_from(self.varint()?).map_err(|_| Broken)?;
        self.take(length).map(|bytes| Some(Value::Bytes(bytes)))
    }

    /// Skips the rest of a group, including nested groups.
    fn pass_group(&mut self) -> Result<(), Broken> {
        let mut open = 1_usize;
        while open > 0 {
            match self.value(|_| false)?.1 {
                None if open == DEPTH => return Err(Broken),
                None => open += 1,
                Some(Value::GroupEnd) => open -= 1,
                Some(Value::Number | Value::Bytes(_)) => {}
            }
        }
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, Broken> {
        let mut value = 0_u64;
        for (at, byte) in self.0.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                self.0 = &self.0[at + 1..];
                return Ok(value);
            }
        }
        Err(Broken)
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8], Broken> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Broken)?;
        self.0 = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests;
