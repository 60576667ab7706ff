//! How far long work is, on the standard error stream of a terminal; silent anywhere else.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over work whose amount is known.
pub(crate) fn bar(total: u64, what: &str, quiet: bool) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), target(quiet));
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {per_sec} eta {eta}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar
}

fn target(quiet: bool) -> ProgressDrawTarget {
    // Draws nothing where standard error is no terminal.
    match quiet {
        true => ProgressDrawTarget::hidden(),
        false => ProgressDrawTarget::stderr(),
    }
}

/// A sign that work of unknown length goes on.
pub(crate) fn waiting(what: &str, quiet: bool) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, target(quiet));
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    bar
}
