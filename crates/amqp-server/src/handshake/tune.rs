//! The terms of a connection: what is offered, what may be answered, what is settled.

use amqp::protocol::{AMQPClass, connection};

use crate::options::{AmqpServerOptions, FRAME_SIZE_MIN};

/// What connection.tune says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    channel_max: u16,
    frame_max: u32,
    heartbeat_s: u16,
}

/// The settled terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuned {
    /// Channels open at once; at least 1.
    pub(crate) channel_max: u16,
    /// Bytes of a frame, envelope included.
    pub(crate) frame_max: u32,
    /// Seconds; 0 for none.
    pub(crate) heartbeat_s: u16,
}

/// An answer outside of what was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TuneFault {
    /// Zero, where there is a limit.
    #[error("negotiated {term} = 0 (no limit) is higher than the maximum allowed value ({max})")]
    NoLimit { term: &'static str, max: u32 },
    /// More than was offered.
    #[error("negotiated {term} = {value} is higher than the maximum allowed value ({max})")]
    TooHigh {
        term: &'static str,
        value: u32,
        max: u32,
    },
    /// Less than the protocol needs.
    #[error("negotiated {term} = {value} is lower than the minimum allowed value ({min})")]
    TooLow {
        term: &'static str,
        value: u32,
        min: u32,
    },
}

impl Offer {
    pub(super) fn of(options: &AmqpServerOptions) -> Self {
        Self {
            channel_max: options.channel_max,
            frame_max: options.frame_max,
            heartbeat_s: options.heartbeat_s,
        }
    }

    pub(super) fn as_method(&self) -> AMQPClass {
        AMQPClass::Connection(connection::AMQPMethod::Tune(connection::Tune {
            channel_max: self.channel_max,
            frame_max: self.frame_max,
            heartbeat: self.heartbeat_s,
        }))
    }

    /// Judges tune-ok. The heartbeat is taken as sent, be it larger than offered.
    // rabbitmq: validate_negotiated_integer_value
    pub(super) fn settle(&self, answer: &connection::TuneOk) -> Result<Tuned, TuneFault> {
        within(
            "frame_max",
            answer.frame_max,
            FRAME_SIZE_MIN,
            self.frame_max,
        )?;
        within(
            "channel_max",
            answer.channel_max.into(),
            1,
            self.channel_max.into(),
        )?;
        Ok(Tuned {
            channel_max: answer.channel_max,
            frame_max: answer.frame_max,
            heartbeat_s: answer.heartbeat,
        })
    }
}

fn within(term: &'static str, value: u32, min: u32, max: u32) -> Result<(), TuneFault> {
    match value {
        0 => Err(TuneFault::NoLimit { term, max }),
        value if value > max => Err(TuneFault::TooHigh { term, value, max }),
        value if value < min => Err(TuneFault::TooLow { term, value, min }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settle(channel_max: u16, frame_max: u32, heartbeat: u16) -> Result<Tuned, String> {
        let offer = Offer::of(&AmqpServerOptions::default());
        offer
            .settle(&connection::TuneOk {
                channel_max,
                frame_max,
                heartbeat,
            })
            .map_err(|fault| fault.to_string())
    }

    #[test]
    fn answers_within_the_offer_are_settled_as_sent() {
        let tuned = Tuned {
            channel_max: 1,
            frame_max: 4096,
            heartbeat_s: 600,
        };
        assert_eq!(settle(1, 4096, 600), Ok(tuned));
        let tuned = Tuned {
            channel_max: 2047,
            frame_max: 131_072,
            heartbeat_s: 0,
        };
        assert_eq!(settle(2047, 131_072, 0), Ok(tuned));
    }

    #[test]
    fn answers_outside_are_named() {
        for (channel_max, frame_max, text) in [
            (
                0,
                8192,
                "channel_max = 0 (no limit) is higher than the maximum allowed value (2047)",
            ),
            (
                2048,
                8192,
                "channel_max = 2048 is higher than the maximum allowed value (2047)",
            ),
            (
                1,
                0,
                "frame_max = 0 (no limit) is higher than the maximum allowed value (131072)",
            ),
            (
                1,
                131_073,
                "frame_max = 131073 is higher than the maximum allowed value (131072)",
            ),
            (
                1,
                4095,
                "frame_max = 4095 is lower than the minimum allowed value (4096)",
            ),
        ] {
            assert_eq!(
                settle(channel_max, frame_max, 60),
                Err(format!("negotiated {text}"))
            );
        }
    }
}
