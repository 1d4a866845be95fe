//! An operation: a request with its method and path, the permission that it needs, and the type of its answer.

use crate::description::Description;
use crate::fields::Fields;
use crate::parameters::Parameters;
use crate::schema::Schema;
use crate::shape::Shape;
use crate::{Code, Rejection};
use selvedge_core::api_key::ApiKeyId;
use selvedge_core::bulk_job::BulkJobId;
use selvedge_core::webhook::DeliveryId;
use selvedge_core::{ExecutionId, FlowId, Permission, WaitpointId};
use uuid::Uuid;

/// A request of the API. Derived: see [`selvedge_api_derive`].
pub trait Operation: Sized + Send + 'static {
    /// The body of a successful answer.
    type Answer: Shape;
    const METHOD: Method;
    /// The path, with its parameters in braces.
    const PATH: &'static str;
    const PERMISSION: Permission;
    const BODY: Body;
    /// The usual status of a successful answer.
    const STATUS: u16;
    /// True if the request takes an `Idempotency-Key`.
    const IS_REPEATABLE: bool;

    /// Describes the operation for the OpenAPI document.
    fn describe() -> Description;

    /// Reads the parts of a request.
    fn read(parts: &mut Parts<'_>) -> Result<Self, Rejection>;

    /// Returns the parts of the path, without escapes.
    fn path(&self) -> Vec<String>;

    /// Returns the parameters of the query.
    fn query(&self) -> Vec<(String, String)>;

    /// Returns the body; none if the operation has no body.
    fn body(&self) -> Option<Vec<u8>>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    GET,
    POST,
    PUT,
    PATCH,
    DELETE,
}

impl Method {
    pub fn as_str(self) -> &'static str {
        match self {
            Method::GET => "GET",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::PATCH => "PATCH",
            Method::DELETE => "DELETE",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    None,
    Required,
    /// An empty body counts as an object without fields.
    Optional,
}

/// The parts of a request that an operation is read from.
pub struct Parts<'a> {
    /// The parameters of the path, by name.
    pub path: Vec<(&'a str, &'a str)>,
    pub query: Parameters,
    /// The body; empty if the operation has none.
    pub body: &'a [u8],
}

impl<'a> Parts<'a> {
    /// Reads a parameter of the path.
    pub fn path<T: PathPart>(&self, name: &str) -> Result<T, Rejection> {
        let part = self.path.iter().find(|(other, _)| *other == name);
        let (_, text) =
            part.ok_or_else(|| Rejection::Problem(Code::NotFound, "the path is not UTF-8 text".into()))?;
        T::read(text).map_err(|detail| Rejection::Problem(Code::NotFound, detail))
    }

    /// Takes the object of the body apart.
    pub fn fields(&self) -> Result<Fields<'a>, Rejection> {
        Fields::from_body(self.body)
    }
}

/// A type of a parameter of a path.
pub trait PathPart: Sized {
    /// Reads the parameter; the error is the detail of a problem.
    fn read(text: &str) -> Result<Self, String>;

    /// Returns the text of the parameter, without escapes.
    fn text(&self) -> String;
}

impl PathPart for String {
    fn read(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn text(&self) -> String {
        self.clone()
    }
}

macro_rules! ids {
    ($($type:ident $noun:literal)*) => {$(
        impl PathPart for $type {
            fn read(text: &str) -> Result<Self, String> {
                let missing = |_| format!(concat!("there is no ", $noun, " {:?}; ids of ", $noun, "s are UUIDs"), text);
                Uuid::parse_str(text).map($type).map_err(missing)
            }

            fn text(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

ids! {
    ApiKeyId "key"
    BulkJobId "bulk job"
    DeliveryId "delivery"
    ExecutionId "execution"
    FlowId "flow"
    WaitpointId "waitpoint"
}

/// A type of a parameter of the query, or of several.
pub trait Parameter: Sized {
    /// Adds the parameter to the description of an operation. `schema` describes its values more exactly than their type.
    fn describe(
        description: Description,
        name: &'static str,
        about: &str,
        schema: Option<Schema>,
    ) -> Description;

    /// Takes the parameter.
    fn take(parameters: &mut Parameters, name: &'static str) -> Result<Self, Rejection>;

    /// Adds the parameter to a query.
    fn put(&self, name: &str, query: &mut Vec<(String, String)>);
}
