//! Users.

use auth::{HashedPassword, HashingAlgorithm};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use broker_core::UserName;
use broker_core::definitions::parse_tags;
use broker_core::metadata::MetadataChange;
use serde_json::{Value, json};

use super::{GET, GET_PUT_DELETE, POST, Paths, delete_answer, put_answer, resource};
use crate::access::Administrator;
use crate::body::Body;
use crate::error::{ApiError, Result};
use crate::list::ListQuery;
use crate::segments::Path;
use crate::show;
use crate::state::Api;

pub(super) fn paths() -> Paths {
    Paths::new()
        .route("/users", resource(GET, get(list)))
        .route(
            "/users/without-permissions",
            resource(GET, get(without_permissions)),
        )
        .route("/users/bulk-delete", resource(POST, post(bulk_delete)))
        .route(
            "/users/{user}",
            resource(GET_PUT_DELETE, get(one).put(put).delete(delete)),
        )
        .route("/users/{user}/permissions", resource(GET, get(permissions)))
        .route(
            "/users/{user}/topic-permissions",
            resource(GET, get(topic_permissions)),
        )
        .route("/users/{user}/queues", resource(GET, get(queues)))
}

async fn list(_: Administrator, query: ListQuery, State(api): State<Api>) -> Result<Response> {
    let metadata = api.broker().metadata();
    let rows = metadata
        .users()
        .map(|(name, user)| show::user(name, user, metadata.user_limits(name)));
    query.answer(rows.collect(), |user| &user.name, show::json)
}

async fn without_permissions(
    _: Administrator,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let metadata = api.broker().metadata();
    let has_none = |name: &UserName| !metadata.permissions().any(|(user, _, _)| user == name);
    let rows = metadata
        .users()
        .filter(|(name, _)| has_none(name))
        .map(|(name, user)| show::user(name, user, metadata.user_limits(name)));
    query.answer(rows.collect(), |user| &user.name, show::json)
}

async fn one(
    _: Administrator,
    Path(user): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let name = UserName::new(user);
    let metadata = api.broker().metadata();
    let user = metadata.user(&name).ok_or(ApiError::ObjectNotFound)?;
    Ok(query.answer_one(show::json(&show::user(
        &name,
        user,
        metadata.user_limits(&name),
    ))))
}

async fn put(
    _: Administrator,
    Path(user): Path<String>,
    State(api): State<Api>,
    body: Body,
) -> Result<StatusCode> {
    let tags = body
        .term("tags")?
        .ok_or_else(|| ApiError::bad_request("tags_not_present"))?;
    let (password_hash, hashing_algorithm) = credentials(&body)?;
    let outcome = api
        .apply(MetadataChange::PutUser {
            user: UserName::new(user),
            password_hash,
            hashing_algorithm,
            tags: parse_tags(&tags),
        })
        .await?;
    Ok(put_answer(&outcome))
}

/// The stored form of what the body says, and the name of its hash. Without a password nobody
/// logs in with one.
fn credentials(body: &Body) -> Result<(Box<str>, Box<str>)> {
    let named = body.text("hashing_algorithm")?;
    let algorithm = match named {
        Some(name) => name
            .parse()
            .map_err(|_| ApiError::bad_request(json!(["unknown_hashing_algorithm", name])))?,
        None => HashingAlgorithm::default(),
    };
    let hash = if let Some(hash) = body.text("password_hash")? {
        if BASE64_STANDARD.decode(hash).is_err() {
            return Err(ApiError::bad_request(json!(["not_base64", hash])));
        }
        hash.to_owned()
    } else {
        match body.text("password")? {
            Some(password) if !password.is_empty() => {
                HashedPassword::new(algorithm, password.as_bytes()).to_string()
            }
            _ => String::new(),
        }
    };
    Ok((hash.into(), algorithm.name().into()))
}

async fn delete(
    _: Administrator,
    Path(user): Path<String>,
    State(api): State<Api>,
) -> Result<StatusCode> {
    delete_answer(
        &api.apply(MetadataChange::DeleteUser {
            user: UserName::new(user),
        })
        .await?,
    )
}

async fn bulk_delete(_: Administrator, State(api): State<Api>, body: Body) -> Result<StatusCode> {
    body.require(&["users"])?;
    let Some(Value::Array(users)) = body.get("users") else {
        return Err(ApiError::bad_request("users must be an array of names"));
    };
    // rabbitmq: names of nobody are passed over
    for user in users.iter().filter_map(Value::as_str) {
        api.apply(MetadataChange::DeleteUser {
            user: UserName::new(user),
        })
        .await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn permissions(
    _: Administrator,
    Path(user): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let name = UserName::new(user);
    let metadata = api.broker().metadata();
    metadata.user(&name).ok_or(ApiError::ObjectNotFound)?;
    let of_user = metadata.permissions().filter(|(user, _, _)| **user == name);
    let rows = of_user.map(|(user, vhost, record)| show::permission(user, vhost, record));
    Ok(query.answer_whole(rows.collect(), show::json))
}

async fn topic_permissions(
    _: Administrator,
    Path(user): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let name = UserName::new(user);
    let metadata = api.broker().metadata();
    metadata.user(&name).ok_or(ApiError::ObjectNotFound)?;
    let of_user = metadata
        .topic_permissions()
        .filter(|(user, _, _, _)| **user == name);
    let rows = of_user.map(|(u, v, x, record)| show::topic_permission(u, v, x, record));
    Ok(query.answer_whole(rows.collect(), show::json))
}

/// Queues are not kept with who declared them.
async fn queues(
    _: Administrator,
    Path(user): Path<String>,
    State(api): State<Api>,
) -> Result<axum::Json<Vec<Value>>> {
    let metadata = api.broker().metadata();
    metadata
        .user(&UserName::new(user))
        .ok_or(ApiError::ObjectNotFound)?;
    Ok(axum::Json(Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(json: &str) -> Body {
        Body::parse(json.as_bytes()).expect("an object")
    }

    #[test]
    fn a_password_is_stored_as_a_salted_hash() {
        let (hash, algorithm) = credentials(&body(r#"{"password":"secret"}"#)).expect("a hash");
        assert_eq!(&*algorithm, "rabbit_password_hashing_sha256");
        let stored = HashedPassword::read(HashingAlgorithm::default(), &hash).expect("readable");
        assert!(stored.matches(b"secret") && !stored.matches(b"other"));
    }

    #[test]
    fn an_empty_password_and_no_password_let_nobody_in() {
        for json in [r#"{"password":""}"#, "{}", r#"{"password_hash":""}"#] {
            assert_eq!(
                credentials(&body(json)).map(|(hash, _)| hash),
                Ok("".into()),
                "{json}"
            );
        }
    }

    #[test]
    fn a_hash_that_is_not_base64_is_refused() {
        let refused = credentials(&body(r#"{"password_hash":"***"}"#));
        assert_eq!(
            refused,
            Err(ApiError::bad_request(json!(["not_base64", "***"])))
        );
    }
}
