//! The values an operator writes as one word: sizes, time spans, addresses, watermarks, limits.
//!
//! Each type reads the text forms that its documentation lists and prints a form that it reads
//! again. Nothing here knows files, keys or layers; who found a bad value names the place.

mod byte_size;
mod cap;
mod listen;
mod secret;
mod span;
mod timeout;
mod watermark;
mod words;

pub use byte_size::ByteSize;
pub use cap::Cap;
pub use listen::{Listen, Port};
pub use secret::Secret;
pub use span::Span;
pub use timeout::Timeout;
pub use watermark::Watermark;
pub use words::{
    ClientCertificates, DeadLetterStrategy, DelayedRetry, DeliveryLimitCounts, Lever, LogFormat,
    LoginFrom, SanType, TimeoutAction, TlsVersion,
};

/// A value that could not be read from its text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not {expected}{}", hint.as_deref().map(|h| format!(": {h}")).unwrap_or_default())]
pub struct ScalarError {
    /// The text as written.
    pub found: String,
    /// What the type reads, in words that follow "expected".
    pub expected: &'static str,
    /// What to write instead, where the text shows what was meant.
    pub hint: Option<String>,
}

impl ScalarError {
    fn new(found: impl Into<String>, expected: &'static str) -> Self {
        Self {
            found: found.into(),
            expected,
            hint: None,
        }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Separates the two halves of a message that crosses serde, which carries text only.
pub(crate) const HINT_MARK: &str = " (hint) ";

/// Reads a scalar from YAML: a string by `FromStr`, a number by its digits. Everything else is a
/// type error with the words of `EXPECTED`, so that `true` or `[]` is never taken for a text.
macro_rules! serde_as_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
                struct Read;
                impl serde::de::Visitor<'_> for Read {
                    type Value = $type;

                    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                        f.write_str(<$type>::EXPECTED)
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(|e| crate::scalar::across_serde(&e))
                    }

                    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<$type, E> {
                        self.visit_str(&number.to_string())
                    }

                    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<$type, E> {
                        self.visit_str(&number.to_string())
                    }

                    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<$type, E> {
                        self.visit_str(&number.to_string())
                    }
                }
                source.deserialize_any(Read)
            }
        }
    };
}
pub(crate) use serde_as_text;

/// The shape of serde's own "invalid value" message, with the hint behind its mark.
pub(crate) fn across_serde<E: serde::de::Error>(error: &ScalarError) -> E {
    let ScalarError {
        found,
        expected,
        hint,
    } = error;
    let hint = hint
        .as_ref()
        .map(|hint| format!("{HINT_MARK}{hint}"))
        .unwrap_or_default();
    E::custom(format!(
        "invalid value: {found:?}, expected {expected}{hint}"
    ))
}

/// Reads a factor, or null for none. Options and variables give it as text.
pub(crate) fn factor<'de, D>(deserializer: D) -> Result<Option<f64>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    #[derive(serde::Deserialize)]
    #[serde(untagged, expecting = "invalid value: this, expected a number or null")]
    enum Written {
        Number(f64),
        Text(String),
    }
    let written: Option<Written> = serde::Deserialize::deserialize(deserializer)?;
    match written {
        None => Ok(None),
        Some(Written::Number(number)) => Ok(Some(number)),
        Some(Written::Text(text)) if text == "null" => Ok(None),
        Some(Written::Text(text)) => text.parse().map(Some).map_err(|_| {
            serde::de::Error::invalid_value(serde::de::Unexpected::Str(&text), &"a number or null")
        }),
    }
}

#[cfg(test)]
mod tests;
