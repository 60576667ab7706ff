//! Who asks, and what their tags let them do.
//!
//! Each handler names the tag that it needs by the type of its first argument; what a user may do
//! with an object is asked from the broker's own permissions, as over AMQP.

use std::net::{IpAddr, Ipv4Addr};

use auth::AuthOutcome;
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::header;
use axum::http::request::Parts;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use broker_core::metadata::Metadata;
use broker_core::permission::Operation;
use broker_core::{UserName, VhostName};

use crate::error::{ACCESS_REFUSED, ApiError, Result};
use crate::server::Peer;
use crate::state::Api;

/// A user that may use the HTTP API.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) user: UserName,
    pub(crate) tags: Vec<Box<str>>,
}

const ADMINISTRATOR: &str = "administrator";
const MONITORING: &str = "monitoring";
const POLICYMAKER: &str = "policymaker";
const MANAGEMENT: &str = "management";

impl Caller {
    fn has_any(&self, tags: &[&str]) -> bool {
        self.tags.iter().any(|tag| tags.contains(&&**tag))
    }

    pub(crate) fn is_administrator(&self) -> bool {
        self.has_any(&[ADMINISTRATOR])
    }

    /// Sees everybody's connections, all vhosts and the nodes.
    pub(crate) fn is_monitor(&self) -> bool {
        self.has_any(&[ADMINISTRATOR, MONITORING])
    }

    fn is_policymaker(&self) -> bool {
        self.has_any(&[ADMINISTRATOR, POLICYMAKER])
    }

    fn may_manage(&self) -> bool {
        self.has_any(&[ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT])
    }

    /// Whether lists over all vhosts show this one.
    pub(crate) fn sees(&self, metadata: &Metadata, vhost: &VhostName) -> bool {
        self.is_monitor() || metadata.permission(&self.user, vhost).is_some()
    }

    /// Refuses paths into a vhost that is missing or not the user's.
    pub(crate) fn enter(&self, metadata: &Metadata, vhost: &VhostName) -> Result<()> {
        if !self.is_administrator() && metadata.permission(&self.user, vhost).is_none() {
            return Err(ApiError::hidden());
        }
        metadata
            .vhost(vhost)
            .map(|_| ())
            .map_err(|_| ApiError::ObjectNotFound)
    }

    /// As [`Caller::enter`], for things that monitoring users see in every vhost.
    pub(crate) fn look_into(&self, metadata: &Metadata, vhost: &VhostName) -> Result<()> {
        if self.is_monitor() {
            return metadata
                .vhost(vhost)
                .map(|_| ())
                .map_err(|_| ApiError::ObjectNotFound);
        }
        self.enter(metadata, vhost)
    }

    /// Refuses what the user may not do with an object of a vhost.
    // rabbitmq: management acts over AMQP with the user's own permissions
    pub(crate) fn permit(
        &self,
        metadata: &Metadata,
        vhost: &VhostName,
        operation: &Operation<'_>,
    ) -> Result<()> {
        let has_access = metadata.permission(&self.user, vhost).is_some();
        if !self.is_administrator() && !has_access {
            return Err(ApiError::hidden());
        }
        metadata.vhost(vhost)?;
        if !has_access {
            return Err(ApiError::NotAuthorised(ACCESS_REFUSED));
        }
        Ok(metadata.check_access(&self.user, vhost, operation)?)
    }
}

/// Any tag of the HTTP API.
impl FromRequestParts<Api> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self> {
        let caller = authenticate(parts, api).await?;
        if !caller.may_manage() {
            return Err(ApiError::NotAuthorised("Not management user"));
        }
        Ok(caller)
    }
}

/// Tag `administrator`.
pub(crate) struct Administrator(pub(crate) Caller);

impl FromRequestParts<Api> for Administrator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self> {
        let caller = authenticate(parts, api).await?;
        if !caller.is_administrator() {
            return Err(ApiError::NotAuthorised("Not administrator user"));
        }
        Ok(Self(caller))
    }
}

/// Tag `monitoring` or better.
pub(crate) struct Monitor;

impl FromRequestParts<Api> for Monitor {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self> {
        let caller = authenticate(parts, api).await?;
        if !caller.is_monitor() {
            return Err(ApiError::NotAuthorised("Not monitor user"));
        }
        Ok(Self)
    }
}

/// Tag `policymaker` or `administrator`.
pub(crate) struct Policymaker(pub(crate) Caller);

impl FromRequestParts<Api> for Policymaker {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self> {
        let caller = authenticate(parts, api).await?;
        if !caller.is_policymaker() {
            return Err(ApiError::NotAuthorised(
                "User not authorised to access object",
            ));
        }
        Ok(Self(caller))
    }
}

async fn authenticate(parts: &Parts, api: &Api) -> Result<Caller> {
    let Some(header) = parts.headers.get(header::AUTHORIZATION) else {
        return Err(ApiError::NoCredentials);
    };
    match header.to_str().ok().and_then(basic_credentials) {
        Some((user, password)) => check_login(api, &user, &password, peer(parts)).await,
        None => {
            api.auth_attempts().failed();
            Err(ApiError::BadCredentials)
        }
    }
}

/// Checks a user's password, and counts the attempt.
pub(crate) async fn check_login(
    api: &Api,
    user: &str,
    password: &[u8],
    peer: IpAddr,
) -> Result<Caller> {
    match api.authenticator().check_password(user, password, peer) {
        AuthOutcome::Authenticated { user, tags } => {
            api.auth_attempts().succeeded();
            Ok(Caller {
                user: UserName::new(user),
                tags,
            })
        }
        AuthOutcome::Refused(why) => {
            api.auth_attempts().failed();
            tracing::warn!(%why, "a login over HTTP is refused");
            tokio::time::sleep(api.after_failure(peer)).await;
            Err(ApiError::BadCredentials)
        }
    }
}

/// The client's address; without a socket the request comes from this process.
fn peer(parts: &Parts) -> IpAddr {
    let info = parts.extensions.get::<ConnectInfo<Peer>>();
    info.map_or(
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        |ConnectInfo(Peer(address))| address.ip().to_canonical(),
    )
}

/// User and password of a `Basic` header.
// rfc 7617, section 2
fn basic_credentials(header: &str) -> Option<(String, Vec<u8>)> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = BASE64_STANDARD.decode(encoded.trim()).ok()?;
    let colon = decoded.iter().position(|octet| *octet == b':')?;
    let user = String::from_utf8(decoded[..colon].to_vec()).ok()?;
    Some((user, decoded[colon + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_may_hold_colons_and_any_octets() {
        let encoded = BASE64_STANDARD.encode(b"guest:a:\xffb");
        let credentials = basic_credentials(&format!("bAsIc {encoded}"));
        assert_eq!(credentials, Some(("guest".to_owned(), b"a:\xffb".to_vec())));
    }

    #[test]
    fn other_schemes_and_broken_credentials_are_none() {
        assert_eq!(basic_credentials("Bearer abc"), None);
        assert_eq!(basic_credentials("Basic !!!"), None);
        assert_eq!(basic_credentials("Basic"), None);
        assert_eq!(
            basic_credentials(&format!("Basic {}", BASE64_STANDARD.encode("guest"))),
            None
        );
    }
}
