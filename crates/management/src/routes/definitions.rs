//! Export and import of definitions.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use broker_core::VhostName;
use broker_core::definitions::{Definitions, Exporter};
use broker_core::metadata::MetadataChange;

use super::{GET_POST, Paths, resource};
use crate::access::Administrator;
use crate::apart::apart;
use crate::error::{ApiError, Result};
use crate::paths::encoded_segment;
use crate::segments::Path;
use crate::state::Api;

pub(super) fn paths() -> Paths {
    Paths::new()
        .route("/definitions", resource(GET_POST, get(export).post(import)))
        .route(
            "/definitions/{vhost}",
            resource(GET_POST, get(export_vhost).post(import_vhost)),
        )
}

fn exporter(api: &Api) -> Exporter {
    let options = api.options();
    Exporter {
        rabbitmq_version: options.rabbitmq_version.clone(),
        product_name: options.product_name.clone(),
        product_version: options.product_version.clone(),
        cluster_name: api.cluster_name(),
    }
}

async fn export(_: Administrator, State(api): State<Api>) -> Result<Response> {
    apart(move || {
        let exporter = exporter(&api);
        let definitions = Definitions::of_cluster(&api.broker().metadata(), &exporter);
        Ok(Json(definitions).into_response())
    })
    .await
}

async fn export_vhost(
    _: Administrator,
    Path(vhost): Path<String>,
    State(api): State<Api>,
) -> Result<Response> {
    apart(move || {
        let exporter = exporter(&api);
        let vhost = VhostName::new(vhost);
        let definitions = Definitions::of_vhost(&api.broker().metadata(), &vhost, &exporter);
        Ok(Json(definitions.map_err(|_| ApiError::ObjectNotFound)?).into_response())
    })
    .await
}

async fn import(_: Administrator, State(api): State<Api>, body: Bytes) -> Result<Response> {
    let definitions = parse(&body)?;
    let groups = api.broker().group_count();
    let changes = definitions.changes(&api.broker().metadata(), Default::default(), groups)?;
    apply(&api, changes).await
}

async fn import_vhost(
    _: Administrator,
    Path(vhost): Path<String>,
    State(api): State<Api>,
    body: Bytes,
) -> Result<Response> {
    let vhost = VhostName::new(vhost);
    api.broker().metadata().vhost(&vhost)?;
    let definitions = parse(&body)?;
    let groups = api.broker().group_count();
    let changes =
        definitions.changes_in(&api.broker().metadata(), &vhost, Default::default(), groups)?;
    apply(&api, changes).await
}

/// JSON, or the first part of a form that holds a file.
fn parse(body: &[u8]) -> Result<Definitions> {
    let json = first_part(body).unwrap_or(body);
    if !json.trim_ascii_start().starts_with(b"{") {
        return Err(ApiError::bad_request("failed_to_parse_json"));
    }
    serde_json::from_slice(json).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => ApiError::bad_request(error.to_string()),
        _ => ApiError::bad_request("failed_to_parse_json"),
    })
}

/// The content of the first part of a multipart body.
// rfc 2046, section 5.1.1
fn first_part(body: &[u8]) -> Option<&[u8]> {
    let line_end = find(body, b"\r\n")?;
    let boundary = &body[..line_end];
    if !boundary.starts_with(b"--") {
        return None;
    }
    let head_end = find(body, b"\r\n\r\n")? + 4;
    let content = &body[head_end..];
    let closing = [b"\r\n", boundary].concat();
    Some(&content[..find(content, &closing)?])
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

/// Names the queues that an import passed over, as `vhost/queue`, separated by commas.
const SKIPPED_HEADER: HeaderName = HeaderName::from_static("x-skipped-queues");

async fn apply(api: &Api, changes: Vec<MetadataChange>) -> Result<Response> {
    let skipped = api.broker().import(changes).await?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    if !skipped.is_empty() {
        let names = skipped.iter().map(|(vhost, queue)| {
            format!(
                "{}/{}",
                encoded_segment(vhost.as_str()),
                encoded_segment(queue.as_str())
            )
        });
        let names = names.collect::<Vec<_>>().join(",");
        let names = HeaderValue::try_from(names)
            .map_err(|error| ApiError::Broken(format!("the queues passed over: {error}")))?;
        response.headers_mut().insert(SKIPPED_HEADER, names);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_a_form_is_read_like_a_plain_body() {
        let form = b"--x1\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n{\"queues\": []}\r\n--x1--\r\n";
        let definitions = parse(form).expect("definitions");
        assert_eq!(definitions.queues, Some(Vec::new()));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for body in [&b"[]"[..], b"x", b"", b"{\"queues\":"] {
            let refused = parse(body).map(|_| ());
            assert_eq!(refused, Err(ApiError::bad_request("failed_to_parse_json")));
        }
        assert!(parse(b"{\"queues\": [{\"name\": \"x\"}]}").is_err());
    }
}
