//! The one door: each change finds the rule that judges it and the deed that carries it out.

use super::event::MetadataEvent;
use super::{
    Defaults, Metadata, MetadataChange, Outcome, PlainSettings, UserRecord, binding, exchange,
    limits,
};
use crate::refusal::Result;

impl Metadata {
    /// Carries out a change.
    ///
    /// # Errors
    /// Any refusal of the rules; nothing has changed then.
    pub fn apply(&mut self, change: &MetadataChange) -> Result<Outcome> {
        let mut events = Vec::new();
        self.carry_out(change, &mut events)?;
        if !events.is_empty() {
            self.version += 1;
        }
        Ok(Outcome { events })
    }

    /// The verdict that `apply` would give, without changing anything.
    ///
    /// # Errors
    /// Those of `apply`.
    pub fn check(&self, change: &MetadataChange) -> Result<()> {
        use MetadataChange as C;
        match change {
            C::PutVhost { vhost, record } => self.check_put_vhost(vhost, record),
            C::DeleteVhost { vhost } => self.check_delete_vhost(vhost),
            C::ProtectVhost { vhost, .. } | C::TraceVhost { vhost, .. } => {
                self.vhost(vhost).map(|_| ())
            }
            C::SetVhostDefaults { vhost, definition } => {
                self.parse_vhost_defaults(vhost, definition).map(|_| ())
            }
            C::SetVhostLimits { vhost, limits } => self
                .vhost(vhost)
                .and_then(|_| limits::parse_vhost_limits(limits))
                .map(|_| ()),
            C::SetVhostLimit { vhost, name, value } => self
                .vhost(vhost)
                .and_then(|_| limits::parse_vhost_limit(name, value))
                .map(|_| ()),
            C::ClearVhostLimit { vhost, .. } => self.vhost(vhost).map(|_| ()),
            C::PutUser { user, .. } => self.check_put_user(user),
            C::DeleteUser { .. } => Ok(()),
            C::SetPassword { user, .. }
            | C::SetUserTags { user, .. }
            | C::ClearUserLimit { user, .. } => self.check_user(user),
            C::SetUserLimits { user, limits } => self
                .check_user(user)
                .and_then(|()| limits::parse_user_limits(limits))
                .map(|_| ()),
            C::SetUserLimit { user, name, value } => self
                .check_user(user)
                .and_then(|()| limits::parse_user_limit(name, value))
                .map(|_| ()),
            C::SetPermission {
                user,
                vhost,
                configure,
                write,
                read,
            } => self
                .parse_permission(user, vhost, configure, write, read)
                .map(|_| ()),
            C::SetTopicPermission {
                user,
                vhost,
                write,
                read,
                ..
            } => self
                .parse_topic_permission(user, vhost, write, read)
                .map(|_| ()),
            C::ClearPermission { user, vhost } | C::ClearTopicPermission { user, vhost, .. } => {
                self.check_user_and_vhost(user, vhost)
            }
            C::SetPolicy {
                vhost,
                scope,
                policy,
            } => self.parse_policy(vhost, *scope, policy).map(|_| ()),
            C::DeletePolicy { vhost, scope, name } => self.check_delete_policy(vhost, *scope, name),
            C::ReplaceFilePolicies { policies, defaults } => {
                self.check_file_policies(policies, defaults)
            }
            C::SetParameter {
                component,
                vhost,
                name,
                ..
            } => self.check_set_parameter(component, vhost, name),
            C::ClearParameter { vhost, .. } => self.vhost(vhost).map(|_| ()),
            C::SetGlobalParameter { name, .. } => self.check_set_global_parameter(name),
            C::ClearGlobalParameter { .. } => Ok(()),
            C::DeclareExchange {
                vhost,
                exchange,
                exchange_type,
                durable,
                auto_delete,
                internal,
                arguments,
            } => {
                let wanted = exchange::Wanted {
                    exchange,
                    exchange_type,
                    durable: *durable,
                    auto_delete: *auto_delete,
                    internal: *internal,
                    arguments,
                };
                self.check_declare_exchange(vhost, &wanted).map(|_| ())
            }
            C::DeleteExchange {
                vhost,
                exchange,
                if_unused,
            } => self
                .check_delete_exchange(vhost, exchange, *if_unused)
                .map(|_| ()),
            C::DeclareQueue(declaration) => self.check_declare_queue(declaration).map(|_| ()),
            C::DeleteQueue(deletion) => self.check_delete_queue(deletion).map(|_| ()),
            C::RemoveQueue { .. } | C::EndConnection { .. } | C::DropTransient { .. } => Ok(()),
            C::Bind {
                vhost,
                source,
                destination,
                key,
                arguments,
                connection,
            } => {
                let wanted = binding::Wanted::new(source, destination, key, arguments);
                self.check_bind(vhost, wanted, *connection).map(|_| ())
            }
            C::Unbind {
                vhost,
                source,
                destination,
                key,
                arguments,
                connection,
            } => {
                let wanted = binding::Wanted::new(source, destination, key, arguments);
                self.check_unbind(vhost, wanted, *connection).map(|_| ())
            }
            C::SetDefaults { .. } => Ok(()),
        }
    }

    fn carry_out(
        &mut self,
        change: &MetadataChange,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        use MetadataChange as C;
        match change {
            C::PutVhost { vhost, record } => self.put_vhost(vhost, record, events),
            C::DeleteVhost { vhost } => self.delete_vhost(vhost, events),
            C::ProtectVhost { vhost, protected } => self.protect_vhost(vhost, *protected, events),
            C::TraceVhost { vhost, tracing } => self.trace_vhost(vhost, *tracing, events),
            C::SetVhostDefaults { vhost, definition } => {
                self.set_vhost_defaults(vhost, definition, events)
            }
            C::SetVhostLimits { vhost, limits } => self.set_vhost_limits(vhost, limits, events),
            C::SetVhostLimit { vhost, name, value } => {
                self.set_vhost_limit(vhost, name, value, events)
            }
            C::ClearVhostLimit { vhost, name } => self.clear_vhost_limit(vhost, name, events),
            C::PutUser {
                user,
                password_hash,
                hashing_algorithm,
                tags,
            } => {
                let record = UserRecord {
                    password_hash: password_hash.clone(),
                    hashing_algorithm: hashing_algorithm.clone(),
                    tags: tags.clone(),
                };
                self.put_user(user, record, events)
            }
            C::DeleteUser { user } => {
                self.delete_user(user, events);
                Ok(())
            }
            C::SetPassword {
                user,
                password_hash,
                hashing_algorithm,
            } => self.set_password(user, password_hash, hashing_algorithm, events),
            C::SetUserTags { user, tags } => self.set_user_tags(user, tags, events),
            C::SetUserLimits { user, limits } => self.set_user_limits(user, limits, events),
            C::SetUserLimit { user, name, value } => self.set_user_limit(user, name, value, events),
            C::ClearUserLimit { user, name } => self.clear_user_limit(user, name, events),
            C::SetPermission {
                user,
                vhost,
                configure,
                write,
                read,
            } => {
                let record = self.parse_permission(user, vhost, configure, write, read)?;
                self.set_permission(user, vhost, record, events);
                Ok(())
            }
            C::ClearPermission { user, vhost } => self.clear_permission(user, vhost, events),
            C::SetTopicPermission {
                user,
                vhost,
                exchange,
                write,
                read,
            } => {
                let record = self.parse_topic_permission(user, vhost, write, read)?;
                self.set_topic_permission(user, vhost, exchange, record, events);
                Ok(())
            }
            C::ClearTopicPermission {
                user,
                vhost,
                exchange,
            } => self.clear_topic_permission(user, vhost, exchange.as_ref(), events),
            C::SetPolicy {
                vhost,
                scope,
                policy,
            } => {
                let policy = self.parse_policy(vhost, *scope, policy)?;
                self.set_policy(vhost, *scope, policy, events)
            }
            C::DeletePolicy { vhost, scope, name } => {
                self.delete_policy(vhost, *scope, name, events)
            }
            C::ReplaceFilePolicies { policies, defaults } => {
                self.replace_file_policies(policies, defaults, events)
            }
            C::SetParameter {
                component,
                vhost,
                name,
                value,
            } => self.set_parameter(component, vhost, name, value, events),
            C::ClearParameter {
                component,
                vhost,
                name,
            } => self.clear_parameter(component, vhost, name, events),
            C::SetGlobalParameter { name, value } => self.set_global_parameter(name, value, events),
            C::ClearGlobalParameter { name } => {
                self.clear_global_parameter(name, events);
                Ok(())
            }
            C::DeclareExchange {
                vhost,
                exchange,
                exchange_type,
                durable,
                auto_delete,
                internal,
                arguments,
            } => {
                let wanted = exchange::Wanted {
                    exchange,
                    exchange_type,
                    durable: *durable,
                    auto_delete: *auto_delete,
                    internal: *internal,
                    arguments,
                };
                self.declare_exchange(vhost, &wanted, events)
            }
            C::DeleteExchange {
                vhost,
                exchange,
                if_unused,
            } => self.delete_exchange(vhost, exchange, *if_unused, events),
            C::DeclareQueue(declaration) => self.declare_queue(declaration, events),
            C::DeleteQueue(deletion) => self.delete_queue(deletion, events),
            C::RemoveQueue { queue, why } => {
                self.remove_queue(*queue, *why, events);
                Ok(())
            }
            C::EndConnection { connection } => {
                self.end_connection(*connection, events);
                Ok(())
            }
            C::DropTransient { node } => {
                self.drop_transient(*node, events);
                Ok(())
            }
            C::Bind {
                vhost,
                source,
                destination,
                key,
                arguments,
                connection,
            } => {
                let wanted = binding::Wanted::new(source, destination, key, arguments);
                self.bind(vhost, wanted, *connection, events)
            }
            C::Unbind {
                vhost,
                source,
                destination,
                key,
                arguments,
                connection,
            } => {
                let wanted = binding::Wanted::new(source, destination, key, arguments);
                self.unbind(vhost, wanted, *connection, events)
            }
            C::SetDefaults { defaults } => {
                self.set_defaults(*defaults, events);
                Ok(())
            }
        }
    }

    fn set_defaults(&mut self, defaults: Defaults, events: &mut Vec<MetadataEvent>) {
        if self.defaults == defaults {
            return;
        }
        self.defaults = defaults;
        self.plain_settings = PlainSettings::of(&defaults);
        events.push(MetadataEvent::DefaultsChanged);
        self.reconfigure_all(events);
    }
}
