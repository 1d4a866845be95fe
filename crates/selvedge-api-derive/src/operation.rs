//! Operations: a request with its method, path, permission and answer.

use crate::Side;
use crate::attributes::{Attributes, paragraphs, snake_case};
use crate::object::{Member, members};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{DeriveInput, LitStr};

/// The fields of an operation by their place in the request.
#[derive(Default)]
struct Places<'a> {
    path: Vec<Member<'a>>,
    query: Vec<Member<'a>>,
    body: Vec<Member<'a>>,
}

impl<'a> Places<'a> {
    fn of(input: &'a DeriveInput, method: &str, path: &LitStr) -> syn::Result<Places<'a>> {
        let mut places = Places::default();
        for member in members(input)? {
            if path.value().contains(&format!("{{{}}}", member.name)) {
                places.path.push(member);
            } else if member.attributes.query || matches!(method, "get" | "delete") {
                places.query.push(member);
            } else {
                places.body.push(member);
            }
        }
        Ok(places)
    }

    /// Returns the steps that describe the parameters and the body.
    fn describe(&self, attributes: &Attributes) -> TokenStream {
        let query = self.query.iter().map(|member| {
            let (ty, name, about, schema) = (member.ty, &member.name, &member.about, member.schema());
            quote!(let description =
                <#ty as ::selvedge_api::operation::Parameter>::describe(description, #name, #about, #schema);)
        });
        let members = self.body.iter().map(|member| member.describe(Side::Request));
        let needs = &attributes.needs_one_of;
        let body = attributes.example.as_ref().map(|example| {
            let add = if attributes.optional_body { quote!(body_if_any) } else { quote!(body) };
            quote! {
                #[allow(unused_mut)]
                let mut members = ::std::vec::Vec::new();
                #(#members)*
                let schema = ::selvedge_api::schema::request(members);
                let description = description.#add(schema.needs_one_of(&[#(#needs),*]), #example);
            }
        });
        let repeatable = attributes.repeatable.then(|| quote!(let description = description.repeatable();));
        quote!(#(#query)* #repeatable #body)
    }

    /// Returns the steps that read the parts of a request into variables with the names of the fields, and build the operation.
    fn read(&self, method: &str, attributes: &Attributes) -> TokenStream {
        let path = self
            .path
            .iter()
            .map(|Member { ident, ty, name, .. }| quote!(let #ident = parts.path::<#ty>(#name)?;));
        let query = self.query.iter().map(|Member { ident, ty, name, .. }| {
            quote!(let #ident = <#ty as ::selvedge_api::operation::Parameter>::take(&mut parts.query, #name)?;)
        });
        // The query of a request with a body is not looked at, unless it has parameters.
        let is_looked_at = !self.query.is_empty() || matches!(method, "get" | "delete");
        let finish = is_looked_at.then(|| quote!(::core::mem::take(&mut parts.query).finish()?;));
        let all = self.path.iter().chain(&self.query).chain(&self.body).map(|member| member.ident);
        let build = quote!(let read = Self { #(#all),* };);
        let check = attributes.check.as_ref().map(|check| quote!(#check(&read, fields)?;));
        let body = match attributes.example.is_some() {
            false => build,
            true => {
                let take = self.body.iter().map(Member::take);
                quote! {
                    let mut body = parts.fields()?;
                    let fields = &mut body;
                    #(#take)*
                    #build
                    #check
                    body.finish()?;
                }
            }
        };
        quote!(#(#path)* #(#query)* #finish #body ::core::result::Result::Ok(read))
    }

    /// Returns the methods that write the parts of a request.
    fn write(&self, path: &LitStr, has_body: bool) -> TokenStream {
        let path = path.value();
        let segments = path.trim_start_matches('/').split('/').map(|segment| {
            match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
                Some(name) => {
                    let ident = format_ident!("{name}");
                    quote!(::selvedge_api::operation::PathPart::text(&self.#ident))
                }
                None => quote!(#segment.to_owned()),
            }
        });
        let query = self.query.iter().map(|Member { ident, name, .. }| {
            quote!(::selvedge_api::operation::Parameter::put(&self.#ident, #name, &mut query);)
        });
        let put = self.body.iter().map(|member| member.put(Side::Request));
        let body = match has_body {
            false => quote!(::core::option::Option::None),
            true => quote! {
                let mut out = ::std::vec::Vec::new();
                ::selvedge_api::write::object(&mut out, |object| { let _ = &object; #(#put)* });
                ::core::option::Option::Some(out)
            },
        };
        quote! {
            fn path(&self) -> ::std::vec::Vec<::std::string::String> {
                ::std::vec![#(#segments),*]
            }

            fn query(&self) -> ::std::vec::Vec<(::std::string::String, ::std::string::String)> {
                #[allow(unused_mut)]
                let mut query = ::std::vec::Vec::new();
                #(#query)*
                query
            }

            fn body(&self) -> ::core::option::Option<::std::vec::Vec<u8>> {
                #body
            }
        }
    }
}

pub fn derive(input: &DeriveInput) -> syn::Result<TokenStream> {
    let attributes = Attributes::read(&input.attrs)?;
    let missing =
        |what: &str| syn::Error::new_spanned(&input.ident, format!("the operation lacks its {what}"));
    let (method, path) = attributes.method.clone().ok_or_else(|| missing("method and path"))?;
    let tag = attributes.tag.as_ref().ok_or_else(|| missing("tag"))?;
    let permission = attributes.permission.as_ref().ok_or_else(|| missing("permission"))?;
    let answer = attributes.answer.as_ref().ok_or_else(|| missing("answer"))?;
    let mut texts = paragraphs(&input.attrs).into_iter();
    let summary = texts.next().ok_or_else(|| missing("doc comment, whose first line is its summary"))?;
    let more = texts.collect::<Vec<_>>().join("\n\n");
    let places = Places::of(input, &method, &path)?;
    let has_body = attributes.example.is_some();
    if !has_body && !places.body.is_empty() {
        return Err(missing("example of its body"));
    }
    let body = match (has_body, attributes.optional_body) {
        (false, _) => quote!(None),
        (true, false) => quote!(Required),
        (true, true) => quote!(Optional),
    };
    let describe = places.describe(&attributes);
    let read = places.read(&method, &attributes);
    let write = places.write(&path, has_body);
    let (name, id) = (&input.ident, snake_case(&input.ident.to_string()));
    let constant = format_ident!("{}", method.to_uppercase());
    let (statuses, words): (Vec<_>, Vec<_>) = attributes.answers.iter().cloned().unzip();
    let first = statuses.first().ok_or_else(|| missing("answers"))?;
    let (also, is_repeatable) = (&attributes.also, attributes.repeatable);
    Ok(quote! {
        impl ::selvedge_api::Operation for #name {
            type Answer = #answer;
            const METHOD: ::selvedge_api::operation::Method = ::selvedge_api::operation::Method::#constant;
            const PATH: &'static str = #path;
            const PERMISSION: ::selvedge_api::Permission = #permission;
            const BODY: ::selvedge_api::operation::Body = ::selvedge_api::operation::Body::#body;
            const STATUS: u16 = #first;
            const IS_REPEATABLE: bool = #is_repeatable;

            fn describe() -> ::selvedge_api::Description {
                let description = ::selvedge_api::description::operation(#method, #path, #id, #summary)
                    .tag(#tag)
                    .about(#more);
                #describe
                description
                    #(.answers(#statuses, #words, <#answer as ::selvedge_api::Shape>::schema()))*
                    .also([#(#also),*])
            }

            fn read(parts: &mut ::selvedge_api::operation::Parts<'_>)
                -> ::core::result::Result<Self, ::selvedge_api::Rejection>
            {
                #read
            }

            #write
        }
    })
}
