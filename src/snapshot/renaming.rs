//! A serializer in front of another one, which sees every text of a value: names are collected or
//! replaced, and tags that no decision reads are left out.
//!
//! # Why a serializer
//! In the state a text is where its type says, and names of fields and variants are no texts. A
//! written document does not distinguish them.

use std::cell::RefCell;

use monoceros_actors::image::KeptTags;
use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::Value;

use super::names::Names;

/// The field with tags, in whatever type it is.
const TAGS: &str = "tags";

/// The field with what somebody wrote about a limit: any name may be in it.
const DESCRIPTION: &str = "description";

/// What is done with texts.
pub(super) struct Context<'n> {
    pub(super) names: RefCell<&'n mut Names>,
    pub(super) kept: KeptTags,
}

/// A value that is serialized with other texts.
pub(super) struct Renamed<'c, 'n, T: ?Sized> {
    value: &'c T,
    context: &'c Context<'n>,
    are_tags: bool,
}

impl<'c, 'n, T: ?Sized> Renamed<'c, 'n, T> {
    pub(super) fn new(value: &'c T, context: &'c Context<'n>) -> Self {
        Self { value, context, are_tags: false }
    }
}

impl<T: Serialize + ?Sized> Serialize for Renamed<'_, '_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { context, are_tags, .. } = *self;
        self.value.serialize(Renaming { inner: serializer, context, are_tags })
    }
}

/// The serializer, or one of a compound value.
struct Renaming<'c, 'n, S> {
    inner: S,
    context: &'c Context<'n>,
    are_tags: bool,
}

impl<'c, 'n, S> Renaming<'c, 'n, S> {
    fn renamed<'v, T: ?Sized>(&self, value: &'v T) -> Renamed<'v, 'n, T>
    where
        'c: 'v,
    {
        Renamed { value, context: self.context, are_tags: self.are_tags }
    }

    /// Of a value in this one, which has other tags.
    fn below<'v, T: ?Sized>(&self, value: &'v T) -> Renamed<'v, 'n, T>
    where
        'c: 'v,
    {
        Renamed::new(value, self.context)
    }

    fn of<C>(context: &'c Context<'n>, inner: C) -> Renaming<'c, 'n, C> {
        Renaming { inner, context, are_tags: false }
    }
}

/// The methods that pass a value on as it is.
macro_rules! passed_on {
    ($($method:ident: $type:ty),* $(,)?) => {$(
        fn $method(self, value: $type) -> Result<S::Ok, S::Error> {
            self.inner.$method(value)
        }
    )*};
}

impl<'c, 'n, S: Serializer> Serializer for Renaming<'c, 'n, S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Renaming<'c, 'n, S::SerializeSeq>;
    type SerializeTuple = Renaming<'c, 'n, S::SerializeTuple>;
    type SerializeTupleStruct = Renaming<'c, 'n, S::SerializeTupleStruct>;
    type SerializeTupleVariant = Renaming<'c, 'n, S::SerializeTupleVariant>;
    type SerializeMap = RenamingMap<'c, 'n, S::SerializeMap>;
    type SerializeStruct = Renaming<'c, 'n, S::SerializeStruct>;
    type SerializeStructVariant = Renaming<'c, 'n, S::SerializeStructVariant>;

    passed_on! {
        serialize_bool: bool,
        serialize_i8: i8,
        serialize_i16: i16,
        serialize_i32: i32,
        serialize_i64: i64,
        serialize_i128: i128,
        serialize_u8: u8,
        serialize_u16: u16,
        serialize_u32: u32,
        serialize_u64: u64,
        serialize_u128: u128,
        serialize_f32: f32,
        serialize_f64: f64,
        serialize_char: char,
        serialize_bytes: &[u8],
    }

    fn serialize_str(self, text: &str) -> Result<S::Ok, S::Error> {
        let mut names = self.context.names.borrow_mut();
        if names.is_idle() {
            return self.inner.serialize_str(text);
        }
        let mut text = text.to_owned();
        names.data(&mut text);
        self.inner.serialize_str(&text)
    }

    fn serialize_none(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_none()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        let value = self.renamed(value);
        self.inner.serialize_some(&value)
    }

    fn serialize_unit(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit()
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit_struct(name)
    }

    fn serialize_unit_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
    ) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit_variant(name, index, variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let value = self.renamed(value);
        self.inner.serialize_newtype_struct(name, &value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let value = self.below(value);
        self.inner.serialize_newtype_variant(name, index, variant, &value)
    }

    fn serialize_seq(self, length: Option<usize>) -> Result<Self::SerializeSeq, S::Error> {
        Ok(Self::of(self.context, self.inner.serialize_seq(length)?))
    }

    fn serialize_tuple(self, length: usize) -> Result<Self::SerializeTuple, S::Error> {
        Ok(Self::of(self.context, self.inner.serialize_tuple(length)?))
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        length: usize,
    ) -> Result<Self::SerializeTupleStruct, S::Error> {
        Ok(Self::of(self.context, self.inner.serialize_tuple_struct(name, length)?))
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self::SerializeTupleVariant, S::Error> {
        let inner = self.inner.serialize_tuple_variant(name, index, variant, length)?;
        Ok(Self::of(self.context, inner))
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Self::SerializeMap, S::Error> {
        // Of tags some are left out, so that their number is not known.
        let length = length.filter(|_| !self.are_tags);
        let inner = self.inner.serialize_map(length)?;
        let all = Renaming { inner, context: self.context, are_tags: self.are_tags };
        Ok(RenamingMap { all, key: None })
    }

    fn serialize_struct(
        self,
        name: &'static str,
        length: usize,
    ) -> Result<Self::SerializeStruct, S::Error> {
        Ok(Self::of(self.context, self.inner.serialize_struct(name, length)?))
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        let inner = self.inner.serialize_struct_variant(name, index, variant, length)?;
        Ok(Self::of(self.context, inner))
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// The compound values whose parts have no names.
macro_rules! of_elements {
    ($($trait:ident: $method:ident),*) => {$(
        impl<C: $trait> $trait for Renaming<'_, '_, C> {
            type Ok = C::Ok;
            type Error = C::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), C::Error> {
                let value = Renamed::new(value, self.context);
                self.inner.$method(&value)
            }

            fn end(self) -> Result<C::Ok, C::Error> {
                self.inner.end()
            }
        }
    )*};
}

of_elements! {
    SerializeSeq: serialize_element,
    SerializeTuple: serialize_element,
    SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field
}

/// The compound values whose parts have names.
macro_rules! of_fields {
    ($($trait:ident),*) => {$(
        impl<C: $trait> $trait for Renaming<'_, '_, C> {
            type Ok = C::Ok;
            type Error = C::Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), C::Error> {
                if key == DESCRIPTION && !self.context.names.borrow().is_idle() {
                    return self.inner.serialize_field(key, "");
                }
                let are_tags = key == TAGS;
                let value = Renamed { value, context: self.context, are_tags };
                self.inner.serialize_field(key, &value)
            }

            fn skip_field(&mut self, key: &'static str) -> Result<(), C::Error> {
                self.inner.skip_field(key)
            }

            fn end(self) -> Result<C::Ok, C::Error> {
                self.inner.end()
            }
        }
    )*};
}

of_fields! { SerializeStruct, SerializeStructVariant }

/// A map. Its keys are texts like others; of tags, keys and values belong together.
struct RenamingMap<'c, 'n, C> {
    all: Renaming<'c, 'n, C>,
    /// The key of the next tag.
    key: Option<String>,
}

impl<C: SerializeMap> SerializeMap for RenamingMap<'_, '_, C> {
    type Ok = C::Ok;
    type Error = C::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), C::Error> {
        if !self.all.are_tags {
            let key = Renamed::new(key, self.all.context);
            return self.all.inner.serialize_key(&key);
        }
        self.key = Some(text(key)?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), C::Error> {
        let Some(mut key) = self.key.take() else {
            let value = Renamed::new(value, self.all.context);
            return self.all.inner.serialize_value(&value);
        };
        if !self.all.context.kept.has(&key) {
            return Ok(());
        }
        let mut value = text(value)?;
        self.all.context.names.borrow_mut().tag(&mut key, &mut value);
        self.all.inner.serialize_entry(&key, &value)
    }

    fn end(self) -> Result<C::Ok, C::Error> {
        self.all.inner.end()
    }
}

/// A text that is serialized.
fn text<E: serde::ser::Error>(value: &(impl Serialize + ?Sized)) -> Result<String, E> {
    match serde_json::to_value(value).map_err(E::custom)? {
        Value::String(text) => Ok(text),
        other => Err(E::custom(format!("{other} is no text"))),
    }
}
