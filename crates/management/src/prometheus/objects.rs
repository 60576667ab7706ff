//! Which objects a request is about, and how their numbers are shown: added up, or one by one.

use broker_core::VhostName;
use fancy_regex::Regex;

use super::exposition::{Exposition, Kind, Labels};

/// How numbers of many objects are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    /// One sum.
    Aggregated,
    /// One sample an object.
    PerObject,
    /// The same under the prefix of chosen families.
    Detailed,
}

/// The objects that are asked for.
pub(super) struct Scope {
    grouping: Grouping,
    vhosts: Vec<String>,
    queue: Option<Regex>,
}

impl Scope {
    pub(super) fn new(grouping: Grouping, vhosts: Vec<String>, queue: Option<Regex>) -> Self {
        Self {
            grouping,
            vhosts,
            queue,
        }
    }

    pub(super) fn everything(grouping: Grouping) -> Self {
        Self::new(grouping, Vec::new(), None)
    }

    pub(super) fn has_vhost(&self, vhost: &VhostName) -> bool {
        self.vhosts.is_empty() || self.vhosts.iter().any(|wanted| wanted == vhost.as_str())
    }

    pub(super) fn has_queue(&self, name: &str) -> bool {
        self.queue
            .as_ref()
            .is_none_or(|regex| regex.is_match(name).unwrap_or(false))
    }

    /// Whether all objects are shown as one sum.
    pub(super) fn is_sum(&self) -> bool {
        self.grouping == Grouping::Aggregated && self.vhosts.is_empty()
    }

    pub(super) fn prefix(&self) -> &'static str {
        match self.grouping {
            Grouping::Aggregated | Grouping::PerObject => "rabbitmq_",
            Grouping::Detailed => "rabbitmq_detailed_",
        }
    }

    /// Writes one family over many objects. `of` answers an object's number.
    pub(super) fn write<T>(
        &self,
        out: &mut Exposition,
        kind: Kind,
        name: &str,
        help: &str,
        objects: &[T],
        of: impl Fn(&T) -> u64,
    ) where
        T: Labelled,
    {
        let name = format!("{}{name}", self.prefix());
        if self.grouping == Grouping::Aggregated {
            let sum: u64 = objects.iter().map(&of).sum();
            out.add(kind, &name, help, &[], sum);
            return;
        }
        for object in objects {
            object.with_labels(|labels| out.add(kind, &name, help, labels, of(object)));
        }
    }
}

/// Something that has labels when it is shown by itself.
pub(super) trait Labelled {
    fn with_labels(&self, use_them: impl FnOnce(Labels<'_>));
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing(&'static str, u64);

    impl Labelled for Thing {
        fn with_labels(&self, use_them: impl FnOnce(Labels<'_>)) {
            use_them(&[("thing", self.0)]);
        }
    }

    fn written(grouping: Grouping) -> Vec<String> {
        let mut out = Exposition::default();
        let things = [Thing("a", 1), Thing("b", 2)];
        let scope = Scope::everything(grouping);
        scope.write(&mut out, Kind::Gauge, "size", "Sizes.", &things, |thing| {
            thing.1
        });
        out.text().lines().skip(2).map(str::to_owned).collect()
    }

    #[test]
    fn objects_are_added_up_or_shown_one_by_one() {
        assert_eq!(written(Grouping::Aggregated), ["rabbitmq_size 3"]);
        let one_by_one = [
            "rabbitmq_size{thing=\"a\"} 1",
            "rabbitmq_size{thing=\"b\"} 2",
        ];
        assert_eq!(written(Grouping::PerObject), one_by_one);
        assert!(written(Grouping::Detailed)[0].starts_with("rabbitmq_detailed_size{"));
    }

    #[test]
    fn a_scope_is_narrowed_by_vhost_and_by_expression() {
        let regex = Regex::new("^q").expect("an expression");
        let scope = Scope::new(Grouping::Detailed, vec!["v".into()], Some(regex));
        assert!(scope.has_vhost(&VhostName::new("v")) && !scope.has_vhost(&VhostName::new("w")));
        assert!(scope.has_queue("q1") && !scope.has_queue("aq"));
    }
}
