//! What each scalar reads, what it refuses, and that it reads what it prints.

use std::fmt::{Debug, Display};
use std::net::SocketAddr;
use std::str::FromStr;

use super::*;

/// Each text reads as the value, and what the value prints reads as the same value again.
#[track_caller]
fn reads<T>(cases: &[(&str, T)])
where
    T: FromStr<Err = ScalarError> + Display + Debug + PartialEq,
{
    for (text, value) in cases {
        assert_eq!(text.parse::<T>().as_ref(), Ok(value), "{text:?}");
        assert_eq!(
            value.to_string().parse::<T>().as_ref(),
            Ok(value),
            "{value} printed"
        );
    }
}

#[track_caller]
fn refuses<T: FromStr<Err = ScalarError> + Debug>(texts: &[&str]) {
    for text in texts {
        let read = text.parse::<T>();
        assert!(read.is_err(), "{text:?} was read as {read:?}");
    }
}

#[track_caller]
fn hints<T: FromStr<Err = ScalarError> + Debug>(text: &str, hint: &str) {
    assert_eq!(
        text.parse::<T>().expect_err(text).hint.as_deref(),
        Some(hint),
        "{text:?}"
    );
}

#[test]
fn sizes_count_bytes_with_and_without_units() {
    let size = ByteSize::bytes;
    reads(&[
        ("0", size(0)),
        ("4096", size(4096)),
        ("4096B", size(4096)),
        ("1kB", size(1000)),
        ("1KB", size(1000)),
        ("1KiB", size(1024)),
        ("64MiB", size(67_108_864)),
        ("64 MiB", size(67_108_864)),
        ("100MB", size(100_000_000)),
        ("1.5GiB", size(1_610_612_736)),
        ("0.5kB", size(500)),
        ("2TB", size(2_000_000_000_000)),
        ("1TiB", size(1_099_511_627_776)),
        ("18446744073709551615", size(u64::MAX)),
    ]);
}

#[test]
fn sizes_that_could_mean_two_things_are_refused() {
    refuses::<ByteSize>(&[
        "",
        "B",
        "-1",
        "1.5",
        "1.",
        ".5MB",
        "1e3",
        "64MiB ",
        " 64MiB",
        "64M",
        "1 K",
        "0x10",
        "1,5MB",
        "18446744073709551616",
        "99999999TiB",
        "1.0000000001GB",
        "1.2.3MB",
        "64MiBps",
        "1_000",
    ]);
    hints::<ByteSize>("64M", "write MB (powers of 1000) or MiB (of 1024)");
    hints::<ByteSize>("64k", "write kB (1000) or KiB (1024)");
    hints::<ByteSize>("64mib", "the unit is written MiB");
}

#[test]
fn sizes_print_in_the_largest_unit_that_is_exact() {
    let cases = [
        (67_108_864, "64MiB"),
        (50_000_000, "50MB"),
        (1500, "1500"),
        (0, "0"),
    ];
    for (bytes, text) in cases {
        assert_eq!(ByteSize::bytes(bytes).to_string(), text);
    }
}

#[test]
fn spans_count_milliseconds_with_and_without_units() {
    reads(&[
        ("0", Span::ms(0)),
        ("1500", Span::ms(1500)),
        ("500ms", Span::ms(500)),
        ("30s", Span::seconds(30)),
        ("30m", Span::seconds(1800)),
        ("1h30m", Span::seconds(5400)),
        ("1d", Span::seconds(86_400)),
        ("1h1ms", Span::ms(3_600_001)),
        ("3650d", Span::seconds(3650 * 86_400)),
    ]);
    assert_eq!(Span::seconds(90).to_string(), "90s");
    assert_eq!(Span::seconds(1800).to_string(), "30m");
}

#[test]
fn spans_without_order_or_measure_are_refused() {
    refuses::<Span>(&[
        "",
        "s",
        "-1s",
        "1.5h",
        "30m1h",
        "1m1m",
        "3651d",
        "99999999999999999999",
        "1h 30",
        "30 minuets",
        "18446744073709551615d",
        "1hm",
        "off",
    ]);
    hints::<Span>("30min", "the unit is written m");
    hints::<Span>("5 seconds", "the unit is written s");
    hints::<Span>("30M", "units are written in small letters");
}

#[test]
fn timeouts_may_be_off() {
    reads(&[
        ("off", Timeout::Off),
        ("30m", Timeout::After(Span::seconds(1800))),
        ("0", Timeout::After(Span::ms(0))),
    ]);
    refuses::<Timeout>(&["", "never", "OFF", "30 fortnights"]);
}

#[test]
fn listeners_are_ports_addresses_or_off() {
    let at = |text: &str| Listen::At(text.parse::<SocketAddr>().expect("a socket address"));
    reads(&[
        ("off", Listen::Off),
        ("5672", Listen::Everywhere(5672)),
        (":5672", Listen::Everywhere(5672)),
        ("0", Listen::Everywhere(0)),
        ("127.0.0.1:5673", at("127.0.0.1:5673")),
        ("127.0.0.1:0", at("127.0.0.1:0")),
        ("[::]:5672", at("[::]:5672")),
        ("[::1]:0", at("[::1]:0")),
        ("localhost:5672", at("127.0.0.1:5672")),
    ]);
}

#[test]
fn listeners_without_a_clear_place_are_refused() {
    refuses::<Listen>(&[
        "",
        ":",
        "65536",
        "-1",
        "05672",
        "OFF",
        "127.0.0.1",
        "::1",
        "::1:5672x",
        "example.org:5672",
        "*:5672",
        "localhost",
        "localhost:",
        "127.0.0.1:65536",
        "amqp://127.0.0.1:5672",
    ]);
    hints::<Listen>("65536", "a port is a whole number from 0 to 65535");
    hints::<Listen>("", "a port is a whole number from 0 to 65535");
    hints::<Listen>("05672", "a port does not start with 0");
    hints::<Listen>("127.0.0.1", "the port is missing, as in 127.0.0.1:5672");
    hints::<Listen>("::1", "the port is missing, as in [::1]:5672");
    hints::<Listen>("*:5672", "every interface is written 5672 alone");
    hints::<Listen>(
        "example.org:5672",
        "host names are not looked up: write the interface's IP address",
    );
}

#[test]
fn watermarks_are_shares_or_sizes_with_units() {
    reads(&[
        ("0.6", Watermark::Share(0.6)),
        ("0", Watermark::Share(0.0)),
        ("1", Watermark::Share(1.0)),
        ("2GiB", Watermark::Size(ByteSize::mib(2048))),
        ("1500B", Watermark::Size(ByteSize::bytes(1500))),
    ]);
    refuses::<Watermark>(&[
        "",
        "1.1",
        "-0.1",
        "60",
        "nan",
        "inf",
        "2147483648",
        "60%",
        "2G",
    ]);
    hints::<Watermark>("60%", "write the share 0.6");
    hints::<Watermark>("2G", "write GB (powers of 1000) or GiB (of 1024)");
    assert_eq!(Watermark::Share(0.6).bytes_of(1000), 600);
    assert_eq!(Watermark::Size(ByteSize::bytes(7)).bytes_of(1000), 7);
}

#[test]
fn caps_may_be_unlimited() {
    reads(&[
        ("20", Cap::AtMost(20)),
        ("0", Cap::AtMost(0)),
        ("-1", Cap::Unlimited),
        ("unlimited", Cap::Unlimited),
    ]);
    refuses::<Cap>(&["", "1.5", "4294967296", "many"]);
    hints::<Cap>("infinity", "write unlimited");
}

#[test]
fn words_are_read_as_they_are_written() {
    reads(&[
        ("close", TimeoutAction::Close),
        ("return", TimeoutAction::Return),
    ]);
    reads(&[("failures", DeliveryLimitCounts::Failures)]);
    reads(&[("json", LogFormat::Json)]);
    refuses::<TimeoutAction>(&["", "Close", "cancelled"]);
}

#[test]
fn an_error_reads_as_a_sentence() {
    let error = "64M".parse::<ByteSize>().expect_err("no unit");
    assert_eq!(
        error.to_string(),
        "\"64M\" is not a size: a whole number of bytes, or a number with a unit such as 64MiB or \
         100MB: write MB (powers of 1000) or MiB (of 1024)"
    );
}

#[test]
fn a_secret_prints_as_dots() {
    let secret = Secret::new("hunter2");
    assert_eq!(format!("{secret:?}"), "••••");
    assert_eq!(secret.reveal(), "hunter2");
}
