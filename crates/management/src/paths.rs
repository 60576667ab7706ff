//! Paths as clients write them, and names inside of paths.

use axum::extract::Request;
use axum::http::Uri;
use axum::http::uri::PathAndQuery;

/// The public name of the exchange whose name is empty.
pub(crate) const DEFAULT_EXCHANGE: &str = "amq.default";

/// Takes one slash off the end and gives empty segments the name that they stand for: the default
/// exchange's.
// rabbitmq: an empty path segment and amq.default mean the same exchange
pub(crate) async fn normalise(mut request: Request) -> Request {
    let path = request.uri().path();
    let tidy = tidied(path);
    if tidy != path
        && let Some(uri) = with_path(request.uri(), &tidy)
    {
        *request.uri_mut() = uri;
    }
    request
}

fn tidied(path: &str) -> String {
    let path = match path.strip_suffix('/') {
        Some(stripped) if !stripped.is_empty() => stripped,
        _ => path,
    };
    let Some(rest) = path.strip_prefix('/') else {
        return path.to_owned();
    };
    if rest.is_empty() {
        return path.to_owned();
    }
    let mut tidy = String::with_capacity(path.len());
    for segment in rest.split('/') {
        tidy.push('/');
        tidy.push_str(if segment.is_empty() {
            DEFAULT_EXCHANGE
        } else {
            segment
        });
    }
    tidy
}

fn with_path(uri: &Uri, path: &str) -> Option<Uri> {
    let path_and_query = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path_and_query).ok()?);
    Uri::from_parts(parts).ok()
}

/// An exchange's name as it is, from its name in a path.
pub(crate) fn exchange_name(in_path: &str) -> &str {
    match in_path {
        DEFAULT_EXCHANGE => "",
        name => name,
    }
}

/// Percent-encodes a path segment.
pub(crate) fn encoded_segment(text: &str) -> String {
    encode(
        text,
        |octet| octet.is_ascii_alphanumeric() || b"-._~".contains(&octet),
        false,
    )
}

/// Encodes as forms do: a space is a plus.
// rabbitmq: properties_key; a tilde separates its parts, so it is encoded too
pub(crate) fn form_encoded(text: &str) -> String {
    encode(
        text,
        |octet| octet.is_ascii_alphanumeric() || b"-._".contains(&octet),
        true,
    )
}

fn encode(text: &str, is_plain: impl Fn(u8) -> bool, plus_for_space: bool) -> String {
    use std::fmt::Write;
    let mut encoded = String::with_capacity(text.len());
    for octet in text.bytes() {
        match octet {
            b' ' if plus_for_space => encoded.push('+'),
            octet if is_plain(octet) => encoded.push(char::from(octet)),
            octet => write!(encoded, "%{octet:02X}").expect("a string takes any text"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slash_at_the_end_means_nothing() {
        assert_eq!(tidied("/api/queues/"), "/api/queues");
        assert_eq!(tidied("/api/queues"), "/api/queues");
        assert_eq!(tidied("/"), "/");
    }

    #[test]
    fn an_empty_segment_names_the_default_exchange() {
        assert_eq!(
            tidied("/api/exchanges/%2F//publish"),
            "/api/exchanges/%2F/amq.default/publish"
        );
        assert_eq!(
            tidied("/api/exchanges/%2F//"),
            "/api/exchanges/%2F/amq.default"
        );
    }

    #[test]
    fn the_query_stays_when_the_path_changes() {
        let uri: Uri = "/api/queues/?page=1&name=a%2Fb".parse().expect("a URI");
        let changed = with_path(&uri, &tidied(uri.path())).expect("a URI");
        assert_eq!(changed, "/api/queues?page=1&name=a%2Fb");
    }

    #[test]
    fn binding_keys_are_encoded_as_in_forms() {
        assert_eq!(form_encoded("a.b/c d#~"), "a.b%2Fc+d%23%7E");
        assert_eq!(encoded_segment("a.b%2Fc+d~x"), "a.b%252Fc%2Bd~x");
    }
}
