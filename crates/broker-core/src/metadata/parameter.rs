//! Runtime parameters: values that components keep here. They are stored and handed out; what they
//! mean is theirs.

use super::bounds::PARAMETERS_MAX;
use super::event::MetadataEvent;
use super::record::Parameter;
use super::{Metadata, check_name_length, check_room};
use crate::names::VhostName;
use crate::refusal::{Refusal, Result};
use crate::term::Term;

/// Components that may keep parameters. Policies, operator policies and limits have changes of
/// their own.
const COMPONENTS: [&str; 3] = ["federation-upstream", "federation-upstream-set", "shovel"];

impl Metadata {
    /// A runtime parameter.
    pub fn parameter(&self, component: &str, vhost: &VhostName, name: &str) -> Option<&Parameter> {
        let parameters = &self.vhosts.get(vhost)?.parameters;
        parameters.get(&(Box::from(component), Box::from(name)))
    }

    /// The parameters of the whole cluster, by name.
    pub fn global_parameters(&self) -> impl Iterator<Item = (&str, &Term)> {
        self.global_parameters
            .iter()
            .map(|(name, value)| (&**name, value))
    }

    pub(super) fn check_set_parameter(
        &self,
        component: &str,
        vhost: &VhostName,
        name: &str,
    ) -> Result<()> {
        let found = self.vhost(vhost)?;
        if !COMPONENTS.contains(&component) {
            return Err(Refusal::ParameterComponentNotFound {
                component: component.into(),
            });
        }
        check_name_length("parameter", name)?;
        match self.parameter(component, vhost, name) {
            Some(_) => Ok(()),
            None => check_room("parameter", found.parameters.len(), PARAMETERS_MAX),
        }
    }

    pub(super) fn set_parameter(
        &mut self,
        component: &str,
        vhost: &VhostName,
        name: &str,
        value: &Term,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        self.check_set_parameter(component, vhost, name)?;
        let parameter = Parameter {
            component: component.into(),
            vhost: vhost.clone(),
            name: name.into(),
            value: value.clone(),
        };
        let key = (parameter.component.clone(), parameter.name.clone());
        let created = self
            .vhost_mut(vhost)?
            .parameters
            .insert(key, parameter)
            .is_none();
        events.push(MetadataEvent::ParameterSet {
            component: component.into(),
            vhost: vhost.clone(),
            name: name.into(),
            created,
        });
        Ok(())
    }

    pub(super) fn clear_parameter(
        &mut self,
        component: &str,
        vhost: &VhostName,
        name: &str,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        let parameters = &mut self.vhost_mut(vhost)?.parameters;
        if parameters
            .remove(&(Box::from(component), Box::from(name)))
            .is_some()
        {
            events.push(MetadataEvent::ParameterCleared {
                component: component.into(),
                vhost: vhost.clone(),
                name: name.into(),
            });
        }
        Ok(())
    }

    pub(super) fn check_set_global_parameter(&self, name: &str) -> Result<()> {
        check_name_length("parameter", name)?;
        match self.global_parameters.contains_key(name) {
            true => Ok(()),
            false => check_room("parameter", self.global_parameters.len(), PARAMETERS_MAX),
        }
    }

    pub(super) fn set_global_parameter(
        &mut self,
        name: &str,
        value: &Term,
        events: &mut Vec<MetadataEvent>,
    ) -> Result<()> {
        self.check_set_global_parameter(name)?;
        let created = self
            .global_parameters
            .insert(name.into(), value.clone())
            .is_none();
        events.push(MetadataEvent::GlobalParameterSet {
            name: name.into(),
            created,
        });
        Ok(())
    }

    pub(super) fn clear_global_parameter(&mut self, name: &str, events: &mut Vec<MetadataEvent>) {
        if self.global_parameters.remove(name).is_some() {
            events.push(MetadataEvent::GlobalParameterCleared { name: name.into() });
        }
    }
}
