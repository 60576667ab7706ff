//! Frames that real clients and RabbitMQ 4.3.6 sent each other, one a line in hex.

/// Each frame of every fixture, without the protocol headers.
pub(crate) fn all() -> Vec<Vec<u8>> {
    const FILES: [&str; 4] = [
        include_str!("pika-client.hex"),
        include_str!("pika-server.hex"),
        include_str!("py-amqp-client.hex"),
        include_str!("py-amqp-server.hex"),
    ];
    FILES
        .iter()
        .flat_map(|text| lines(text))
        .filter(|bytes| !bytes.starts_with(b"AMQP"))
        .collect()
}

/// Frames small enough to be broken at every place.
pub(crate) fn small() -> Vec<Vec<u8>> {
    all()
        .into_iter()
        .filter(|frame| frame.len() <= 1024)
        .collect()
}

fn lines(text: &str) -> impl Iterator<Item = Vec<u8>> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(from_hex)
}

fn from_hex(line: &str) -> Vec<u8> {
    let octet = |at| u8::from_str_radix(&line[at..at + 2], 16).expect("hex");
    (0..line.len()).step_by(2).map(octet).collect()
}
