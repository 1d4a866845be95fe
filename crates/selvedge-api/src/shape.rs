//! Defines how a type of the API is read, written and described.

use crate::fields::{Fields, join, wrong_type};
use crate::schema::{self, Field, Schema};
use crate::write::{self, Object as Writer};
use selvedge_core::Refusal;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A type of the API. What exists is valid: reading refuses anything else, and names the pointer, the value and the remedy.
pub trait Shape: Sized {
    /// True if a request may leave out a field of this type.
    const IS_OPTIONAL: bool = false;

    /// Describes the values.
    fn schema() -> Schema;

    /// Describes the values that are not null.
    fn given_schema() -> Schema {
        Self::schema()
    }

    /// Reads a value that is not null.
    fn read(input: &Input<'_, '_>) -> Result<Self, Refusal>;

    /// Writes the value.
    fn write(&self, out: &mut Vec<u8>);

    /// Takes a field. Null counts as absent.
    fn take(fields: &mut Fields<'_>, name: &'static str) -> Result<Self, Refusal> {
        match fields.input(name) {
            Some(input) => Self::read(&input),
            None => Err(fields.refuse(name, "is missing")),
        }
    }

    /// Reports whether a field with this value is left out where that is allowed.
    fn is_absent(&self) -> bool {
        false
    }
}

/// An object whose fields are known: alone it is a [`Shape`], and its fields may stand in another object.
pub trait Object: Sized {
    /// The fields of which one must be given; empty if any may be left out together.
    const NEEDS_ONE_OF: &'static [&'static str] = &[];

    /// Describes the fields.
    fn members() -> Vec<Field>;

    /// Takes the fields.
    fn take(fields: &mut Fields<'_>) -> Result<Self, Refusal>;

    /// Writes the fields.
    fn put(&self, object: &mut Writer<'_>);
}

/// The object without fields.
pub struct Nothing;

impl Object for Nothing {
    fn members() -> Vec<Field> {
        Vec::new()
    }

    fn take(_fields: &mut Fields<'_>) -> Result<Self, Refusal> {
        Ok(Nothing)
    }

    fn put(&self, _object: &mut Writer<'_>) {}
}

/// A JSON value that is to be read, with its place in the request. Pointers are written only for refusals.
pub struct Input<'a, 'p> {
    raw: &'a RawValue,
    /// The pointer of the object or array that contains the value.
    parent: &'p str,
    step: Step<'p>,
}

/// The last step of a pointer.
enum Step<'p> {
    /// The body itself, which has the empty pointer.
    Root,
    Name(&'p str),
    Index(usize),
}

impl<'a, 'p> Input<'a, 'p> {
    /// Returns a whole body.
    pub fn root(raw: &'a RawValue) -> Input<'a, 'static> {
        Input { raw, parent: "", step: Step::Root }
    }

    /// Returns the value of a field of the object at `parent`.
    pub fn field(raw: &'a RawValue, parent: &'p str, name: &'p str) -> Input<'a, 'p> {
        Input { raw, parent, step: Step::Name(name) }
    }

    /// Returns the JSON pointer of the value.
    pub fn pointer(&self) -> String {
        match self.step {
            Step::Root => String::new(),
            Step::Name(name) => join(self.parent, name),
            Step::Index(index) => format!("{}/{index}", self.parent),
        }
    }

    /// Returns the value as it stands in the request.
    pub fn raw(&self) -> &'a RawValue {
        self.raw
    }

    /// Returns a refusal of the value.
    pub fn refuse(&self, detail: impl Into<String>) -> Refusal {
        Refusal::field(&self.pointer(), detail)
    }

    /// Reads a value that serde can read; `expected` names the type in a refusal.
    pub fn parse<T: Deserialize<'a>>(&self, expected: &str) -> Result<T, Refusal> {
        serde_json::from_str(self.raw.get())
            .map_err(|_| wrong_type(&self.pointer(), expected, self.raw.get()))
    }

    /// Takes an object apart.
    pub fn fields(&self) -> Result<Fields<'a>, Refusal> {
        Fields::from_value(self.raw, self.pointer())
    }

    /// Reads an array.
    pub fn items<T: Shape>(&self) -> Result<Vec<T>, Refusal> {
        let raws: Vec<&'a RawValue> = self.parse("an array")?;
        let parent = self.pointer();
        let item = |(index, raw)| T::read(&Input { raw, parent: &parent, step: Step::Index(index) });
        raws.into_iter().enumerate().map(item).collect()
    }
}

/// When a field is there.
#[derive(Clone, Copy, PartialEq)]
pub enum Presence {
    /// A field of a request: always, or left out if its type is optional.
    OfRequest,
    /// A field of an answer that may be null.
    Always,
    /// A field of an answer that is left out where it does not apply.
    Sometimes,
}

/// Returns the description of a field. `schema` describes its values more exactly than their type.
pub fn member<T: Shape>(
    name: &'static str,
    about: &str,
    schema: Option<Schema>,
    presence: Presence,
) -> Field {
    let schema = match (schema, presence) {
        (schema, Presence::Sometimes) => schema.unwrap_or_else(T::given_schema),
        (Some(schema), _) if T::IS_OPTIONAL => schema.or_null(),
        (Some(schema), _) => schema,
        (None, _) => T::schema(),
    };
    let schema = if about.is_empty() { schema } else { schema.about(about) };
    match presence {
        Presence::Always => schema::always(name, schema),
        Presence::OfRequest if !T::IS_OPTIONAL => schema::always(name, schema),
        Presence::OfRequest | Presence::Sometimes => schema::sometimes(name, schema),
    }
}

/// Describes an object of a request.
pub fn request_of<T: Object>() -> Schema {
    schema::request(T::members()).needs_one_of(T::NEEDS_ONE_OF)
}

/// Describes an object of an answer.
pub fn answer_of<T: Object>() -> Schema {
    schema::answer(T::members())
}

/// Describes an object whose field `tag` has this word.
pub fn variant_of<T: Object>(tag: &'static str, word: &'static str, is_request: bool) -> Schema {
    let fields = [vec![schema::always(tag, schema::only(word))], T::members()].concat();
    match is_request {
        true => schema::request(fields).needs_one_of(T::NEEDS_ONE_OF),
        false => schema::answer(fields),
    }
}

impl<T: Shape> Shape for Option<T> {
    const IS_OPTIONAL: bool = true;

    fn schema() -> Schema {
        T::schema().or_null()
    }

    fn given_schema() -> Schema {
        T::schema()
    }

    fn read(input: &Input<'_, '_>) -> Result<Self, Refusal> {
        T::read(input).map(Some)
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Some(value) => value.write(out),
            None => write::raw(out, None),
        }
    }

    fn take(fields: &mut Fields<'_>, name: &'static str) -> Result<Self, Refusal> {
        fields.input(name).map(|input| T::read(&input)).transpose()
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: Shape> Shape for Vec<T> {
    fn schema() -> Schema {
        schema::list(T::schema())
    }

    fn read(input: &Input<'_, '_>) -> Result<Self, Refusal> {
        input.items()
    }

    fn write(&self, out: &mut Vec<u8>) {
        write::array(out, self, |out, item| item.write(out));
    }
}
