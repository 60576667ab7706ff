//! Vhosts, their protection from deletion, and lists of what belongs to one.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use broker::observe::TrafficCounts;
use broker_core::VhostName;
use broker_core::definitions::{parse_default_queue_type, parse_tags};
use broker_core::metadata::{MetadataChange, VhostRecord};
use serde_json::{Value, json};

use super::{
    GET, GET_POST_DELETE, GET_PUT_DELETE, POST, Paths, delete_answer, put_answer, resource,
};
use crate::access::{Administrator, Caller};
use crate::apart::apart;
use crate::body::Body;
use crate::error::{ApiError, Result};
use crate::list::ListQuery;
use crate::segments::Path;
use crate::show::{self, stats::Histories};
use crate::state::Api;

pub(super) fn paths() -> Paths {
    Paths::new()
        .route("/vhosts", resource(GET, get(list)))
        .route(
            "/vhosts/{vhost}",
            resource(GET_PUT_DELETE, get(one).put(put).delete(delete)),
        )
        .route(
            "/vhosts/{vhost}/permissions",
            resource(GET, get(permissions)),
        )
        .route(
            "/vhosts/{vhost}/topic-permissions",
            resource(GET, get(topic_permissions)),
        )
        .route(
            "/vhosts/{vhost}/deletion/protection",
            resource(
                GET_POST_DELETE,
                get(protection).post(protect).delete(unprotect),
            ),
        )
        .route("/vhosts/{vhost}/start/{node}", resource(POST, post(start)))
}

async fn list(caller: Caller, query: ListQuery, State(api): State<Api>) -> Result<Response> {
    let names: Vec<VhostName> = {
        let metadata = api.broker().metadata();
        let seen = metadata
            .vhosts()
            .filter(|vhost| caller.sees(&metadata, vhost.name()));
        seen.map(|vhost| vhost.name().clone()).collect()
    };
    apart(move || {
        let (traffic, _) = api.broker().traffic();
        let histories = Histories::of(&query);
        query.answer(
            names,
            |name| name.as_str(),
            |name| {
                let traffic = traffic.get(name).copied().unwrap_or_default();
                let shown = shown(&api, name, &traffic, histories);
                // Deleted while the list was written.
                shown.unwrap_or_else(|| json!({"name": name.as_str()}))
            },
        )
    })
    .await
}

async fn one(
    _: Administrator,
    Path(vhost): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let name = VhostName::new(vhost);
    let (traffic, _) = api.broker().traffic();
    let traffic = traffic.get(&name).copied().unwrap_or_default();
    let shown = shown(&api, &name, &traffic, Histories::of(&query));
    Ok(query.answer_one(shown.ok_or(ApiError::ObjectNotFound)?))
}

fn shown(
    api: &Api,
    name: &VhostName,
    traffic: &TrafficCounts,
    histories: Histories,
) -> Option<Value> {
    let metadata = api.broker().metadata();
    let vhost = metadata.vhost(name).ok()?;
    Some(show::json(&show::vhost(
        api, &metadata, vhost, traffic, histories,
    )))
}

async fn put(
    Administrator(caller): Administrator,
    Path(vhost): Path<String>,
    State(api): State<Api>,
    body: Body,
) -> Result<StatusCode> {
    let vhost = VhostName::new(vhost);
    let current = api
        .broker()
        .metadata()
        .vhost(&vhost)
        .map(|found| found.record().clone())
        .ok();
    let record = record(&body, current.as_ref())?;
    let outcome = api
        .apply(MetadataChange::PutVhost {
            vhost: vhost.clone(),
            record,
        })
        .await?;
    // rabbitmq: who creates a vhost over HTTP may use it
    if outcome.created() {
        let everything = || Box::from(".*");
        api.apply(MetadataChange::SetPermission {
            user: caller.user,
            vhost,
            configure: everything(),
            write: everything(),
            read: everything(),
        })
        .await?;
    }
    Ok(put_answer(&outcome))
}

/// Description, tags and queue type are replaced; tracing and protection stay unless they are
/// given.
// rabbitmq: PUT /api/vhosts
fn record(body: &Body, current: Option<&VhostRecord>) -> Result<VhostRecord> {
    let kept = |key: &str, flag: fn(&VhostRecord) -> bool| match body.get(key) {
        Some(_) => body.flag(key),
        None => Ok(current.is_some_and(flag)),
    };
    Ok(VhostRecord {
        description: body.text("description")?.unwrap_or_default().into(),
        tags: body
            .term("tags")?
            .as_ref()
            .map(parse_tags)
            .unwrap_or_default(),
        default_queue_type: parse_default_queue_type(body.text("default_queue_type")?)?,
        protected_from_deletion: kept("protected_from_deletion", |r| r.protected_from_deletion)?,
        tracing: kept("tracing", |r| r.tracing)?,
    })
}

async fn delete(
    _: Administrator,
    Path(vhost): Path<String>,
    State(api): State<Api>,
) -> Result<StatusCode> {
    let vhost = VhostName::new(vhost);
    delete_answer(&api.apply(MetadataChange::DeleteVhost { vhost }).await?)
}

async fn permissions(
    _: Administrator,
    Path(vhost): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let vhost = VhostName::new(vhost);
    let metadata = api.broker().metadata();
    metadata
        .vhost(&vhost)
        .map_err(|_| ApiError::ObjectNotFound)?;
    let of_vhost = metadata.permissions().filter(|(_, of, _)| **of == vhost);
    let rows = of_vhost.map(|(user, vhost, record)| show::permission(user, vhost, record));
    Ok(query.answer_whole(rows.collect(), show::json))
}

async fn topic_permissions(
    _: Administrator,
    Path(vhost): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let vhost = VhostName::new(vhost);
    let metadata = api.broker().metadata();
    metadata
        .vhost(&vhost)
        .map_err(|_| ApiError::ObjectNotFound)?;
    let of_vhost = metadata
        .topic_permissions()
        .filter(|(_, of, _, _)| **of == vhost);
    let rows = of_vhost.map(|(u, v, x, record)| show::topic_permission(u, v, x, record));
    Ok(query.answer_whole(rows.collect(), show::json))
}

async fn protection(
    _: Administrator,
    Path(vhost): Path<String>,
    State(api): State<Api>,
) -> Result<axum::Json<serde_json::Value>> {
    let metadata = api.broker().metadata();
    let vhost = metadata
        .vhost(&VhostName::new(vhost))
        .map_err(|_| ApiError::ObjectNotFound)?;
    let protected = vhost.record().protected_from_deletion;
    Ok(axum::Json(json!({"protected_from_deletion": protected})))
}

async fn protect(
    _: Administrator,
    Path(vhost): Path<String>,
    State(api): State<Api>,
) -> Result<StatusCode> {
    let change = MetadataChange::ProtectVhost {
        vhost: VhostName::new(&vhost),
        protected: true,
    };
    api.apply(change).await.map_err(|error| match error {
        ApiError::NotFound(_) => ApiError::NotFound(format!(
            "Cannot enable deletion protection of virtual host '{vhost}' because it does not exist"
        )),
        other => other,
    })?;
    Ok(StatusCode::NO_CONTENT)
}

async fn unprotect(
    _: Administrator,
    Path(vhost): Path<String>,
    State(api): State<Api>,
) -> Result<StatusCode> {
    let change = MetadataChange::ProtectVhost {
        vhost: VhostName::new(vhost),
        protected: false,
    };
    api.apply(change).await.map_err(|error| match error {
        ApiError::NotFound(_) => ApiError::ObjectNotFound,
        other => other,
    })?;
    Ok(StatusCode::NO_CONTENT)
}

/// Vhosts of this broker are always started.
async fn start(
    _: Administrator,
    Path((vhost, node)): Path<(String, String)>,
    State(api): State<Api>,
) -> Result<StatusCode> {
    let exists = api
        .broker()
        .metadata()
        .vhost(&VhostName::new(vhost))
        .is_ok();
    if !exists || node != api.node() {
        return Err(ApiError::ObjectNotFound);
    }
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_put_replaces_what_is_said_and_keeps_protection_and_tracing() {
        let current = VhostRecord {
            description: "old".into(),
            protected_from_deletion: true,
            tracing: true,
            ..VhostRecord::default()
        };
        let body = Body::parse(br#"{"tags":"a, b","tracing":false}"#).expect("an object");
        let record = record(&body, Some(&current)).expect("a record");
        assert_eq!(&*record.description, "");
        assert_eq!(record.tags, ["a".into(), "b".into()]);
        assert!(record.protected_from_deletion && !record.tracing);
    }

    #[test]
    fn an_unknown_queue_type_is_refused_in_rabbitmqs_words() {
        let body = Body::parse(br#"{"default_queue_type":"bogus"}"#).expect("an object");
        let refused = record(&body, None).map(|_| ());
        assert_eq!(
            refused,
            Err(ApiError::bad_request("bogus is not a valid queue type"))
        );
    }
}
