//! Refusals as HTTP answers: the one place that knows status codes and RabbitMQ's words for them.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use broker_core::Refusal;
use broker_core::refusal::RefusalCode;
use management_api::ErrorBody;
use serde_json::{Value, json};

pub(crate) type Result<T, E = ApiError> = std::result::Result<T, E>;

/// Why a request is not carried out, sorted by status.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ApiError {
    /// 401: no credentials came.
    NoCredentials,
    /// 401: they are wrong.
    BadCredentials,
    /// 401: they are right, but the user may not.
    NotAuthorised(&'static str),
    /// 404: the thing that the path names is missing.
    ObjectNotFound,
    /// 404: something that the request names is missing, or not for this user.
    NotFound(String),
    /// 400 with an error word of its own.
    Refused { error: &'static str, reason: Value },
    /// 412.
    Precondition(String),
    /// 500: the text goes to the log.
    Broken(String),
}

impl ApiError {
    /// 400 of the usual kind.
    pub(crate) fn bad_request(reason: impl Into<Value>) -> Self {
        Self::Refused {
            error: "bad_request",
            reason: reason.into(),
        }
    }

    /// 400 for fields that are missing, in the order given.
    pub(crate) fn missing(keys: &[&str]) -> Self {
        let keys: Vec<_> = keys
            .iter()
            .map(|key| format!("{{key_missing,{key}}}"))
            .collect();
        Self::bad_request(format!("[{}]", keys.join(",")))
    }

    /// 404 for what this user must not know of.
    pub(crate) fn hidden() -> Self {
        Self::NotFound("Not Found".into())
    }
}

/// What an operation over AMQP would be told as 403.
pub(crate) const ACCESS_REFUSED: &str = "Access refused.";

impl From<Refusal> for ApiError {
    // rabbitmq: management answers to closes of its internal channels
    fn from(refusal: Refusal) -> Self {
        match &refusal {
            Refusal::VhostNotFound { .. } => return Self::NotFound("vhost_not_found".into()),
            Refusal::VhostProtected { .. } => return Self::Precondition(refusal.to_string()),
            // The user must learn where the policy can be changed.
            Refusal::PolicyReadOnly { .. } => return Self::bad_request(refusal.to_string()),
            _ => {}
        }
        match refusal.code() {
            RefusalCode::NotFound => Self::NotFound(refusal.to_string()),
            RefusalCode::AccessRefused => Self::NotAuthorised(ACCESS_REFUSED),
            RefusalCode::InternalError => Self::Broken(refusal.to_string()),
            _ => Self::bad_request(refusal.to_string()),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        match self {
            Self::NoCredentials => {
                let realm = HeaderValue::from_static("Basic realm=\"RabbitMQ Management\"");
                (
                    StatusCode::UNAUTHORIZED,
                    [(header::WWW_AUTHENTICATE, realm)],
                )
                    .into_response()
            }
            Self::BadCredentials => answer(
                StatusCode::UNAUTHORIZED,
                "not_authorized",
                json!("Not_Authorized"),
            ),
            Self::NotAuthorised(reason) => {
                answer(StatusCode::UNAUTHORIZED, "not_authorised", json!(reason))
            }
            Self::ObjectNotFound => answer(
                StatusCode::NOT_FOUND,
                "Object Not Found",
                json!("Not Found"),
            ),
            Self::NotFound(reason) => answer(StatusCode::NOT_FOUND, "not_found", json!(reason)),
            Self::Refused { error, reason } => answer(StatusCode::BAD_REQUEST, error, reason),
            Self::Precondition(reason) => answer(
                StatusCode::PRECONDITION_FAILED,
                "precondition_failed",
                json!(reason),
            ),
            Self::Broken(why) => {
                tracing::error!(why, "a request to the HTTP API failed");
                let reason = json!("see the log of the node");
                answer(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", reason)
            }
        }
    }
}

fn answer(status: StatusCode, error: &str, reason: Value) -> Response {
    (
        status,
        Json(ErrorBody {
            error: error.into(),
            reason,
        }),
    )
        .into_response()
}
