//! A description of the API, written from the table of paths that is served and from the shapes
//! that are answered, so that it cannot tell of anything else.
// openapi 3.1.0

use axum::Json;
use axum::extract::State;
use axum::routing::get;
use management_api as shapes;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{GET, Paths, resource};
use crate::state::Api;

pub(super) fn paths() -> Paths {
    Paths::new().route("/openapi.json", resource(GET, get(document)))
}

/// Needs no login: it says what everybody may know.
async fn document(State(api): State<Api>) -> Json<Value> {
    let options = api.options();
    Json(describe(&options.product_name, &options.product_version))
}

/// How an answer or a request consists of a shape.
#[derive(Clone, Copy)]
enum Form {
    /// One object.
    One,
    /// An array of them.
    List,
    /// An array, or a page of them when the query asks for one.
    Pages,
}

/// What a method of a path takes or answers.
struct Said {
    method: &'static str,
    path: &'static str,
    form: Form,
    shape: fn(&mut SchemaGenerator) -> schemars::Schema,
}

fn said<T: JsonSchema>(method: &'static str, path: &'static str, form: Form) -> Said {
    Said {
        method,
        path,
        form,
        shape: SchemaGenerator::subschema_for::<T>,
    }
}

/// Answers with a shape of their own.
fn answers() -> Vec<Said> {
    use Form::{List, One, Pages};
    let get = "get";
    vec![
        said::<shapes::Overview>(get, "/overview", One),
        said::<shapes::ClusterName>(get, "/cluster-name", One),
        said::<shapes::Node>(get, "/nodes", List),
        said::<shapes::Node>(get, "/nodes/{node}", One),
        said::<shapes::Memory>(get, "/nodes/{node}/memory", One),
        said::<shapes::WhoAmI>(get, "/whoami", One),
        said::<shapes::Connection>(get, "/connections", Pages),
        said::<shapes::Connection>(get, "/connections/{name}", One),
        said::<shapes::Connection>(get, "/vhosts/{vhost}/connections", Pages),
        said::<shapes::UserConnection>(get, "/connections/username/{user}", List),
        said::<shapes::Channel>(get, "/connections/{name}/channels", List),
        said::<shapes::Channel>(get, "/channels", Pages),
        said::<shapes::Channel>(get, "/channels/{name}", One),
        said::<shapes::Channel>(get, "/vhosts/{vhost}/channels", Pages),
        said::<shapes::Consumer>(get, "/consumers", List),
        said::<shapes::Consumer>(get, "/consumers/{vhost}", List),
        said::<shapes::Exchange>(get, "/exchanges", Pages),
        said::<shapes::Exchange>(get, "/exchanges/{vhost}", Pages),
        said::<shapes::Exchange>(get, "/exchanges/{vhost}/{exchange}", One),
        said::<shapes::Binding>(get, "/exchanges/{vhost}/{exchange}/bindings/source", List),
        said::<shapes::Binding>(
            get,
            "/exchanges/{vhost}/{exchange}/bindings/destination",
            List,
        ),
        said::<shapes::Queue>(get, "/queues", Pages),
        said::<shapes::Queue>(get, "/queues/detailed", Pages),
        said::<shapes::Queue>(get, "/queues/{vhost}", Pages),
        said::<shapes::Queue>(get, "/queues/{vhost}/{queue}", One),
        said::<shapes::Binding>(get, "/queues/{vhost}/{queue}/bindings", List),
        said::<shapes::QueuedMessage>(get, "/queues/{vhost}/{queue}/peek", List),
        said::<shapes::QueuedMessage>(get, "/queues/{vhost}/{queue}/unacked", List),
        said::<shapes::QueueWhy>(get, "/queues/{vhost}/{queue}/why", One),
        said::<shapes::QueueSettings>(get, "/queues/{vhost}/{queue}/settings", One),
        said::<shapes::PublisherWhy>(get, "/publishers/{publisher}/why", One),
        said::<shapes::EventShape>(get, "/events", One),
        said::<shapes::Disk>(get, "/disk", One),
        said::<shapes::QueueDisk>(get, "/queues/{vhost}/{queue}/disk", One),
        said::<shapes::Incident>(get, "/incidents", Pages),
        said::<shapes::Incident>(get, "/incidents/{vhost}", Pages),
        said::<shapes::Incident>(get, "/incidents/{vhost}/{queue}", Pages),
        said::<shapes::IncidentCount>(get, "/incident-counts", List),
        said::<shapes::GotMessage>("post", "/queues/{vhost}/{queue}/get", List),
        said::<shapes::MoveReport>("post", "/queues/{vhost}/{queue}/move", One),
        said::<shapes::MoveReport>("post", "/queues/{vhost}/{queue}/redrive", One),
        said::<shapes::Routed>("post", "/exchanges/{vhost}/{exchange}/publish", One),
        said::<shapes::RouteAnswer>("post", "/exchanges/{vhost}/{exchange}/route", One),
        said::<shapes::Binding>(get, "/bindings", List),
        said::<shapes::Binding>(get, "/bindings/{vhost}", List),
        said::<shapes::Vhost>(get, "/vhosts", Pages),
        said::<shapes::Vhost>(get, "/vhosts/{vhost}", One),
        said::<shapes::User>(get, "/users", Pages),
        said::<shapes::User>(get, "/users/{user}", One),
        said::<shapes::Permission>(get, "/permissions", List),
        said::<shapes::Permission>(get, "/permissions/{vhost}/{user}", One),
        said::<shapes::TopicPermission>(get, "/topic-permissions", List),
        said::<shapes::Policy>(get, "/policies", List),
        said::<shapes::Policy>(get, "/policies/{vhost}", List),
        said::<shapes::Policy>(get, "/policies/{vhost}/{policy}", One),
        said::<shapes::Policy>(get, "/operator-policies", List),
        said::<shapes::Policy>(get, "/operator-policies/{vhost}", List),
        said::<shapes::Policy>(get, "/operator-policies/{vhost}/{policy}", One),
        said::<shapes::Parameter>(get, "/parameters", List),
        said::<shapes::GlobalParameter>(get, "/global-parameters", List),
        said::<shapes::Limits>(get, "/vhost-limits", List),
        said::<shapes::Limits>(get, "/vhost-limits/{vhost}", List),
        said::<shapes::Limits>(get, "/user-limits", List),
        said::<shapes::Limits>(get, "/user-limits/{user}", List),
        said::<shapes::FeatureFlag>(get, "/feature-flags", List),
        said::<shapes::DeprecatedFeature>(get, "/deprecated-features", List),
        said::<shapes::AuthAttempts>(get, "/auth/attempts/{node}", List),
        said::<shapes::Health>(get, "/health/checks/alarms", One),
        said::<shapes::Health>(get, "/health/checks/local-alarms", One),
    ]
}

/// Requests with a shape of their own.
fn requests() -> Vec<Said> {
    use Form::One;
    vec![
        said::<shapes::PublishRequest>("post", "/exchanges/{vhost}/{exchange}/publish", One),
        said::<shapes::RouteQuestion>("post", "/exchanges/{vhost}/{exchange}/route", One),
        said::<shapes::GetRequest>("post", "/queues/{vhost}/{queue}/get", One),
        said::<shapes::MoveRequest>("post", "/queues/{vhost}/{queue}/move", One),
        said::<shapes::MoveRequest>("post", "/queues/{vhost}/{queue}/redrive", One),
    ]
}

/// Parameters of every list that can be had by pages.
const PAGING: [(&str, &str, &str); 8] = [
    (
        "page",
        "integer",
        "number of the page, from 1; without it all items come in one array",
    ),
    ("page_size", "integer", "most items of a page, at most 500"),
    ("name", "string", "only items whose name contains this"),
    ("use_regex", "boolean", "name is a regular expression"),
    ("sort", "string", "field to sort by, dotted for inner ones"),
    ("sort_reverse", "boolean", "sorts the other way round"),
    ("columns", "string", "fields to answer, separated by commas"),
    ("disable_stats", "boolean", "leaves figures out"),
];

/// The whole document.
fn describe(product: &str, version: &str) -> Value {
    let mut generator = schemars::generate::SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let (answers, requests) = (answers(), requests());
    let error = generator.subschema_for::<shapes::ErrorBody>();
    let mut paths = Map::new();
    for (path, allow) in super::all().listed {
        let mut item = Map::new();
        let methods = allow.split(", ").map(str::to_lowercase);
        for method in methods.filter(|method| !matches!(method.as_str(), "head" | "options")) {
            let find = |said: &[Said]| -> Option<usize> {
                said.iter()
                    .position(|said| said.path == path && said.method == method)
            };
            let answer = find(&answers).map(|at| &answers[at]);
            let request = find(&requests).map(|at| &requests[at]);
            let described = operation(&method, path, answer, request, &error, &mut generator);
            item.insert(method, described);
        }
        paths.insert(format!("/api{path}"), item.into());
    }
    let schemas = generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {"title": format!("{product} HTTP API"), "version": version},
        "security": [{"basic": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
        },
    })
}

fn operation(
    method: &str,
    path: &str,
    answer: Option<&Said>,
    request: Option<&Said>,
    error: &schemars::Schema,
    generator: &mut SchemaGenerator,
) -> Value {
    let mut parameters: Vec<Value> = path
        .split('/')
        .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| {
            json!({"name": name.trim_start_matches('*'), "in": "path", "required": true,
                   "schema": {"type": "string"}})
        })
        .collect();
    let is_paged = answer.is_some_and(|said| matches!(said.form, Form::Pages));
    if is_paged {
        let paging = PAGING.iter().map(|(name, kind, about)| {
            json!({"name": name, "in": "query", "description": about, "schema": {"type": kind}})
        });
        parameters.extend(paging);
    }
    let success = match method {
        "get" | "post" => "200",
        "put" => "201",
        _ => "204",
    };
    let mut done = json!({"description": "done"});
    if let Some(said) = answer {
        let shape = (said.shape)(generator);
        let list = json!({"type": "array", "items": shape.clone()});
        let schema = match said.form {
            Form::One => json!(shape),
            Form::List => list,
            Form::Pages => {
                let page = json!({
                    "type": "object",
                    "properties": {
                        "filtered_count": {"type": "integer"}, "item_count": {"type": "integer"},
                        "items": list.clone(), "page": {"type": "integer"},
                        "page_count": {"type": "integer"}, "page_size": {"type": "integer"},
                        "total_count": {"type": "integer"},
                    },
                });
                json!({"oneOf": [list, page]})
            }
        };
        done["content"] = json!({"application/json": {"schema": schema}});
    }
    let refused = |about: &str| json!({"description": about, "content": {"application/json": {"schema": error}}});
    let mut described = json!({
        "operationId": operation_id(method, path),
        "parameters": parameters,
        "responses": {
            success: done,
            "400": refused("the request is wrong"),
            "401": refused("no login, or not for this user"),
            "404": refused("what was named is not there"),
        },
    });
    if let Some(said) = request {
        let schema = (said.shape)(generator);
        described["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": schema}}});
    }
    described
}

/// Method and path in one word, the same in every version.
fn operation_id(method: &str, path: &str) -> String {
    let words = path.split(|character: char| !character.is_ascii_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    std::iter::once(method)
        .chain(words)
        .collect::<Vec<_>>()
        .join("_")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_shape_belongs_to_a_method_that_is_served() {
        let served = super::super::all().listed;
        for said in answers().iter().chain(&requests()) {
            let is_served = served.iter().any(|(path, allow)| {
                *path == said.path && allow.to_lowercase().split(", ").any(|m| m == said.method)
            });
            assert!(is_served, "{} {}", said.method, said.path);
        }
    }

    #[test]
    fn every_reference_leads_to_a_schema() {
        let document = describe("x", "1");
        let schemas = document["components"]["schemas"]
            .as_object()
            .expect("schemas");
        let text = document.to_string();
        let references = text.split("#/components/schemas/").skip(1);
        for reference in references {
            let name: String = reference.chars().take_while(|c| *c != '"').collect();
            assert!(schemas.contains_key(&name), "{name}");
        }
        assert!(schemas.contains_key("Queue"));
    }

    #[test]
    fn operations_have_names_of_their_own() {
        let document = describe("x", "1");
        let paths = document["paths"].as_object().expect("paths");
        let mut seen = HashSet::new();
        for (path, item) in paths {
            for operation in item.as_object().expect("methods").values() {
                let id = operation["operationId"].as_str().expect("a name");
                assert!(seen.insert(id.to_owned()), "{path}: {id}");
            }
        }
        assert!(seen.len() > 100, "{}", seen.len());
    }
}
