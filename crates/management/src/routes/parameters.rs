//! Runtime parameters, and those of the whole cluster.
//!
//! Limits of vhosts and operator policies are parameters as well, as RabbitMQ's tools see them:
//! components `vhost-limits` and `operator_policy`.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use broker_core::VhostName;
use broker_core::metadata::{MetadataChange, Outcome, Vhost};
use broker_core::policy::{PolicyForm, PolicyScope};
use broker_core::term::Term;
use management_api::{GlobalParameter, Parameter};
use serde_json::json;

use super::{GET, GET_PUT_DELETE, Paths, delete_answer, put_answer, resource};
use crate::access::{Administrator, Caller, Policymaker};
use crate::body::Body;
use crate::error::{ApiError, Result};
use crate::list::ListQuery;
use crate::segments::Path;
use crate::show;
use crate::state::Api;

const VHOST_LIMITS: &str = "vhost-limits";
const VHOST_LIMITS_NAME: &str = "limits";
const OPERATOR_POLICY: &str = "operator_policy";
const POLICY: &str = "policy";

pub(super) fn paths() -> Paths {
    Paths::new()
        .route("/parameters", resource(GET, get(list)))
        .route(
            "/parameters/{component}",
            resource(GET, get(list_of_component)),
        )
        .route(
            "/parameters/{component}/{vhost}",
            resource(GET, get(list_of_vhost)),
        )
        .route(
            "/parameters/{component}/{vhost}/{name}",
            resource(GET_PUT_DELETE, get(one).put(put).delete(delete)),
        )
        .route("/global-parameters", resource(GET, get(global_list)))
        .route(
            "/global-parameters/{name}",
            resource(
                GET_PUT_DELETE,
                get(global_one).put(global_put).delete(global_delete),
            ),
        )
}

/// All parameters of a vhost.
fn of_vhost(vhost: &Vhost) -> Vec<Parameter> {
    let parameter = |component: &str, name: &str, value| Parameter {
        value,
        vhost: vhost.name().to_string(),
        component: component.to_owned(),
        name: name.to_owned(),
    };
    let limits = (!vhost.limits().is_empty()).then(|| {
        parameter(
            VHOST_LIMITS,
            VHOST_LIMITS_NAME,
            json!(show::limits(vhost.limits())),
        )
    });
    let policies = vhost.policies(PolicyScope::Operator).iter().map(|policy| {
        let shown = show::policy(vhost.name(), policy);
        let value = json!({
            "pattern": shown.pattern,
            "definition": shown.definition,
            "priority": shown.priority,
            "apply-to": shown.apply_to,
        });
        parameter(OPERATOR_POLICY, &policy.name, value)
    });
    let own = vhost.parameters();
    own.map(|own| parameter(&own.component, &own.name, show::term(&own.value)))
        .chain(limits)
        .chain(policies)
        .collect()
}

async fn list(
    Policymaker(caller): Policymaker,
    query: ListQuery,
    State(api): State<Api>,
) -> Response {
    answer_seen(&api, &caller, &query, |_| true)
}

async fn list_of_component(
    Policymaker(caller): Policymaker,
    Path(component): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Response {
    answer_seen(&api, &caller, &query, |parameter| {
        parameter.component == component
    })
}

fn answer_seen(
    api: &Api,
    caller: &Caller,
    query: &ListQuery,
    is_wanted: impl Fn(&Parameter) -> bool,
) -> Response {
    let metadata = api.broker().metadata();
    let seen = metadata
        .vhosts()
        .filter(|vhost| caller.sees(&metadata, vhost.name()));
    query.answer_whole(
        seen.flat_map(of_vhost).filter(is_wanted).collect(),
        show::json,
    )
}

async fn list_of_vhost(
    Policymaker(caller): Policymaker,
    Path((component, vhost)): Path<(String, String)>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let vhost = VhostName::new(vhost);
    let metadata = api.broker().metadata();
    caller.enter(&metadata, &vhost)?;
    let all = of_vhost(metadata.vhost(&vhost)?).into_iter();
    let rows = all.filter(|parameter| parameter.component == component);
    Ok(query.answer_whole(rows.collect(), show::json))
}

async fn one(
    Policymaker(caller): Policymaker,
    Path((component, vhost, name)): Path<(String, String, String)>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let vhost = VhostName::new(vhost);
    let metadata = api.broker().metadata();
    caller.enter(&metadata, &vhost)?;
    let mut all = of_vhost(metadata.vhost(&vhost)?).into_iter();
    let found = all.find(|parameter| parameter.component == component && parameter.name == name);
    Ok(query.answer_one(show::json(&found.ok_or(ApiError::ObjectNotFound)?)))
}

async fn put(
    Policymaker(caller): Policymaker,
    Path((component, vhost, name)): Path<(String, String, String)>,
    State(api): State<Api>,
    body: Body,
) -> Result<StatusCode> {
    let vhost = VhostName::new(vhost);
    let existed = {
        let metadata = api.broker().metadata();
        let found = metadata.vhost(&vhost)?;
        caller.enter(&metadata, &vhost)?;
        !found.limits().is_empty()
    };
    let value = body
        .term("value")?
        .ok_or_else(|| ApiError::missing(&["value"]))?;
    match component.as_str() {
        // rabbitmq: policies have paths of their own
        POLICY => Err(ApiError::bad_request(
            "policies may not be set using this method",
        )),
        VHOST_LIMITS if name != VHOST_LIMITS_NAME => Err(ApiError::bad_request(
            "the limits of a vhost are a parameter named 'limits'",
        )),
        VHOST_LIMITS => {
            api.apply(MetadataChange::SetVhostLimits {
                vhost,
                limits: value,
            })
            .await?;
            Ok(if existed {
                StatusCode::NO_CONTENT
            } else {
                StatusCode::CREATED
            })
        }
        OPERATOR_POLICY => {
            let policy = PolicyForm {
                name: name.into(),
                pattern: value.get("pattern").cloned(),
                apply_to: value.get("apply-to").cloned(),
                definition: value.get("definition").cloned(),
                priority: value.get("priority").cloned(),
            };
            let scope = PolicyScope::Operator;
            Ok(put_answer(
                &api.apply(MetadataChange::SetPolicy {
                    vhost,
                    scope,
                    policy,
                })
                .await?,
            ))
        }
        _ => {
            let (component, name) = (component.into(), name.into());
            let change = MetadataChange::SetParameter {
                component,
                vhost,
                name,
                value,
            };
            Ok(put_answer(&api.apply(change).await?))
        }
    }
}

async fn delete(
    Policymaker(caller): Policymaker,
    Path((component, vhost, name)): Path<(String, String, String)>,
    State(api): State<Api>,
) -> Result<StatusCode> {
    let vhost = VhostName::new(vhost);
    caller.enter(&api.broker().metadata(), &vhost)?;
    let outcome: Outcome = match component.as_str() {
        VHOST_LIMITS if name != VHOST_LIMITS_NAME => return Err(ApiError::ObjectNotFound),
        VHOST_LIMITS => {
            let limits = Term::Map(Vec::new());
            api.apply(MetadataChange::SetVhostLimits { vhost, limits })
                .await?
        }
        OPERATOR_POLICY => {
            let scope = PolicyScope::Operator;
            api.apply(MetadataChange::DeletePolicy {
                vhost,
                scope,
                name: name.into(),
            })
            .await?
        }
        _ => {
            let (component, name) = (component.into(), name.into());
            api.apply(MetadataChange::ClearParameter {
                component,
                vhost,
                name,
            })
            .await?
        }
    };
    delete_answer(&outcome)
}

fn global(name: &str, value: &Term) -> GlobalParameter {
    GlobalParameter {
        name: name.to_owned(),
        value: show::term(value),
    }
}

async fn global_list(_: Policymaker, query: ListQuery, State(api): State<Api>) -> Response {
    let metadata = api.broker().metadata();
    let rows = metadata
        .global_parameters()
        .map(|(name, value)| global(name, value));
    query.answer_whole(rows.collect(), show::json)
}

async fn global_one(
    _: Policymaker,
    Path(name): Path<String>,
    query: ListQuery,
    State(api): State<Api>,
) -> Result<Response> {
    let metadata = api.broker().metadata();
    let found = metadata
        .global_parameters()
        .find(|(other, _)| *other == name);
    let (name, value) = found.ok_or(ApiError::ObjectNotFound)?;
    Ok(query.answer_one(show::json(&global(name, value))))
}

async fn global_put(
    _: Administrator,
    Path(name): Path<String>,
    State(api): State<Api>,
    body: Body,
) -> Result<StatusCode> {
    let value = body
        .term("value")?
        .ok_or_else(|| ApiError::missing(&["value"]))?;
    let change = MetadataChange::SetGlobalParameter {
        name: name.into(),
        value,
    };
    Ok(put_answer(&api.apply(change).await?))
}

async fn global_delete(
    _: Administrator,
    Path(name): Path<String>,
    State(api): State<Api>,
) -> Result<StatusCode> {
    delete_answer(
        &api.apply(MetadataChange::ClearGlobalParameter { name: name.into() })
            .await?,
    )
}
