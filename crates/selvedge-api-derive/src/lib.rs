//! Derives the reading, writing and description of a type of the API from its declaration.
//!
//! `Request` is for objects that clients send: an unknown field is refused, and a field of type `Option` may be left out.
//! `Answer` is for objects that servers send: a field is always there unless it says `sometimes`, and unknown fields are
//! ignored, because later servers may add some. `Operation` is for a request with its method and path. The doc comment of a
//! field is its description in the OpenAPI document. Attributes are written `#[api(…)]`:
//!
//! | of | attribute | meaning |
//! | --- | --- | --- |
//! | a field | `flatten` | the fields of the type stand in this object |
//! | | `sometimes` | an answer leaves the field out if it is none |
//! | | `schema = EXPRESSION` | describes the value more exactly than its type |
//! | | `about = EXPRESSION` | a description that is computed |
//! | | `query` | a parameter; the default of `get` and `delete` |
//! | an object | `needs_one_of("a", "b")` | one of these fields must be given |
//! | | `check = FUNCTION` | refuses fields that do not go together |
//! | an enum | `tag = "type"` | the field that names the variant |
//! | a variant | `word = "tags"` | its name; default: in snake case |
//! | | `other` | takes a name that this version does not know |
//! | an operation | `post = "/v1/…"` | its method and path |
//! | | `tag`, `permission`, `answer` | its group, its permission, the type of its answer |
//! | | `answers(201 = "The job.")` | the words of each status, the usual one first |
//! | | `also(Code, …)` | problems that do not follow from its form |
//! | | `example = EXPRESSION` | an example of its body |
//! | | `repeatable`, `optional_body` | takes an `Idempotency-Key`; its body may be empty |

mod attributes;
mod object;
mod operation;
mod variants;

use proc_macro::TokenStream;
use syn::{Data, DeriveInput, parse_macro_input};

/// The two kinds of objects.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Request,
    Answer,
}

#[proc_macro_derive(Request, attributes(api))]
pub fn request(input: TokenStream) -> TokenStream {
    derive(&parse_macro_input!(input as DeriveInput), Side::Request)
}

#[proc_macro_derive(Answer, attributes(api))]
pub fn answer(input: TokenStream) -> TokenStream {
    derive(&parse_macro_input!(input as DeriveInput), Side::Answer)
}

#[proc_macro_derive(Operation, attributes(api))]
pub fn operation(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    operation::derive(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

fn derive(input: &DeriveInput, side: Side) -> TokenStream {
    let derived = match &input.data {
        Data::Struct(_) => object::derive(input, side),
        Data::Enum(data) => variants::derive(input, data, side),
        Data::Union(_) => Err(syn::Error::new_spanned(input, "a union is no type of the API")),
    };
    derived.unwrap_or_else(syn::Error::into_compile_error).into()
}
