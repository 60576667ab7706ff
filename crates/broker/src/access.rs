//! What the session's user may do, with the verdicts that a channel has asked for lately.
