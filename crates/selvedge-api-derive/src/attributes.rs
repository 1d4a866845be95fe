//! The attributes of a type and of its fields.

use proc_macro2::TokenStream;
use quote::quote;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Lit, LitInt, LitStr, Meta, Path, Token, Type, parenthesized};

/// The attributes of a type, a variant or a field. Which of them apply depends on the place.
#[derive(Default)]
pub struct Attributes {
    pub flatten: bool,
    pub sometimes: bool,
    pub query: bool,
    pub other: bool,
    pub repeatable: bool,
    pub optional_body: bool,
    pub schema: Option<Expr>,
    pub about: Option<Expr>,
    pub needs_one_of: Vec<LitStr>,
    pub check: Option<Path>,
    pub tag: Option<Expr>,
    pub word: Option<LitStr>,
    pub method: Option<(String, LitStr)>,
    pub permission: Option<Path>,
    pub answer: Option<Type>,
    pub answers: Vec<(LitInt, Expr)>,
    pub also: Vec<Path>,
    pub example: Option<Expr>,
}

impl Attributes {
    pub fn read(attributes: &[Attribute]) -> syn::Result<Attributes> {
        let mut read = Attributes::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("api")) {
            attribute.parse_nested_meta(|meta| {
                let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
                match name.as_str() {
                    "flatten" => read.flatten = true,
                    "sometimes" => read.sometimes = true,
                    "query" => read.query = true,
                    "other" => read.other = true,
                    "repeatable" => read.repeatable = true,
                    "optional_body" => read.optional_body = true,
                    "schema" => read.schema = Some(meta.value()?.parse()?),
                    "about" => read.about = Some(meta.value()?.parse()?),
                    "check" => read.check = Some(meta.value()?.parse()?),
                    "tag" => read.tag = Some(meta.value()?.parse()?),
                    "word" => read.word = Some(meta.value()?.parse()?),
                    "permission" => read.permission = Some(meta.value()?.parse()?),
                    "answer" => read.answer = Some(meta.value()?.parse()?),
                    "example" => read.example = Some(meta.value()?.parse()?),
                    "get" | "post" | "put" | "patch" | "delete" => {
                        read.method = Some((name, meta.value()?.parse()?));
                    }
                    "needs_one_of" => {
                        let content;
                        parenthesized!(content in meta.input);
                        read.needs_one_of = Punctuated::<LitStr, Token![,]>::parse_terminated(&content)?
                            .into_iter()
                            .collect();
                    }
                    "also" => {
                        let content;
                        parenthesized!(content in meta.input);
                        read.also =
                            Punctuated::<Path, Token![,]>::parse_terminated(&content)?.into_iter().collect();
                    }
                    "answers" => {
                        let content;
                        parenthesized!(content in meta.input);
                        while !content.is_empty() {
                            let status = content.parse()?;
                            content.parse::<Token![=]>()?;
                            read.answers.push((status, content.parse()?));
                            if !content.is_empty() {
                                content.parse::<Token![,]>()?;
                            }
                        }
                    }
                    _ => return Err(meta.error("there is no such attribute")),
                }
                Ok(())
            })?;
        }
        Ok(read)
    }
}

/// Returns the paragraphs of a doc comment, each on one line.
pub fn paragraphs(attributes: &[Attribute]) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for line in attributes.iter().filter_map(doc_line) {
        let last = paragraphs.last_mut().expect("there is always one");
        match line.trim() {
            "" => paragraphs.push(String::new()),
            line if last.is_empty() => last.push_str(line),
            line => {
                last.push(' ');
                last.push_str(line);
            }
        }
    }
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    paragraphs
}

fn doc_line(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the description of a field: computed, or its doc comment.
pub fn about(attributes: &Attributes, docs: &[Attribute]) -> TokenStream {
    match &attributes.about {
        Some(about) => quote!(&#about),
        None => {
            let text = paragraphs(docs).join("\n\n");
            quote!(#text)
        }
    }
}

/// Returns a name in snake case.
pub fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
