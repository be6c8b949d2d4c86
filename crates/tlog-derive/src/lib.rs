//! `#[derive(Record)]`: a struct is logged as an object of its fields, an enum without data as an enum.
//!
//! `#[derive(Columns)]`: the fields of a struct can be set by their names.
//!
//! Attributes: `#[tlog(rename = "name")]` gives a field or variant another name in the log, `#[tlog(unit = "rad")]` a field
//! its unit, `#[tlog(alias = "name")]` the name that a field has in other logs.
#![forbid(unsafe_code)]

use proc_macro2::TokenStream;
use quote::quote;
use syn::{
    Attribute, Data, DataEnum, DataStruct, DeriveInput, Error, Expr, ExprLit, Fields, FieldsNamed, Ident,
    Lit, LitStr, Meta, MetaNameValue, Result, Type,
};

/// Derives `khz_tlog::Record`.
///
/// An enum's numbers are its discriminants: explicit ones, or counted on from the one before; they must not be
/// negative. Its name in the log is the variant's.
#[proc_macro_derive(Record, attributes(tlog))]
pub fn derive_record(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    implement(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// Derives `khz_tlog::Columns` for a struct whose fields are `khz_tlog::Scalar`s.
#[proc_macro_derive(Columns, attributes(tlog))]
pub fn derive_columns(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    columns(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn implement(input: &DeriveInput) -> Result<TokenStream> {
    let name = &input.ident;
    let (generics, arguments, wheres) = input.generics.split_for_impl();
    let (body, scalar) = match &input.data {
        // The size of an array cannot depend on a generic.
        Data::Struct(_) => (object(named(input)?, input.generics.params.is_empty())?, None),
        Data::Enum(data) => (enumeration(name, data)?, Some(scalar(name, data))),
        Data::Union(_) => return refuse(name, "a union does not know what it holds"),
    };
    Ok(quote! {
        impl #generics ::khz_tlog::Record for #name #arguments #wheres { #body }
        #scalar
    })
}

fn named(input: &DeriveInput) -> Result<&FieldsNamed> {
    match &input.data {
        Data::Struct(DataStruct { fields: Fields::Named(fields), .. }) => Ok(fields),
        _ => refuse(&input.ident, "only structs with named fields have names to be logged under"),
    }
}

fn columns(input: &DeriveInput) -> Result<TokenStream> {
    let (name, fields) = (&input.ident, named(input)?);
    let idents: Vec<_> = fields.named.iter().filter_map(|field| field.ident.as_ref()).collect();
    let logged = fields.named.iter().zip(&idents).map(|(field, ident)| Logged::new(&field.attrs, ident));
    let logged = logged.collect::<Result<Vec<_>>>()?;
    let infos = logged.iter().map(|Logged { name, aliases, about, .. }| {
        quote! { ::khz_tlog::FieldInfo { name: #name, aliases: &[#(#aliases),*], about: #about } }
    });
    let places = 0..idents.len();
    Ok(quote! {
        impl ::khz_tlog::Columns for #name {
            const FIELDS: &'static [::khz_tlog::FieldInfo] = &[#(#infos),*];

            fn set(&mut self, field: usize, value: &::khz_tlog::Value<'_>) {
                match field {
                    #(#places => if let ::core::option::Option::Some(value) = ::khz_tlog::Scalar::of(value) {
                        self.#idents = value;
                    })*
                    _ => {}
                }
            }
        }
    })
}

/// Numbers side by side go out in one piece: to put each by itself takes several times as long.
fn encoding(idents: &[&Ident], types: &[&Type]) -> TokenStream {
    quote! {
        const WIDTH: ::core::option::Option<usize> =
            ::khz_tlog::width_of(&[#(<#types as ::khz_tlog::Record>::WIDTH),*]);

        #[inline]
        fn encode(&self, out: &mut impl ::khz_tlog::Sink) {
            let mut bytes = [0u8; ::khz_tlog::packed(&[#(<#types as ::khz_tlog::Record>::WIDTH),*])];
            let (mut from, mut to) = (0, 0);
            #(match <#types as ::khz_tlog::Record>::WIDTH {
                ::core::option::Option::Some(width) => {
                    ::khz_tlog::Record::pack(&self.#idents, &mut bytes[to..to + width]);
                    to += width;
                }
                ::core::option::Option::None => {
                    if from < to {
                        ::khz_tlog::Sink::put(out, &bytes[from..to]);
                        from = to;
                    }
                    ::khz_tlog::Record::encode(&self.#idents, out);
                }
            })*
            if from < to {
                ::khz_tlog::Sink::put(out, &bytes[from..to]);
            }
        }
    }
}

fn object(fields: &FieldsNamed, packs: bool) -> Result<TokenStream> {
    let idents: Vec<_> = fields.named.iter().filter_map(|field| field.ident.as_ref()).collect();
    let types: Vec<_> = fields.named.iter().map(|field| &field.ty).collect();
    let logged = fields.named.iter().zip(&idents).map(|(field, ident)| Logged::new(&field.attrs, ident));
    let logged = logged.collect::<Result<Vec<_>>>()?;
    let names = logged.iter().map(|logged| &logged.name);
    let units = logged.iter().map(|logged| logged.unit.iter());
    let units = units.map(|unit| quote! { #(.with_unit(#unit))* });
    let encoding = match packs {
        true => encoding(&idents, &types),
        false => quote! {
            #[inline]
            fn encode(&self, out: &mut impl ::khz_tlog::Sink) {
                #(<#types as ::khz_tlog::Record>::encode(&self.#idents, out);)*
            }
        },
    };
    Ok(quote! {
        fn schema() -> ::khz_tlog::Type {
            ::khz_tlog::Type::Object(::std::vec![
                #(::khz_tlog::Field::new(#names, <#types as ::khz_tlog::Record>::schema()) #units),*
            ])
        }

        #encoding

        fn decode(
            input: &mut ::khz_tlog::Input<'_>,
        ) -> ::core::result::Result<Self, ::khz_tlog::DecodeError> {
            #(let #idents = <#types as ::khz_tlog::Record>::decode(input)?;)*
            ::core::result::Result::Ok(Self { #(#idents),* })
        }
    })
}

/// Enums can be read from their numbers.
fn scalar(name: &Ident, data: &DataEnum) -> TokenStream {
    let idents = data.variants.iter().map(|variant| &variant.ident);
    quote! {
        impl ::khz_tlog::Scalar for #name {
            fn of(value: &::khz_tlog::Value<'_>) -> ::core::option::Option<Self> {
                let number = value.number()?;
                #(if number == Self::#idents as u64 as f64 {
                    return ::core::option::Option::Some(Self::#idents);
                })*
                ::core::option::Option::None
            }
        }
    }
}

fn enumeration(name: &Ident, data: &DataEnum) -> Result<TokenStream> {
    if let Some(variant) = data.variants.iter().find(|variant| !matches!(variant.fields, Fields::Unit)) {
        return refuse(&variant.ident, "an enum with data has no form in a log: use a struct with options");
    }
    let idents: Vec<_> = data.variants.iter().map(|variant| &variant.ident).collect();
    let logged = data.variants.iter().map(|variant| Logged::new(&variant.attrs, &variant.ident));
    let logged = logged.collect::<Result<Vec<_>>>()?;
    if let Some((_, variant)) = logged.iter().zip(&data.variants).find(|(logged, _)| logged.unit.is_some()) {
        return refuse(&variant.ident, "a variant has no unit");
    }
    let names = logged.iter().map(|logged| &logged.name);
    let text = name.to_string();
    Ok(quote! {
        // What is below 128 is one byte.
        const WIDTH: ::core::option::Option<usize> =
            if true #(&& (Self::#idents as u64) < 0x80)* { ::core::option::Option::Some(1) } else { ::core::option::Option::None };

        #[inline(always)]
        fn pack(&self, out: &mut [u8]) {
            out[0] = match self { #(Self::#idents => Self::#idents as u64 as u8),* };
        }

        fn schema() -> ::khz_tlog::Type {
            ::khz_tlog::Type::enumeration([#((Self::#idents as u64, #names)),*])
        }

        #[inline]
        fn encode(&self, out: &mut impl ::khz_tlog::Sink) {
            let number = match self { #(Self::#idents => Self::#idents as u64),* };
            ::khz_tlog::Sink::varuint(out, number);
        }

        fn decode(
            input: &mut ::khz_tlog::Input<'_>,
        ) -> ::core::result::Result<Self, ::khz_tlog::DecodeError> {
            let at = input.position();
            match input.varuint()? {
                #(number if number == Self::#idents as u64 => ::core::result::Result::Ok(Self::#idents),)*
                _ => ::core::result::Result::Err(::khz_tlog::DecodeError {
                    at,
                    flaw: ::khz_tlog::Flaw::Value(#text),
                }),
            }
        }
    })
}

/// What the log has about a field or variant.
struct Logged {
    /// The name given by `#[tlog(rename = "…")]`, or else its own.
    name: String,
    /// The unit given by `#[tlog(unit = "…")]`.
    unit: Option<String>,
    /// The names given by `#[tlog(alias = "…")]`.
    aliases: Vec<String>,
    /// Its documentation, in one line.
    about: String,
}

impl Logged {
    fn new(attributes: &[Attribute], ident: &Ident) -> Result<Self> {
        let name = ident.to_string().trim_start_matches("r#").to_owned();
        let mut logged = Self { name, unit: None, aliases: Vec::new(), about: about(attributes) };
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("tlog")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("rename") {
                    logged.name = meta.value()?.parse::<LitStr>()?.value();
                } else if meta.path.is_ident("unit") {
                    logged.unit = Some(meta.value()?.parse::<LitStr>()?.value());
                } else if meta.path.is_ident("alias") {
                    logged.aliases.push(meta.value()?.parse::<LitStr>()?.value());
                } else {
                    return Err(meta.error(
                        "only `rename = \"name\"`, `alias = \"name\"` and `unit = \"rad\"` are known here",
                    ));
                }
                Ok(())
            })?;
        }
        Ok(logged)
    }
}

/// The lines of a documentation comment, joined.
fn about(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(MetaNameValue {
            path,
            value: Expr::Lit(ExprLit { lit: Lit::Str(text), .. }),
            ..
        }) if path.is_ident("doc") => Some(text.value().trim().to_owned()),
        _ => None,
    });
    lines.collect::<Vec<_>>().join(" ")
}

fn refuse<T>(at: &Ident, why: &str) -> Result<T> {
    Err(Error::new(at.span(), why))
}
