//! The log lines of flow control, in the words that operators of Qpid know.
// Qpid Broker-J: operational logging messages

use std::fmt::{Display, Formatter, Result};

use crate::names::{QueueName, VhostName};

/// A number with separators of thousands.
struct Grouped(u64);

impl Display for Grouped {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let digits = self.0.to_string();
        let first = digits.len() % 3;
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && at % 3 == first {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

/// A vhost as the subjects show it: with one slash in front.
struct Vhost<'a>(&'a VhostName);

impl Display for Vhost<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0.as_str().strip_prefix('/') {
            Some(rest) => write!(f, "/{rest}"),
            None => write!(f, "/{}", self.0),
        }
    }
}

/// `[vh(/test)/qu(MyQueue)]`
pub struct QueueSubject<'a> {
    /// Its vhost.
    pub vhost: &'a VhostName,
    /// Its name.
    pub queue: &'a QueueName,
}

impl Display for QueueSubject<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "[vh({})/qu({})]", Vhost(self.vhost), self.queue)
    }
}

/// `[con:2(guest@127.0.0.1:5000/test)/ch:1]`
pub struct ChannelSubject<'a> {
    /// The connection's number.
    pub connection: u64,
    /// Who opened it.
    pub user: &'a str,
    /// The client's address.
    pub peer: std::net::SocketAddr,
    /// The vhost.
    pub vhost: &'a VhostName,
    /// The channel's number.
    pub channel: u16,
}

impl Display for ChannelSubject<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(
            f,
            "[con:{}({}@{}{})/ch:{}]",
            self.connection,
            self.user,
            self.peer,
            Vhost(self.vhost),
            self.channel
        )
    }
}

/// `QUE-1003`: the size is `bytes` or, for a capacity in messages, a count.
pub struct Overfull {
    /// Logical bytes.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
    /// The limits that it is over.
    pub limits: super::CapacityLimits,
}

impl Display for Overfull {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let limits = &self.limits;
        match limits.capacity_bytes() {
            u64::MAX => write!(
                f,
                "QUE-1003 : Overfull : Size : {} messages, Capacity : {}",
                Grouped(self.messages),
                Grouped(limits.capacity_messages())
            ),
            capacity => write!(
                f,
                "QUE-1003 : Overfull : Size : {} bytes, Capacity : {}",
                Grouped(self.bytes),
                Grouped(capacity)
            ),
        }
    }
}

/// `QUE-1004`.
pub struct Underfull {
    /// Logical bytes.
    pub bytes: u64,
    /// Messages.
    pub messages: u64,
    /// The limits; none when the capacity was taken away.
    pub limits: Option<super::CapacityLimits>,
}

impl Display for Underfull {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("QUE-1004 : Underfull : Size : ")?;
        match self.limits.map(|limits| (limits, limits.resume_bytes())) {
            None => write!(f, "{} bytes, Capacity : none", Grouped(self.bytes)),
            Some((limits, u64::MAX)) => write!(
                f,
                "{} messages, Resume Capacity : {}",
                Grouped(self.messages),
                Grouped(limits.resume_messages())
            ),
            Some((_, resume)) => write!(
                f,
                "{} bytes, Resume Capacity : {}",
                Grouped(self.bytes),
                Grouped(resume)
            ),
        }
    }
}

/// `CHN-1005`: what the channel waits for, such as `Queue orders`.
pub struct Enforced<'a>(pub &'a str);

impl Display for Enforced<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "CHN-1005 : Flow Control Enforced ({})", self.0)
    }
}

/// The line that follows while a channel waits.
pub struct Delayed<'a> {
    /// What the channel waits for.
    pub cause: &'a str,
    /// For how long.
    pub seconds: u64,
}

impl Display for Delayed<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(
            f,
            "CHN-1005 : Flow Control Enforced ({}) : Message send delayed by {}s due to broker enforced flow control",
            self.cause, self.seconds
        )
    }
}

/// `CHN-1006`.
pub struct Removed;

impl Display for Removed {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("CHN-1006 : Flow Control Removed")
    }
}

/// `CHN-1012`.
pub struct Ignored;

impl Display for Ignored {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("CHN-1012 : Flow Control Ignored. Channel will be closed.")
    }
}

#[cfg(test)]
mod tests {
    use super::super::CapacityLimits;
    use super::*;
    use crate::settings::QueueSettings;

    fn limits(capacity: u64, resume: u64) -> CapacityLimits {
        CapacityLimits::of(&QueueSettings {
            capacity_bytes: Some(capacity),
            flow_resume_capacity_bytes: Some(resume),
            ..QueueSettings::default()
        })
        .unwrap()
    }

    #[test]
    fn a_queue_speaks_in_qpids_words() {
        let (vhost, queue) = (VhostName::new("test"), QueueName::new("MyQueue"));
        let subject = QueueSubject {
            vhost: &vhost,
            queue: &queue,
        };
        assert_eq!(subject.to_string(), "[vh(/test)/qu(MyQueue)]");
        let overfull = Overfull {
            bytes: 1_200,
            messages: 3,
            limits: limits(1_000, 800),
        };
        assert_eq!(
            overfull.to_string(),
            "QUE-1003 : Overfull : Size : 1,200 bytes, Capacity : 1,000"
        );
        let underfull = Underfull {
            bytes: 600,
            messages: 3,
            limits: Some(limits(1_000, 800)),
        };
        assert_eq!(
            underfull.to_string(),
            "QUE-1004 : Underfull : Size : 600 bytes, Resume Capacity : 800"
        );
    }

    #[test]
    fn a_channel_speaks_in_qpids_words() {
        let subject = ChannelSubject {
            connection: 2,
            user: "guest",
            peer: "127.0.0.1:5000".parse().unwrap(),
            vhost: &VhostName::new("test"),
            channel: 1,
        };
        let line = format!("{subject} {}", Enforced("Queue MyQueue"));
        assert_eq!(
            line,
            "[con:2(guest@127.0.0.1:5000/test)/ch:1] CHN-1005 : Flow Control Enforced (Queue MyQueue)"
        );
        assert_eq!(Removed.to_string(), "CHN-1006 : Flow Control Removed");
        let root = VhostName::new("/");
        let subject = ChannelSubject {
            vhost: &root,
            ..subject
        };
        assert!(subject.to_string().contains(":5000/)"), "{subject}");
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (10_547_200, "10,547,200"),
        ] {
            assert_eq!(Grouped(number).to_string(), text);
        }
    }
}
