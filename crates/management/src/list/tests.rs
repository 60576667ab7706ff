use axum::body::to_bytes;
use serde_json::json;

use super::*;

fn query(pairs: &[(&str, &str)]) -> ListQuery {
    ListQuery(
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
    )
}

async fn list(pairs: &[(&str, &str)], names: &[&str]) -> Result<Value> {
    let rows: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let show = |name: &String| json!({"name": name, "size": {"is": name.len()}});
    let response = query(pairs).answer(rows, |name| name.as_str(), show)?;
    let bytes = to_bytes(response.into_body(), usize::MAX)
        .await
        .expect("a body");
    Ok(serde_json::from_slice(&bytes).expect("JSON"))
}

fn names(list: &Value) -> Vec<&str> {
    let items = list
        .get("items")
        .unwrap_or(list)
        .as_array()
        .expect("a list");
    items
        .iter()
        .map(|item| item["name"].as_str().expect("a name"))
        .collect()
}

#[tokio::test]
async fn without_a_page_the_whole_list_is_answered() {
    let all = list(&[], &["b", "a"]).await.expect("a list");
    assert_eq!(names(&all), ["b", "a"]);
}

#[tokio::test]
async fn a_page_counts_what_is_filtered_and_what_is_there() {
    let pairs = [("page", "2"), ("page_size", "2"), ("name", "x")];
    let page = list(&pairs, &["x1", "y", "x2", "x3"])
        .await
        .expect("a page");
    assert_eq!(names(&page), ["x3"]);
    let counts = [
        "total_count",
        "filtered_count",
        "item_count",
        "page",
        "page_count",
        "page_size",
    ]
    .map(|key| page[key].as_u64().expect("a count"));
    assert_eq!(counts, [4, 3, 1, 2, 2, 2]);
}

#[tokio::test]
async fn expressions_filter_and_broken_ones_find_nothing() {
    let pairs = [("page", "1"), ("name", "^x[12]$"), ("use_regex", "true")];
    let page = list(&pairs, &["x1", "ax1", "x2", "x3"])
        .await
        .expect("a page");
    assert_eq!(names(&page), ["x1", "x2"]);
    let pairs = [("page", "1"), ("name", "("), ("use_regex", "true")];
    let page = list(&pairs, &["x1"]).await.expect("a page");
    assert!(names(&page).is_empty());
}

#[tokio::test]
async fn lists_are_sorted_by_nested_fields_in_both_directions() {
    let pairs = [("sort", "size.is"), ("sort_reverse", "true")];
    let sorted = list(&pairs, &["aa", "b", "cccc"]).await.expect("a list");
    assert_eq!(names(&sorted), ["cccc", "aa", "b"]);
}

#[tokio::test]
async fn a_list_sorted_by_a_key_shows_only_the_rows_of_its_page() {
    let shown = std::cell::Cell::new(0);
    let show = |name: &&str| {
        shown.set(shown.get() + 1);
        json!({"name": name})
    };
    let key = |name: &&str, field: &str| (field == "length").then(|| json!(name.len()));
    let query = query(&[("page", "1"), ("page_size", "1"), ("sort", "length")]);
    let response = query.answer_keyed(vec!["ccc", "a", "bb"], |name| name, show, key);
    let body = response.expect("a page").into_body();
    let bytes = to_bytes(body, usize::MAX).await.expect("a body");
    let page: Value = serde_json::from_slice(&bytes).expect("JSON");
    assert_eq!((names(&page), shown.get()), (vec!["a"], 1));
}

#[tokio::test]
async fn columns_keep_the_fields_that_are_asked_for() {
    let shown = list(&[("columns", "size.is,none")], &["aa"])
        .await
        .expect("a list");
    assert_eq!(shown, json!([{"size": {"is": 2}}]));
}

#[tokio::test]
async fn pages_beyond_the_end_and_bad_numbers_are_refused() {
    let refused = list(&[("page", "3")], &["a"]).await;
    let reason = "Page out of range, page: 3 page size: 100, len: 1";
    assert_eq!(
        refused,
        Err(ApiError::Refused {
            error: "page_out_of_range",
            reason: reason.into()
        })
    );
    assert!(
        list(&[("page", "1"), ("page_size", "501")], &["a"])
            .await
            .is_err()
    );
    assert!(list(&[("page", "one")], &["a"]).await.is_err());
    assert!(list(&[("page", "1")], &[]).await.is_ok());
}
