//! A small language for stories of the topology.
//!
//! A line is a command; ` => ` and the outcome may follow. Without it the command must not be
//! refused. Outcomes are events in short form, separated by `; `, or `CODE text` of a refusal.
//! Arguments are `key=value`: `5` is an s32, `5l` an s64, `5b` an s8, `1.5` a double, `true` a
//! truth value, `void` nothing, `[a,b]` an array, anything else (or `'5'`) a long string.
//!
//! Before each change the verdict of `check` is compared with that of `apply`; after each story the
//! value is stored, restored and compared.

use std::collections::BTreeMap;

use amqp::{Table, Value};

use crate::exchange::ALTERNATE_EXCHANGE;
use crate::metadata::*;
use crate::names::{ExchangeName, QueueName, UserName, VhostName};
use crate::policy::{PolicyForm, PolicyScope};
use crate::router::{RouteRequest, Routed};
use crate::settings::Origin;
use crate::term::Term;

/// Runs a story.
pub(super) fn check(story: &str) {
    let mut stage = Stage::new();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (command, expected) = match line.split_once(" => ") {
            Some((command, expected)) => (command, Some(expected.trim())),
            None => (line, None),
        };
        let outcome = stage.run(command.trim());
        match expected {
            Some(expected) => assert_eq!(outcome, expected, "in the line: {line}"),
            None => assert!(!is_refusal(&outcome), "{line}: {outcome}"),
        }
    }
    stage.check_stored_form();
}

fn is_refusal(outcome: &str) -> bool {
    outcome
        .split(' ')
        .next()
        .is_some_and(|word| word.len() == 3 && word.parse::<u16>().is_ok())
}

struct Stage {
    metadata: Metadata,
    seed: u64,
}

/// A command line, cut into words.
struct Words<'a> {
    plain: Vec<&'a str>,
    arguments: Table,
}

impl<'a> Words<'a> {
    fn cut(text: &'a str) -> Self {
        let mut words = Words {
            plain: Vec::new(),
            arguments: Table::new(),
        };
        for word in text.split_whitespace() {
            match word.split_once('=') {
                Some((key, value)) => {
                    words.arguments.insert(key, parse_value(value));
                }
                None => words.plain.push(word),
            }
        }
        words
    }

    fn has(&mut self, word: &str) -> bool {
        let found = self.plain.iter().position(|other| *other == word);
        found.map(|at| self.plain.remove(at)).is_some()
    }

    fn after(&mut self, word: &str) -> Option<&'a str> {
        let at = self.plain.iter().position(|other| *other == word)?;
        self.plain.remove(at);
        Some(self.plain.remove(at))
    }

    fn next(&mut self) -> &'a str {
        if self.plain.is_empty() {
            ""
        } else {
            self.plain.remove(0)
        }
    }

    fn connection(&mut self) -> Option<ConnectionId> {
        self.after("as")
            .map(|number| ConnectionId(number.parse().unwrap()))
    }

    fn number(&mut self, key: &str) -> u64 {
        self.arguments
            .remove(key)
            .and_then(|value| value.as_i64())
            .unwrap_or_default() as u64
    }
}

fn parse_value(text: &str) -> Value {
    if let Some(quoted) = text
        .strip_prefix('\'')
        .and_then(|rest| rest.strip_suffix('\''))
    {
        return Value::from(quoted);
    }
    if let Some(list) = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        return Value::Array(list.split(',').map(parse_value).collect());
    }
    let number = |suffix: char| {
        text.strip_suffix(suffix)
            .and_then(|rest| rest.parse::<i64>().ok())
    };
    match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "void" => Value::Void,
        _ if text.parse::<i32>().is_ok() => Value::I32(text.parse().unwrap()),
        _ if number('l').is_some() => Value::I64(number('l').unwrap()),
        _ if number('b').is_some() => Value::I8(number('b').unwrap() as i8),
        _ => match text.parse::<f64>() {
            Ok(number) => Value::F64(number),
            Err(_) => Value::from(text),
        },
    }
}

fn unquoted(word: &str) -> String {
    match word {
        "''" => String::new(),
        _ => word.replace("\\s", " "),
    }
}

impl Stage {
    fn new() -> Self {
        let mut metadata = Metadata::new(Defaults::default());
        let vhost = VhostName::new("/");
        metadata
            .apply(&MetadataChange::PutVhost {
                vhost,
                record: VhostRecord::default(),
            })
            .unwrap();
        Self { metadata, seed: 0 }
    }

    fn run(&mut self, line: &str) -> String {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut words = Words::cut(rest);
        match command {
            "route" => return self.route(&mut words),
            "explain" => return self.explain(&mut words),
            "settings" => return self.settings(&mut words),
            "policies-of" => return self.policies_of(&mut words),
            "queues" => return self.queues(),
            "exchanges" => return self.exchanges(),
            "bindings" => return self.bindings(),
            "arguments" => return self.arguments(&mut words),
            "connect" => return self.connect(&mut words),
            "open-channel" => return self.open_channel(&mut words),
            "use" => return self.use_queue(&mut words),
            "seed" => {
                self.seed = words.next().parse().unwrap();
                return String::new();
            }
            _ => {}
        }
        let change = self.change(command, &mut words);
        assert!(words.plain.is_empty(), "words left over in: {line}");
        self.apply(&change)
    }

    fn apply(&mut self, change: &MetadataChange) -> String {
        let (version, verdict) = (self.metadata.version(), self.metadata.check(change));
        match self.metadata.apply(change) {
            Ok(outcome) => {
                assert_eq!(verdict, Ok(()), "check of {change:?}");
                assert_eq!(self.metadata.version() > version, !outcome.is_empty());
                let events: Vec<String> = outcome.events.iter().filter_map(show).collect();
                if events.is_empty() {
                    "nothing".into()
                } else {
                    events.join("; ")
                }
            }
            Err(refusal) => {
                assert_eq!(verdict, Err(refusal.clone()), "check of {change:?}");
                assert_eq!(self.metadata.version(), version);
                show_refusal(&refusal)
            }
        }
    }

    fn vhost_name(words: &mut Words<'_>) -> VhostName {
        VhostName::new(words.after("in").unwrap_or("/"))
    }

    fn change(&self, command: &str, words: &mut Words<'_>) -> MetadataChange {
        match command {
            "exchange" => Self::declare_exchange(words),
            "delete-exchange" => MetadataChange::DeleteExchange {
                if_unused: words.has("if-unused"),
                vhost: Self::vhost_name(words),
                exchange: ExchangeName::new(unquoted(words.next())),
            },
            "queue" => Self::declare_queue(words),
            "delete-queue" => MetadataChange::DeleteQueue(QueueDeletion {
                connection: words.connection(),
                if_unused: words.has("if-unused"),
                if_empty: words.has("if-empty"),
                consumers: words.number("consumers"),
                ready: words.number("ready"),
                vhost: Self::vhost_name(words),
                queue: QueueName::new(words.next()),
            }),
            "remove-queue" => MetadataChange::RemoveQueue {
                queue: self
                    .metadata
                    .vhost(&"/".into())
                    .unwrap()
                    .queue(words.next())
                    .unwrap()
                    .id,
                why: QueueGone::AutoDeleted,
            },
            "bind" | "unbind" => Self::binding(command, words),
            "end-connection" => MetadataChange::EndConnection {
                connection: ConnectionId(words.next().parse().unwrap()),
            },
            "restart" => MetadataChange::DropTransient { node: None },
            "policy" => self.policy(PolicyScope::User, words),
            "operator-policy" => self.policy(PolicyScope::Operator, words),
            "delete-policy" => MetadataChange::DeletePolicy {
                vhost: Self::vhost_name(words),
                scope: PolicyScope::User,
                name: words.next().into(),
            },
            "delete-operator-policy" => MetadataChange::DeletePolicy {
                vhost: Self::vhost_name(words),
                scope: PolicyScope::Operator,
                name: words.next().into(),
            },
            "file-policies" => self.file_policies(words),
            _ => Self::operator_change(command, words),
        }
    }

    fn operator_change(command: &str, words: &mut Words<'_>) -> MetadataChange {
        let boxed = |word: &str| Box::<str>::from(unquoted(word));
        match command {
            "vhost" => MetadataChange::PutVhost {
                record: VhostRecord {
                    protected_from_deletion: words.has("protected"),
                    tracing: words.has("tracing"),
                    default_queue_type: words.after("default").and_then(|name| {
                        crate::definitions::parse_default_queue_type(Some(name)).unwrap()
                    }),
                    ..VhostRecord::default()
                },
                vhost: VhostName::new(words.next()),
            },
            "delete-vhost" => MetadataChange::DeleteVhost {
                vhost: VhostName::new(words.next()),
            },
            "vhost-defaults" => {
                let definition = Term::from(&std::mem::take(&mut words.arguments));
                let vhost = VhostName::new(words.next());
                MetadataChange::SetVhostDefaults { vhost, definition }
            }
            "vhost-limit" => MetadataChange::SetVhostLimit {
                vhost: VhostName::new(words.next()),
                name: words.next().into(),
                value: Term::from(&parse_value(words.next())),
            },
            "clear-vhost-limit" => MetadataChange::ClearVhostLimit {
                vhost: VhostName::new(words.next()),
                name: words.next().into(),
            },
            "user" => MetadataChange::PutUser {
                user: UserName::new(words.next()),
                password_hash: "hash".into(),
                hashing_algorithm: "rabbit_password_hashing_sha256".into(),
                tags: words.plain.drain(..).map(Into::into).collect(),
            },
            "delete-user" => MetadataChange::DeleteUser {
                user: UserName::new(words.next()),
            },
            "user-limit" => MetadataChange::SetUserLimit {
                user: UserName::new(words.next()),
                name: words.next().into(),
                value: Term::from(&parse_value(words.next())),
            },
            "clear-user-limit" => MetadataChange::ClearUserLimit {
                user: UserName::new(words.next()),
                name: words.next().into(),
            },
            "permission" => MetadataChange::SetPermission {
                vhost: Self::vhost_name(words),
                user: UserName::new(words.next()),
                configure: boxed(words.next()),
                write: boxed(words.next()),
                read: boxed(words.next()),
            },
            "clear-permission" => MetadataChange::ClearPermission {
                vhost: Self::vhost_name(words),
                user: UserName::new(words.next()),
            },
            "topic-permission" => MetadataChange::SetTopicPermission {
                vhost: Self::vhost_name(words),
                user: UserName::new(words.next()),
                exchange: ExchangeName::new(words.next()),
                write: boxed(words.next()),
                read: boxed(words.next()),
            },
            "clear-topic-permission" => MetadataChange::ClearTopicPermission {
                vhost: Self::vhost_name(words),
                user: UserName::new(words.next()),
                exchange: words.plain.pop().map(ExchangeName::new),
            },
            "parameter" => MetadataChange::SetParameter {
                vhost: Self::vhost_name(words),
                component: words.next().into(),
                name: words.next().into(),
                value: Term::text(words.next()),
            },
            "clear-parameter" => MetadataChange::ClearParameter {
                vhost: Self::vhost_name(words),
                component: words.next().into(),
                name: words.next().into(),
            },
            "global-parameter" => MetadataChange::SetGlobalParameter {
                name: words.next().into(),
                value: Term::text(words.next()),
            },
            "clear-global-parameter" => MetadataChange::ClearGlobalParameter {
                name: words.next().into(),
            },
            "defaults" => {
                let mut defaults = Defaults::default();
                let limit = |n: u64| (n > 0).then_some(n);
                defaults.queue_limit = limit(words.number("queues"));
                defaults.exchange_limit = limit(words.number("exchanges"));
                defaults.vhost_limit = limit(words.number("vhosts"));
                if let Some(limit) = words.arguments.remove("delivery-limit") {
                    defaults.quorum.delivery_limit = limit.as_i64().map(|limit| limit as u32);
                }
                MetadataChange::SetDefaults { defaults }
            }
            other => panic!("no such command: {other}"),
        }
    }

    fn declare_exchange(words: &mut Words<'_>) -> MetadataChange {
        MetadataChange::DeclareExchange {
            durable: !words.has("transient"),
            auto_delete: words.has("auto-delete"),
            internal: words.has("internal"),
            vhost: Self::vhost_name(words),
            exchange: ExchangeName::new(unquoted(words.next())),
            exchange_type: unquoted(words.next()).into(),
            arguments: std::mem::take(&mut words.arguments),
        }
    }

    fn declare_queue(words: &mut Words<'_>) -> MetadataChange {
        MetadataChange::DeclareQueue(QueueDeclaration {
            server_named: words.has("server-named"),
            durable: !words.has("transient"),
            exclusive: words.has("exclusive"),
            auto_delete: words.has("auto-delete"),
            connection: words.connection(),
            user: words.after("by").map(UserName::new),
            node: NodeId(0),
            groups: 8,
            vhost: Self::vhost_name(words),
            queue: QueueName::new(words.next()),
            arguments: std::mem::take(&mut words.arguments),
        })
    }

    /// `bind x -> q key`, `bind x -> exchange:y key`.
    fn binding(command: &str, words: &mut Words<'_>) -> MetadataChange {
        let connection = words.connection();
        let vhost = Self::vhost_name(words);
        let source = ExchangeName::new(unquoted(words.next()));
        assert_eq!(words.next(), "->");
        let name = unquoted(words.next());
        let destination = match name.strip_prefix("exchange:") {
            Some(exchange) => Destination::Exchange(exchange.into()),
            None => Destination::Queue(QueueName::new(name)),
        };
        let key = unquoted(words.next()).into();
        let arguments = std::mem::take(&mut words.arguments);
        match command {
            "bind" => MetadataChange::Bind {
                vhost,
                source,
                destination,
                key,
                arguments,
                connection,
            },
            _ => MetadataChange::Unbind {
                vhost,
                source,
                destination,
                key,
                arguments,
                connection,
            },
        }
    }

    /// `policy NAME PATTERN APPLY-TO PRIORITY key=value…`
    fn policy_form(words: &mut Words<'_>) -> PolicyForm {
        let entries = std::mem::take(&mut words.arguments);
        PolicyForm {
            name: words.next().into(),
            pattern: Some(Term::text(unquoted(words.next()))),
            apply_to: Some(Term::text(words.next())),
            priority: Some(Term::from(&parse_value(words.next()))),
            definition: Some(Term::from(&entries)),
        }
    }

    fn policy(&self, scope: PolicyScope, words: &mut Words<'_>) -> MetadataChange {
        let vhost = Self::vhost_name(words);
        MetadataChange::SetPolicy {
            vhost,
            scope,
            policy: Self::policy_form(words),
        }
    }

    /// One policy, or none.
    fn file_policies(&self, words: &mut Words<'_>) -> MetadataChange {
        if words.plain.is_empty() {
            return MetadataChange::ReplaceFilePolicies {
                policies: Vec::new(),
                defaults: Vec::new(),
            };
        }
        let vhost = Self::vhost_name(words);
        let policy = FilePolicy {
            vhost,
            scope: PolicyScope::User,
            policy: Self::policy_form(words),
        };
        MetadataChange::ReplaceFilePolicies {
            policies: vec![policy],
            defaults: Vec::new(),
        }
    }

    /// `route EXCHANGE KEY [cc KEY] header=value…`
    fn route(&self, words: &mut Words<'_>) -> String {
        let mut routed = Routed::default();
        let outcome = self.with_request(words, |vhost, request| vhost.route(request, &mut routed));
        if let Err(refusal) = outcome {
            return show_refusal(&refusal);
        }
        let name_of = |id| self.metadata.queue_by_id(id).unwrap().name.to_string();
        let mut shown: Vec<String> = routed.queues.iter().map(|id| name_of(*id)).collect();
        shown.sort();
        let delays = routed
            .delays
            .iter()
            .map(|(name, ms)| format!("delay {name} {ms}"));
        let histories = routed
            .histories
            .iter()
            .map(|name| format!("history {name}"));
        shown.extend(delays.chain(histories));
        if shown.is_empty() {
            "nowhere".into()
        } else {
            shown.join(" ")
        }
    }

    fn explain(&self, words: &mut Words<'_>) -> String {
        let steps = self
            .with_request(words, |vhost, request| vhost.explain(request))
            .unwrap();
        let shown: Vec<String> = steps
            .iter()
            .map(|step| match &step.via {
                crate::router::Via::Binding(binding) => show_binding(binding),
                crate::router::Via::QueueName(id) => {
                    format!("name {}", self.metadata.queue_by_id(*id).unwrap().name)
                }
                crate::router::Via::AlternateExchange(name) => {
                    format!("{} alternate {name}", step.exchange)
                }
                crate::router::Via::Delay { delay_ms } => {
                    format!("{} delay {delay_ms}", step.exchange)
                }
            })
            .collect();
        if shown.is_empty() {
            "nowhere".into()
        } else {
            shown.join("; ")
        }
    }

    fn with_request<T>(
        &self,
        words: &mut Words<'_>,
        ask: impl FnOnce(&Vhost, &RouteRequest<'_>) -> T,
    ) -> T {
        let vhost = self.metadata.vhost(&Self::vhost_name(words)).unwrap();
        let from_publisher = !words.has("by-broker");
        let extra: Vec<&str> = words
            .after("cc")
            .map(|keys| keys.split(',').collect())
            .unwrap_or_default();
        let extra: Vec<&[u8]> = extra.iter().map(|key| key.as_bytes()).collect();
        let (exchange, key) = (unquoted(words.next()), unquoted(words.next()));
        let request = RouteRequest {
            extra_keys: &extra,
            seed: self.seed,
            from_publisher,
            ..RouteRequest::publish(&exchange, key.as_bytes(), &words.arguments)
        };
        ask(vhost, &request)
    }

    fn record(&self, words: &mut Words<'_>) -> &QueueRecord {
        let vhost = self.metadata.vhost(&Self::vhost_name(words)).unwrap();
        vhost.queue(words.next()).unwrap()
    }

    /// What somebody set for a queue, with its origin.
    fn settings(&self, words: &mut Words<'_>) -> String {
        let record = self.record(words);
        let explained = self.metadata.explain_settings(record).unwrap();
        assert_eq!(explained.settings, *record.settings);
        let mut shown: Vec<String> = explained
            .sources
            .iter()
            .map(|source| {
                let value = match &source.value {
                    Term::Text(text) => text.to_string(),
                    other => other.to_string(),
                };
                format!("{}={value}({})", source.key, show_origin(&source.origin))
            })
            .collect();
        shown.sort();
        if shown.is_empty() {
            "plain".into()
        } else {
            shown.join(" ")
        }
    }

    fn policies_of(&self, words: &mut Words<'_>) -> String {
        let record = self.record(words);
        let definition = self.metadata.queue_policy_definition(record);
        let shown: BTreeMap<_, _> = definition
            .iter()
            .map(|(key, (term, _))| (key, term))
            .collect();
        let shown: Vec<String> = shown
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let name =
            |policy: &Option<std::sync::Arc<str>>| policy.as_deref().unwrap_or("-").to_owned();
        format!(
            "{} {} {}",
            name(&record.policy),
            name(&record.operator_policy),
            shown.join(" ")
        )
        .trim_end()
        .to_owned()
    }

    fn queues(&self) -> String {
        let mut names: Vec<String> = self
            .metadata
            .queues()
            .map(|record| {
                let kind = record.kind.name();
                let durable = if record.durable { "" } else { ":transient" };
                format!("{}:{kind}{durable}", record.name)
            })
            .collect();
        names.sort();
        assert_eq!(names.len(), self.metadata.queue_count());
        names.join(" ")
    }

    /// All but the standard ones.
    fn exchanges(&self) -> String {
        let all = || self.metadata.vhosts().flat_map(Vhost::exchanges);
        assert_eq!(all().count(), self.metadata.exchange_count());
        let mut names: Vec<&str> = all()
            .map(|exchange| exchange.record().name.as_str())
            .filter(|name| !name.is_empty() && !name.starts_with("amq."))
            .collect();
        names.sort_unstable();
        names.join(" ")
    }

    fn bindings(&self) -> String {
        let mut all: Vec<String> = self
            .metadata
            .vhosts()
            .flat_map(Vhost::bindings)
            .map(|binding| show_binding(&binding))
            .collect();
        all.sort();
        assert_eq!(all.len(), self.metadata.binding_count());
        all.join("; ")
    }

    fn arguments(&self, words: &mut Words<'_>) -> String {
        show_table(&self.record(words).arguments)
    }

    fn connect(&self, words: &mut Words<'_>) -> String {
        let (in_vhost, by_user) = (words.number("in-vhost"), words.number("by-user"));
        let vhost = Self::vhost_name(words);
        let user = UserName::new(words.next());
        show_verdict(
            self.metadata
                .check_connection(&user, &vhost, in_vhost, by_user),
        )
    }

    fn open_channel(&self, words: &mut Words<'_>) -> String {
        let open = TenantCounts {
            by_user: words.number("open"),
            in_vhost: words.number("in-vhost"),
        };
        let vhost = Self::vhost_name(words);
        let user = UserName::new(words.next());
        show_verdict(self.metadata.check_channel(&user, &vhost, open))
    }

    fn use_queue(&self, words: &mut Words<'_>) -> String {
        let connection = words.connection();
        let vhost = Self::vhost_name(words);
        let found = self.metadata.usable_queue(&vhost, words.next(), connection);
        show_verdict(found.map(|_| ()))
    }

    fn check_stored_form(&self) {
        let json = serde_json::to_string(&self.metadata).unwrap();
        let restored: Metadata = serde_json::from_str(&json).unwrap();
        assert_eq!(restored.snapshot(), self.metadata.snapshot());
        for record in self.metadata.queues() {
            assert_eq!(restored.queue_by_id(record.id), Some(record));
            if let Some(user) = &record.declared_by {
                let declared = self.metadata.queues_declared_by(user);
                assert_eq!(restored.queues_declared_by(user), declared);
            }
        }
        assert_eq!(restored.binding_count(), self.metadata.binding_count());
        assert_eq!(restored.exchange_count(), self.metadata.exchange_count());
        for exchange in self.metadata.vhosts().flat_map(Vhost::exchanges) {
            let record = exchange.record();
            let again = restored
                .vhost(&record.vhost)
                .unwrap()
                .exchange(record.name.as_str());
            assert_eq!(
                again.unwrap().record(),
                record,
                "{ALTERNATE_EXCHANGE} is computed again"
            );
        }
    }
}

fn show_verdict(verdict: crate::refusal::Result<()>) -> String {
    match verdict {
        Ok(()) => "ok".into(),
        Err(refusal) => show_refusal(&refusal),
    }
}

fn show_refusal(refusal: &crate::Refusal) -> String {
    format!(
        "{} {}",
        refusal.code().number(),
        refusal.to_string().trim_end().replace('\n', "|")
    )
}

fn show_origin(origin: &Origin) -> String {
    match origin {
        Origin::Argument => "argument".into(),
        Origin::Default => "default".into(),
        Origin::OperatorPolicy(name) => format!("operator:{name}"),
        Origin::Policy(name) => format!("policy:{name}"),
        Origin::VhostDefault => "vhost".into(),
    }
}

fn show_table(table: &Table) -> String {
    let shown: Vec<String> = table
        .iter()
        .map(|(key, value)| {
            let value = crate::arguments::show_value(value);
            format!("{}={value}", key.as_str().unwrap())
        })
        .collect();
    shown.join(" ")
}

fn show_binding(binding: &Binding) -> String {
    let Binding {
        source,
        destination,
        key,
        arguments,
    } = binding;
    let destination = match destination {
        Destination::Queue(queue) => queue.to_string(),
        Destination::Exchange(exchange) => format!("exchange:{exchange}"),
    };
    let text = format!("{source} -> {destination} {key} {}", show_table(arguments));
    text.trim_end().to_owned()
}

fn is_new(created: bool) -> &'static str {
    if created { "new" } else { "same" }
}

/// An event in short form; implicit ones of a vhost are left out.
fn show(event: &MetadataEvent) -> Option<String> {
    use MetadataEvent as E;
    Some(match event {
        E::VhostPut { vhost, created } => format!("{} vhost {vhost}", is_new(*created)),
        E::VhostDeleted { vhost } => format!("deleted vhost {vhost}"),
        E::VhostTracing { vhost, tracing } => format!("tracing {vhost} {tracing}"),
        E::VhostLimitsChanged { vhost } => format!("limits of vhost {vhost}"),
        E::UserPut { user, created } => format!("{} user {user}", is_new(*created)),
        E::UserDeleted { user } => format!("deleted user {user}"),
        E::UserLimitsChanged { user } => format!("limits of user {user}"),
        E::PermissionSet {
            user,
            vhost,
            created,
        } => {
            format!("{} permission {user} {vhost}", is_new(*created))
        }
        E::PermissionCleared { user, vhost } => format!("no permission {user} {vhost}"),
        E::TopicPermissionSet {
            user,
            vhost,
            exchange,
            created,
        } => {
            format!(
                "{} topic permission {user} {vhost} {exchange}",
                is_new(*created)
            )
        }
        E::TopicPermissionCleared {
            user,
            vhost,
            exchange,
        } => {
            format!("no topic permission {user} {vhost} {exchange}")
        }
        E::PolicySet {
            policy, created, ..
        } => format!("{} policy {policy}", is_new(*created)),
        E::PolicyDeleted { policy, .. } => format!("deleted policy {policy}"),
        E::QueueReconfigured { record } => format!("reconfigured {}", record.name),
        E::ExchangeReconfigured { record } => format!("reconfigured exchange {}", record.name),
        E::ParameterSet { name, created, .. } => format!("{} parameter {name}", is_new(*created)),
        E::ParameterCleared { name, .. } => format!("no parameter {name}"),
        E::GlobalParameterSet { name, created } => {
            format!("{} global parameter {name}", is_new(*created))
        }
        E::GlobalParameterCleared { name } => format!("no global parameter {name}"),
        E::ExchangeDeclared { record, created } => {
            format!("{} exchange {}", is_new(*created), record.name)
        }
        E::ExchangeDeleted { record, auto } => {
            format!(
                "deleted exchange {}{}",
                record.name,
                if *auto { " auto" } else { "" }
            )
        }
        E::QueueDeclared { record, created } => {
            format!("{} queue {}", is_new(*created), record.name)
        }
        E::QueueDeleted { record, why } => format!("deleted queue {} {why:?}", record.name),
        E::Bound {
            binding, created, ..
        } => {
            format!("{} binding {}", is_new(*created), show_binding(binding))
        }
        E::Unbound { binding, .. } => format!("unbound {}", show_binding(binding)),
        E::DefaultsChanged => "defaults".into(),
    })
}
