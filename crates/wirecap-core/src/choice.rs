//! Values that a person chooses by name: each name is declared once, beside its variant and its explanation.
//!
//! ```text
//!   choices! { enum Wait { Busy = "busy", … } } ──┬─ FromStr, with the nearest name in the error     what a person writes
//!                                                 ├─ Display, Serialize, Deserialize                 what is printed is read back
//!                                                 └─ Choice::ALL: values, names, explanations        help texts
//! ```
//!
//! Rule: a name is written nowhere else, so that help, errors, files and reports cannot disagree about it.

use thiserror::Error;

/// Letters for which one slip is allowed; one slip is allowed in any word.
const LETTERS_PER_SLIP: usize = 4;
/// Shortest beginning of a word that stands for it, in letters.
const MIN_BEGINNING: usize = 3;

/// A value of a closed set, with its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedValue<T> {
    /// The value.
    pub value: T,
    /// Its name: lower case, words joined by `-`.
    pub name: &'static str,
    /// The first line of the variant's documentation.
    pub explanation: &'static str,
}

/// A closed set of values that have names. Implemented by [`choices!`](crate::choices).
///
/// ```
/// use wirecap_core::{Choice, choices};
///
/// choices! {
///     /// How to cross a river.
///     pub enum Crossing = Bridge {
///         /// On foot.
///         Bridge = "bridge",
///         /// In a boat.
///         ///
///         /// Takes a while.
///         Ferry = "ferry-boat",
///     }
/// }
///
/// assert_eq!(Crossing::default(), Crossing::Bridge);
/// assert_eq!("ferry-boat".parse(), Ok(Crossing::Ferry));
/// assert_eq!(Crossing::Ferry.to_string(), "ferry-boat");
/// assert_eq!(Crossing::ALL[1].explanation, "In a boat.");
/// let error = "brigde".parse::<Crossing>().unwrap_err();
/// assert_eq!(error.to_string(), "\"brigde\" is not one of bridge, ferry-boat; did you mean bridge?");
/// ```
pub trait Choice: Copy + PartialEq + 'static {
    /// All values, in the order in which a person should read them.
    const ALL: &'static [NamedValue<Self>];

    /// Finds the value with this name.
    ///
    /// # Errors
    /// [`UnknownName`], which has the names and the nearest of them.
    fn named(name: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.iter().find(|choice| choice.name == name);
        found.map(|choice| choice.value).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|choice| choice.name).collect();
            UnknownName { given: name.into(), nearest: nearest(name, names.iter().copied()), names }
        })
    }
}

/// A text that is the name of none of the values.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{given:?} is not one of {}{}", names.join(", "), nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default())]
pub struct UnknownName {
    /// The text.
    pub given: String,
    /// The names there are.
    pub names: Vec<&'static str>,
    /// The nearest of them, if one is near.
    pub nearest: Option<&'static str>,
}

/// Declares an enum without data whose variants have names, and implements [`Choice`](crate::Choice),
/// `FromStr`, `Display`, `Serialize` and `Deserialize` for it; `Default`, too, if a variant is named behind
/// the enum (`enum Wait = Sleep`).
///
/// The first line of a variant's documentation is its explanation in help texts: a sentence of its own.
#[macro_export]
macro_rules! choices {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $Type:ident $(= $default:ident)? {
            $(
                #[doc = $first:literal]
                $(#[doc = $more:literal])*
                $variant:ident = $name:literal,
            )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $visibility enum $Type {
            $(
                #[doc = $first]
                $(#[doc = $more])*
                $variant,
            )+
        }

        $(
            impl Default for $Type {
                fn default() -> Self {
                    Self::$default
                }
            }
        )?

        impl $Type {
            /// Its name, as in settings and reports.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl $crate::Choice for $Type {
            const ALL: &'static [$crate::choice::NamedValue<Self>] = &[
                $($crate::choice::NamedValue {
                    value: Self::$variant,
                    name: $name,
                    explanation: $first.trim_ascii(),
                },)+
            ];
        }

        $crate::choice_text!($Type);
        $crate::choice_schema!($Type);

        impl ::std::fmt::Display for $Type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl ::std::str::FromStr for $Type {
            type Err = $crate::choice::UnknownName;

            fn from_str(name: &str) -> ::std::result::Result<Self, Self::Err> {
                <Self as $crate::Choice>::named(name)
            }
        }
    };
}

/// Implements `Serialize` and `Deserialize` as a string, for a type with `Display` and `FromStr`.
#[macro_export]
macro_rules! choice_text {
    ($Type:ty) => {
        impl $crate::choice::serde::Serialize for $Type {
            fn serialize<S: $crate::choice::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::std::result::Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> $crate::choice::serde::Deserialize<'de> for $Type {
            fn deserialize<D: $crate::choice::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::std::result::Result<Self, D::Error> {
                $crate::choice::parsed(deserializer)
            }
        }
    };
}

/// Implements `JsonSchema` for a [`Choice`](crate::Choice), if this crate has the feature `schema`.
#[cfg(feature = "schema")]
#[doc(hidden)]
#[macro_export]
macro_rules! choice_schema {
    ($Type:ident) => {
        impl $crate::choice::schemars::JsonSchema for $Type {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($Type).into()
            }

            fn json_schema(
                _: &mut $crate::choice::schemars::SchemaGenerator,
            ) -> $crate::choice::schemars::Schema {
                $crate::choice::schema::<Self>()
            }
        }
    };
}

#[cfg(not(feature = "schema"))]
#[doc(hidden)]
#[macro_export]
macro_rules! choice_schema {
    ($Type:ident) => {};
}

/// The schema of a choice: its names, each with its explanation.
#[cfg(feature = "schema")]
#[doc(hidden)]
pub fn schema<T: Choice>() -> schemars::Schema {
    let name = |choice: &NamedValue<T>| schemars::json_schema!({ "const": choice.name, "description": choice.explanation });
    let names: Vec<_> = T::ALL.iter().map(name).collect();
    schemars::json_schema!({ "type": "string", "oneOf": names })
}

#[cfg(feature = "schema")]
#[doc(hidden)]
pub use schemars;
#[doc(hidden)]
pub use serde;

/// Reads a string, and the value from it.
#[doc(hidden)]
pub fn parsed<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
    D: serde::Deserializer<'de>,
{
    let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

/// Finds the nearest of `words` to a misspelt one, if any of them is near.
///
/// ```text
///   mod ──► mode      a beginning            durtaion ──► duration    two letters swapped
///   threads ──► capture-threads              one of its words
///   rotate  ──► nothing: write and route are other words
/// ```
///
/// A wrong suggestion costs more than no suggestion: a word is near if it differs by at most one slip of the
/// keyboard for every four letters.
pub fn nearest<'w>(given: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let near = words.into_iter().filter_map(|word| Some((distance(given, word)?, word)));
    near.min_by_key(|&(distance, _)| distance).map(|(_, word)| word)
}

/// Counts the slips between the two; `None` if `word` is not near.
fn distance(given: &str, word: &str) -> Option<usize> {
    let slips = strsim::damerau_levenshtein(given, word);
    let allowed = (given.len().max(word.len()) / LETTERS_PER_SLIP).max(1);
    let is_part = given.len() >= MIN_BEGINNING
        && (word.starts_with(given) || word.split(['-', '_']).any(|part| part == given));
    // One slip turns a word of two letters into almost any other.
    let is_near = slips <= allowed && given.len().min(word.len()) >= MIN_BEGINNING;
    (is_near || is_part).then_some(slips)
}

#[cfg(all(test, not(miri)))] // No unsafe code, and they take half a minute under miri.
mod tests {
    use super::*;

    const FLAGS: [&str; 10] = [
        "write",
        "rate",
        "route",
        "mode",
        "duration",
        "capture-threads",
        "no-promiscuous",
        "filter",
        "pps",
        "bps",
    ];

    #[test]
    fn typos_beginnings_and_parts_are_found_and_other_words_are_not() {
        for (given, meant) in [
            ("mod", Some("mode")),
            ("modes", Some("mode")),
            ("durtaion", Some("duration")),
            ("druaiton", Some("duration")),
            ("no-promisc", Some("no-promiscuous")),
            ("threads", Some("capture-threads")),
            ("wrte", Some("write")),
            ("pps2", Some("pps")),
            ("rotate", None),
            ("interval", None),
            ("verbose", None),
            ("w", None),
            ("", None),
            ("fi", None),
        ] {
            assert_eq!(nearest(given, FLAGS), meant, "{given}");
        }
        assert_eq!(nearest("bp", FLAGS), None, "one slip in two letters");
        assert_eq!(nearest("bpss", FLAGS), Some("bps"), "the nearest, not the first");
    }
}
