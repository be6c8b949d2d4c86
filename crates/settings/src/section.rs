//! The two declarations: [`section!`](crate::section) and [`words!`](crate::words).

/// A closed set of words, as an enum; each line is a word and its meaning. The first is the [`Default`] of the type.
///
/// Besides a [`Setting`](crate::Setting) it is [`Display`](std::fmt::Display), [`FromStr`](std::str::FromStr),
/// [`Serialize`](serde::Serialize) and [`Deserialize`](serde::Deserialize), all by its words. See the example of the
/// [crate](crate).
#[macro_export]
macro_rules! words {
    ($(#[doc = $about:literal])+ $name:ident { $($(#[doc = $doc:literal])+ $word:ident = $text:literal,)+ }) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[doc = $doc])+ $word,)+ }

        impl $name {
            /// Every word, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$word),+];
            const WORDS: &'static [&'static str] = &[$($text),+];

            /// As written in a robot file.
            #[must_use]
            pub const fn word(self) -> &'static str {
                Self::WORDS[self as usize]
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::ALL[0]
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.word())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> ::std::result::Result<Self, String> {
                let found = Self::ALL.iter().find(|word| word.word() == text);
                found.copied().ok_or_else(|| $crate::no_such_word(text, Self::WORDS))
            }
        }

        impl $crate::serde::Serialize for $name {
            fn serialize<S: $crate::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(self.word())
            }
        }

        impl<'de> $crate::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::std::result::Result<Self, D::Error> {
                let word = <String as $crate::serde::Deserialize>::deserialize(deserializer)?;
                word.parse().map_err($crate::serde::de::Error::custom)
            }
        }

        impl $crate::Setting for $name {
            const SHAPE: $crate::Shape = $crate::Shape::Words(&[$(($text, &[$($doc),+])),+]);

            fn read(
                base: Self,
                value: &$crate::toml::Spanned<$crate::toml::de::DeValue<'_>>,
                at: &$crate::KeyPlace<'_>,
                reader: &mut $crate::Reader,
            ) -> Self {
                $crate::read_word(value, at, reader, Self::WORDS).map_or(base, |at| Self::ALL[at])
            }
        }
    };
}

/// A table with fixed keys, as a struct: each line is a key with its meaning, type, default, unit and range. A key without
/// a default is required. The type is [`Clone`], [`Debug`], [`PartialEq`], [`Default`] and
/// [`Serialize`](serde::Serialize); `#[derive(Copy)]` before its name makes it [`Copy`]. See the example of the [crate](crate).
#[macro_export]
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $(#[derive($($derived:ident),+)])?
        $name:ident {
            $($(#[doc = $doc:literal])+ $field:ident: $type:ty $(= $default:expr)?, $unit:literal $(, $low:expr => $high:expr)?;)*
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq)]
        $(#[derive($($derived),+)])?
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $type,)*
        }

        impl $name {
            /// What the table is for, line by line.
            pub const ABOUT: &'static [&'static str] = &[$($about),+];

            /// Every key of the table.
            pub const KEYS: &'static [$crate::Key] = &[$($crate::Key {
                name: stringify!($field),
                unit: $unit,
                range: $crate::section!(@range $($low, $high)?),
                required: $crate::section!(@required $($default)?),
                doc: &[$($doc),+],
                shape: <$type as $crate::Setting>::SHAPE,
                default: || $crate::section!(@json $type $(, $default)?),
            }),*];

            /// The table's keys over `self`; unknown and missing keys are not looked for.
            #[allow(unused_variables, unused_mut)]
            #[must_use]
            pub fn over(
                mut self,
                table: &$crate::toml::de::DeTable<'_>,
                path: &str,
                reader: &mut $crate::Reader,
            ) -> Self {
                let mut keys = Self::KEYS.iter();
                $(if let Some(key) = keys.next() {
                    self.$field = reader.value(table, path, key, self.$field);
                })*
                self
            }

            /// The names of the keys.
            pub fn names() -> Vec<&'static str> {
                Self::KEYS.iter().map(|key| key.name).collect()
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $crate::section!(@or_default $type $(, $default)?),)* }
            }
        }

        impl $crate::serde::Serialize for $name {
            fn serialize<S: $crate::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::std::result::Result<S::Ok, S::Error> {
                use $crate::serde::ser::SerializeStruct as _;
                #[allow(unused_mut)]
                let mut table = serializer.serialize_struct(stringify!($name), Self::KEYS.len())?;
                $(table.serialize_field(stringify!($field), &self.$field)?;)*
                table.end()
            }
        }

        impl $crate::Setting for $name {
            const SHAPE: $crate::Shape = $crate::Shape::Table(Self::KEYS);

            fn read(
                base: Self,
                value: &$crate::toml::Spanned<$crate::toml::de::DeValue<'_>>,
                at: &$crate::KeyPlace<'_>,
                reader: &mut $crate::Reader,
            ) -> Self {
                let Some(table) = value.get_ref().as_table() else {
                    reader.wrong_type(value, at);
                    return base;
                };
                reader.refuse_unknown(table, &at.path, &Self::names());
                reader.require(table, value.span(), &at.path, Self::KEYS, &[]);
                base.over(table, &at.path, reader)
            }
        }
    };
    (@range) => { None };
    (@range $low:expr, $high:expr) => { Some(($low as f64, $high as f64)) };
    (@required) => { true };
    (@required $default:expr) => { false };
    (@json $type:ty) => { $crate::serde_json::Value::Null };
    (@json $type:ty, $default:expr) => { $crate::to_json::<$type>(&$default) };
    (@or_default $type:ty) => { <$type>::default() };
    (@or_default $type:ty, $default:expr) => { $default };
}
