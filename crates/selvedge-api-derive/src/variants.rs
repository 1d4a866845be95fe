//! Objects of which a field says the kind: enums whose variants have no fields, or one object.

use crate::Side;
use crate::attributes::{Attributes, snake_case};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{DataEnum, DeriveInput, Expr, Fields, Ident, Type, Variant};

struct Kind<'a> {
    ident: &'a Ident,
    word: String,
    object: Option<&'a Type>,
}

fn kind(variant: &Variant) -> syn::Result<Kind<'_>> {
    let word = Attributes::read(&variant.attrs)?.word;
    let word = word.map_or_else(|| snake_case(&variant.ident.to_string()), |word| word.value());
    let object = match &variant.fields {
        Fields::Unit => None,
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => Some(&fields.unnamed[0].ty),
        _ => return Err(syn::Error::new_spanned(variant, "a variant has no fields, or one object")),
    };
    Ok(Kind { ident: &variant.ident, word, object })
}

impl Kind<'_> {
    fn schema(&self, tag: &Expr, side: Side) -> TokenStream {
        let Kind { word, object, .. } = self;
        let is_request = side == Side::Request;
        let object = object.map_or_else(|| quote!(::selvedge_api::shape::Nothing), |object| quote!(#object));
        quote!(::selvedge_api::shape::variant_of::<#object>(#tag, #word, #is_request))
    }

    fn read(&self, finish: &TokenStream) -> TokenStream {
        let Kind { ident, word, object } = self;
        match object {
            None => quote!(#word => { #finish Self::#ident }),
            Some(object) => quote!(#word => {
                let object = <#object as ::selvedge_api::shape::Object>::take(&mut fields)?;
                #finish
                Self::#ident(object)
            }),
        }
    }

    fn write(&self, tag: &Expr) -> TokenStream {
        let Kind { ident, word, object } = self;
        match object {
            None => quote!(Self::#ident => object.value(#tag, #word)),
            Some(_) => quote!(Self::#ident(content) => {
                object.value(#tag, #word);
                ::selvedge_api::shape::Object::put(content, object);
            }),
        }
    }
}

pub fn derive(input: &DeriveInput, data: &DataEnum, side: Side) -> syn::Result<TokenStream> {
    let missing =
        || syn::Error::new_spanned(input, "say which field names the variant: #[api(tag = \"type\")]");
    let tag = Attributes::read(&input.attrs)?.tag.ok_or_else(missing)?;
    let (mut kinds, mut other) = (Vec::new(), None);
    for variant in &data.variants {
        match Attributes::read(&variant.attrs)?.other {
            true => other = Some(&variant.ident),
            false => kinds.push(kind(variant)?),
        }
    }
    let finish = match side {
        Side::Request => quote!(fields.finish()?;),
        Side::Answer => quote!(),
    };
    let name = &input.ident;
    let words: Vec<&str> = kinds.iter().map(|kind| kind.word.as_str()).collect();
    let schemas = kinds.iter().map(|kind| kind.schema(&tag, side));
    let reads = kinds.iter().map(|kind| kind.read(&finish));
    let writes = kinds.iter().map(|kind| kind.write(&tag));
    let (read_other, write_other, word_of_other) = match other {
        Some(other) => (
            quote!(Self::#other(word.to_owned())),
            quote!(Self::#other(word) => object.value(#tag, word),),
            quote!(Self::#other(word) => word,),
        ),
        None => (
            quote! {
                let known = [#(#words),*].into_iter();
                return ::core::result::Result::Err(
                    fields.refuse(#tag, ::selvedge_api::fields::unknown_word(word, known)));
            },
            quote!(),
            quote!(),
        ),
    };
    let words_of = kinds.iter().map(|Kind { ident, word, object }| match object {
        None => quote!(Self::#ident => #word),
        Some(_) => quote!(Self::#ident(_) => #word),
    });
    Ok(quote! {
        impl #name {
            /// Returns the word that names the variant.
            pub fn as_str(&self) -> &str {
                match self { #(#words_of,)* #word_of_other }
            }
        }

        impl ::selvedge_api::Shape for #name {
            fn schema() -> ::selvedge_api::schema::Schema {
                ::selvedge_api::schema::one_of(::std::vec![#(#schemas),*])
            }

            fn read(input: &::selvedge_api::Input<'_, '_>) -> ::core::result::Result<Self, ::selvedge_api::Refusal> {
                let mut fields = input.fields()?;
                let word = <::std::string::String as ::selvedge_api::Shape>::take(&mut fields, #tag)?;
                let word = word.as_str();
                ::core::result::Result::Ok(match word {
                    #(#reads)*
                    _ => { #read_other }
                })
            }

            fn write(&self, out: &mut ::std::vec::Vec<u8>) {
                ::selvedge_api::write::object(out, |object| match self { #(#writes,)* #write_other });
            }
        }
    })
}
