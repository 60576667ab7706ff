//! A SASL response and what `auth` says about it, as the handshake's own words.

use auth::{AuthOutcome, AuthRefusal};
use broker_core::{Refusal, UserName};

use super::HandshakeFault;
use crate::client_traits::ClientTraits;
use crate::connection::{Context, Endpoint};
use crate::fault::MethodId;
use crate::reply::Close;

/// Decides a login. Clients hear of a refusal only if they announced that they can bear it, and
/// never the reason.
// rabbitmq: authentication_failure_close
pub(super) fn login(
    context: &Context,
    mechanism: &str,
    response: &[u8],
    endpoint: Endpoint,
    traits: &ClientTraits,
) -> Result<UserName, HandshakeFault> {
    let outcome = context
        .authenticator
        .authenticate(mechanism, response, context.client(endpoint));
    let let_in = matches!(outcome, AuthOutcome::Authenticated { .. });
    context.broker.note_login(let_in);
    match outcome {
        AuthOutcome::Authenticated { user, .. } => {
            tracing::info!(peer = %endpoint.peer, user, mechanism, "user authenticated");
            Ok(UserName::new(user))
        }
        AuthOutcome::Refused(why) => Err(refused(&why, mechanism, traits)),
    }
}

fn refused(why: &AuthRefusal, mechanism: &str, traits: &ClientTraits) -> HandshakeFault {
    let may_hear = traits.authentication_failure_close && why.is_access_refused();
    let close = may_hear.then(|| {
        let refusal = Refusal::LoginRefused {
            mechanism: mechanism.into(),
        };
        Close::refusal(&refusal, MethodId::NONE)
    });
    HandshakeFault::Login {
        reason: why.to_string(),
        close,
    }
}
