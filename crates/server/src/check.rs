//! `check-config` and `explain`: what the operator wrote, looked at without starting a broker.

use std::fmt::Write as _;
use std::io::{Write as _, stdout};

use settings::{Changed, Explanation, Loaded, Sources, Understood};

use crate::boot_definitions;
use crate::failure::Failure;
use crate::wiring;

/// Tells what is wrong, or what the configuration comes to.
pub(crate) fn configuration(sources: &Sources) -> Result<(), Failure> {
    let loaded = settings::load(sources)?;
    let settings = &loaded.settings;
    wiring::first_user(settings, |name| std::env::var(name).ok())?;
    let mut told = String::from("the configuration is valid\n");
    tell_files(&loaded, &mut told);
    if let Some(path) = &settings.policies.path {
        let files = settings::load_policies(path).map_err(Failure::Policies)?;
        line(
            &mut told,
            format_args!("policies: {} in", files.policies.len()),
        );
        for file in &files.files {
            line(&mut told, format_args!("  {}", file.display()));
        }
    }
    if let Some(path) = &settings.definitions.path {
        boot_definitions::check(path)?;
        line(&mut told, format_args!("definitions: {}", path.display()));
    }
    if let Some(options) = wiring::tls_options(settings) {
        tls::TlsAcceptor::load(&options)?;
        line(
            &mut told,
            format_args!("tls: certificate and key go together"),
        );
    }
    tell(&told);
    Ok(())
}

fn tell_files(loaded: &Loaded, told: &mut String) {
    for file in &loaded.files {
        line(told, format_args!("read: {}", file.display()));
    }
    for Changed { key, value, origin } in &loaded.changed {
        line(told, format_args!("set: {key} = {value} ({origin})"));
    }
    for conf in &loaded.rabbitmq_conf {
        let (number, name) = (conf.line, &conf.name);
        match conf.understood {
            Understood::As(key) => {
                line(
                    told,
                    format_args!("rabbitmq.conf:{number}: {name} is {key}"),
                );
            }
            Understood::NotNeeded(why) => {
                line(
                    told,
                    format_args!("rabbitmq.conf:{number}: {name} is not needed: {why}"),
                );
            }
            Understood::Unknown => {
                line(
                    told,
                    format_args!("rabbitmq.conf:{number}: {name} MEANS NOTHING HERE"),
                );
            }
        }
    }
    for name in &loaded.unknown_variables {
        line(told, format_args!("environment: {name} means nothing here"));
    }
}

/// Tells what a key means and what it is set to; every key without one.
pub(crate) fn explain(key: Option<&str>, sources: &Sources) -> Result<(), Failure> {
    let wanted = match key {
        Some(key) => vec![key.to_owned()],
        None => settings::key_names(),
    };
    // What is set is worth telling only if the whole is valid.
    let loaded = settings::load(sources).ok();
    let changed = loaded.map(|loaded| loaded.changed).unwrap_or_default();
    let mut told = String::new();
    for key in wanted {
        let explained = settings::explain(&key).map_err(|nearest| Failure::NoSuchKey {
            key: key.clone(),
            nearest,
        })?;
        for explanation in &explained {
            tell_key(explanation, &changed, &mut told);
        }
    }
    tell(&told);
    Ok(())
}

fn tell_key(explained: &Explanation, changed: &[Changed], told: &mut String) {
    let key = &explained.key;
    line(told, format_args!("{key}"));
    for words in &explained.about {
        line(told, format_args!("  {words}"));
    }
    if let Some(default) = &explained.default {
        line(told, format_args!("  default: {default}"));
    }
    if let Some(found) = changed.iter().find(|changed| changed.key == *key) {
        line(
            told,
            format_args!("  here: {} ({})", found.value, found.origin),
        );
    }
    if let Some(variable) = &explained.variable {
        line(told, format_args!("  environment: {variable}"));
    }
    told.push('\n');
}

fn line(told: &mut String, words: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(told, "{words}");
}

fn tell(words: &str) {
    // A closed standard output leaves nobody to tell.
    let _ = stdout().write_all(words.as_bytes());
}
