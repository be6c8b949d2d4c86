//! `#[derive(Record)]`: a struct is logged as an object of its fields, an enum without data as an enum.
//!
//! Attributes: `#[tlog(rename = "name")]` gives a field or variant another name in the log, `#[tlog(unit = "rad")]` a field
//! its unit.
#![forbid(unsafe_code)]

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, Data, DataEnum, DeriveInput, Error, Fields, FieldsNamed, Ident, LitStr, Result};

/// Derives `khz_tlog::Record`.
///
/// An enum's numbers are its discriminants: explicit ones, or counted on from the one before; they must not be
/// negative. Its name in the log is the variant's.
#[proc_macro_derive(Record, attributes(tlog))]
pub fn derive_record(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    implement(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn implement(input: &DeriveInput) -> Result<TokenStream> {
    let body = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => object(fields)?,
            _ => return refuse(&input.ident, "only structs with named fields have names to be logged under"),
        },
        Data::Enum(data) => enumeration(&input.ident, data)?,
        Data::Union(_) => return refuse(&input.ident, "a union does not know what it holds"),
    };
    let name = &input.ident;
    let (generics, arguments, wheres) = input.generics.split_for_impl();
    Ok(quote! {
        impl #generics ::khz_tlog::Record for #name #arguments #wheres { #body }
    })
}

fn object(fields: &FieldsNamed) -> Result<TokenStream> {
    let idents: Vec<_> = fields.named.iter().filter_map(|field| field.ident.as_ref()).collect();
    let types: Vec<_> = fields.named.iter().map(|field| &field.ty).collect();
    let logged = fields.named.iter().zip(&idents).map(|(field, ident)| Logged::new(&field.attrs, ident));
    let logged = logged.collect::<Result<Vec<_>>>()?;
    let names = logged.iter().map(|logged| &logged.name);
    let units = logged.iter().map(|logged| logged.unit.iter());
    let units = units.map(|unit| quote! { #(.with_unit(#unit))* });
    Ok(quote! {
        fn schema() -> ::khz_tlog::Type {
            ::khz_tlog::Type::Object(::std::vec![
                #(::khz_tlog::Field::new(#names, <#types as ::khz_tlog::Record>::schema()) #units),*
            ])
        }

        #[inline]
        fn encode(&self, out: &mut impl ::khz_tlog::Sink) {
            #(<#types as ::khz_tlog::Record>::encode(&self.#idents, out);)*
        }

        fn decode(
            input: &mut ::khz_tlog::Input<'_>,
        ) -> ::core::result::Result<Self, ::khz_tlog::DecodeError> {
            #(let #idents = <#types as ::khz_tlog::Record>::decode(input)?;)*
            ::core::result::Result::Ok(Self { #(#idents),* })
        }
    })
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

/// What the log says about a field or variant.
struct Logged {
    /// The name given by `#[tlog(rename = "…")]`, or else its own.
    name: String,
    /// The unit given by `#[tlog(unit = "…")]`.
    unit: Option<String>,
}

impl Logged {
    fn new(attributes: &[Attribute], ident: &Ident) -> Result<Self> {
        let mut logged = Self { name: ident.to_string().trim_start_matches("r#").to_owned(), unit: None };
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("tlog")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("rename") {
                    logged.name = meta.value()?.parse::<LitStr>()?.value();
                } else if meta.path.is_ident("unit") {
                    logged.unit = Some(meta.value()?.parse::<LitStr>()?.value());
                } else {
                    return Err(meta.error("only `rename = \"name\"` and `unit = \"rad\"` are known here"));
                }
                Ok(())
            })?;
        }
        Ok(logged)
    }
}

fn refuse<T>(at: &Ident, why: &str) -> Result<T> {
    Err(Error::new(at.span(), why))
}
