//! Objects: structs with named fields.

use crate::Side;
use crate::attributes::{Attributes, about};
use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::{Data, DeriveInput, Field, Fields, Ident, Type};

/// A field of a struct.
pub struct Member<'a> {
    pub ident: &'a Ident,
    pub ty: &'a Type,
    pub name: String,
    pub attributes: Attributes,
    pub about: TokenStream,
}

/// Returns the fields of a struct.
pub fn members(input: &DeriveInput) -> syn::Result<Vec<Member<'_>>> {
    let Data::Struct(data) = &input.data else {
        return Err(syn::Error::new_spanned(input, "an operation is a struct"));
    };
    match &data.fields {
        Fields::Named(fields) => fields.named.iter().map(member).collect(),
        Fields::Unit => Ok(Vec::new()),
        Fields::Unnamed(_) => Err(syn::Error::new_spanned(input, "the fields of an object have names")),
    }
}

fn member(field: &Field) -> syn::Result<Member<'_>> {
    let attributes = Attributes::read(&field.attrs)?;
    let ident = field.ident.as_ref().expect("the fields have names");
    let about = about(&attributes, &field.attrs);
    Ok(Member { ident, ty: &field.ty, name: ident.unraw().to_string(), attributes, about })
}

impl Member<'_> {
    /// Returns the expression that adds the description of the field to `members`.
    pub fn describe(&self, side: Side) -> TokenStream {
        let Member { ty, name, about, .. } = self;
        if self.attributes.flatten {
            return quote!(members.extend(<#ty as ::selvedge_api::shape::Object>::members()););
        }
        let schema = self.schema();
        let presence = match (side, self.attributes.sometimes) {
            (Side::Request, _) => quote!(OfRequest),
            (Side::Answer, false) => quote!(Always),
            (Side::Answer, true) => quote!(Sometimes),
        };
        quote!(members.push(::selvedge_api::shape::member::<#ty>(
            #name, #about, #schema, ::selvedge_api::shape::Presence::#presence
        ));)
    }

    /// Returns the schema that the declaration gives, as an option.
    pub fn schema(&self) -> TokenStream {
        match &self.attributes.schema {
            Some(schema) => quote!(::core::option::Option::Some(#schema)),
            None => quote!(::core::option::Option::None),
        }
    }

    /// Returns the statement that takes the field from `fields`.
    pub fn take(&self) -> TokenStream {
        let Member { ident, ty, name, .. } = self;
        match self.attributes.flatten {
            true => quote!(let #ident = <#ty as ::selvedge_api::shape::Object>::take(fields)?;),
            false => quote!(let #ident = <#ty as ::selvedge_api::Shape>::take(fields, #name)?;),
        }
    }

    /// Returns the statement that writes the field to `object`.
    pub fn put(&self, side: Side) -> TokenStream {
        let Member { ident, name, .. } = self;
        if self.attributes.flatten {
            return quote!(::selvedge_api::shape::Object::put(&self.#ident, object););
        }
        let write = quote!(::selvedge_api::Shape::write(&self.#ident, object.field(#name)););
        match side == Side::Request || self.attributes.sometimes {
            true => quote!(if !::selvedge_api::Shape::is_absent(&self.#ident) { #write }),
            false => write,
        }
    }
}

/// Returns the implementation of `Object` by the fields of a struct.
fn implement(input: &DeriveInput, members: &[Member<'_>], side: Side) -> syn::Result<TokenStream> {
    let attributes = Attributes::read(&input.attrs)?;
    let describe = members.iter().map(|member| member.describe(side));
    let take = members.iter().map(Member::take);
    let put = members.iter().map(|member| member.put(side));
    let idents = members.iter().map(|member| member.ident);
    let check = attributes.check.map(|check| quote!(#check(&read, fields)?;));
    let (name, needs) = (&input.ident, attributes.needs_one_of);
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        impl #generics ::selvedge_api::shape::Object for #name #arguments #bounds {
            const NEEDS_ONE_OF: &'static [&'static str] = &[#(#needs),*];

            fn members() -> ::std::vec::Vec<::selvedge_api::schema::Field> {
                #[allow(unused_mut)]
                let mut members = ::std::vec::Vec::new();
                #(#describe)*
                members
            }

            fn take(fields: &mut ::selvedge_api::Fields<'_>) -> ::core::result::Result<Self, ::selvedge_api::Refusal> {
                #(#take)*
                let read = Self { #(#idents),* };
                #check
                ::core::result::Result::Ok(read)
            }

            fn put(&self, object: &mut ::selvedge_api::write::Object<'_>) {
                #(#put)*
            }
        }
    })
}

pub fn derive(input: &DeriveInput, side: Side) -> syn::Result<TokenStream> {
    let members = members(input)?;
    let object = implement(input, &members, side)?;
    let (schema, finish) = match side {
        Side::Request => (quote!(request_of), quote!(fields.finish()?;)),
        Side::Answer => (quote!(answer_of), quote!()),
    };
    let name = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        #object

        impl #generics ::selvedge_api::Shape for #name #arguments #bounds {
            fn schema() -> ::selvedge_api::schema::Schema {
                ::selvedge_api::shape::#schema::<Self>()
            }

            fn read(input: &::selvedge_api::Input<'_, '_>) -> ::core::result::Result<Self, ::selvedge_api::Refusal> {
                let mut fields = input.fields()?;
                let read = <Self as ::selvedge_api::shape::Object>::take(&mut fields)?;
                #finish
                ::core::result::Result::Ok(read)
            }

            fn write(&self, out: &mut ::std::vec::Vec<u8>) {
                ::selvedge_api::write::object(out, |object| ::selvedge_api::shape::Object::put(self, object));
            }
        }
    })
}
