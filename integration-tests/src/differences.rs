//! The tests in which this broker wants to differ from RabbitMQ, with reasons.
//! Knows the list's form and nothing of what the tests do.

/// The list, one entry a test.
const LIST: &str = include_str!("../conformance/differences.yaml");

/// A test that RabbitMQ is expected to fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Path of the test inside the conformance suite, such as `basic::get::name`.
    pub test: String,
    /// It fails there by chance only: a race that this broker does not have.
    pub by_chance: bool,
    /// Why this broker does it otherwise.
    pub reason: String,
}

/// All wanted differences.
///
/// # Panics
/// When the list has another form than `- test: …` lines, or `- race: …` for what fails there by chance,
/// each with a `reason: …` below.
pub fn differences() -> Vec<Difference> {
    parse(LIST)
}

/// The wanted difference of one test, if it is listed.
pub fn difference_of(test: &str) -> Option<Difference> {
    differences()
        .into_iter()
        .find(|difference| difference.test == test)
}

fn parse(list: &str) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut test: Option<(String, bool)> = None;
    for line in list.lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || line == "differences:" {
            continue;
        }
        let always = line.strip_prefix("- test:").map(|name| (name, false));
        let race = || line.strip_prefix("- race:").map(|name| (name, true));
        if let Some((name, by_chance)) = always.or_else(race) {
            assert!(test.is_none(), "differences.yaml: {test:?} has no reason");
            test = Some((unquoted(name).to_owned(), by_chance));
        } else if let Some(reason) = line.strip_prefix("reason:") {
            let (test, by_chance) = test
                .take()
                .expect("differences.yaml: a reason follows its test.");
            found.push(Difference {
                test,
                by_chance,
                reason: unquoted(reason).to_owned(),
            });
        } else {
            panic!("differences.yaml: {line:?} is neither a test nor a reason");
        }
    }
    assert!(test.is_none(), "differences.yaml: {test:?} has no reason");
    found
}

fn unquoted(text: &str) -> &str {
    text.trim().trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_entry_by_entry() {
        let list = "# why\ndifferences:\n  - test: a::b\n    reason: \"One: two.\"\n\
                    - race: c\n    reason: \"Three.\"\n";
        let wanted = |test: &str, by_chance, reason: &str| Difference {
            test: test.to_owned(),
            by_chance,
            reason: reason.to_owned(),
        };
        let wanted = [
            wanted("a::b", false, "One: two."),
            wanted("c", true, "Three."),
        ];
        assert_eq!(parse(list), wanted);
    }

    #[test]
    #[should_panic(expected = "has no reason")]
    fn a_difference_without_a_reason_is_refused() {
        parse("- test: a::b\n- test: c::d\n  reason: x\n");
    }
}
