//! HUP: reads the configuration again, validates it whole, and puts into force what can change
//! while the broker runs. A faulty configuration changes nothing.

use settings::{Loaded, Settings, Sources};

use crate::logging::LogLevel;

/// The settings in force, and where they come from.
pub(crate) struct Reload<'a> {
    sources: &'a Sources,
    settings: Settings,
    level: LogLevel,
}

impl<'a> Reload<'a> {
    /// Starts from the settings that the broker was started with.
    pub(crate) fn new(sources: &'a Sources, settings: Settings, level: LogLevel) -> Self {
        Self {
            sources,
            settings,
            level,
        }
    }

    /// Reads the sources again.
    pub(crate) fn again(&mut self) {
        match settings::load(self.sources) {
            Ok(loaded) => self.put_into_force(&loaded),
            Err(error) => {
                for fault in &error.faults {
                    tracing::error!(%fault, "the configuration is not reloaded");
                }
            }
        }
    }

    fn put_into_force(&mut self, loaded: &Loaded) {
        let (live, restart) = differences(&self.settings, &loaded.settings);
        if live {
            if let Err(error) = self.level.set(&loaded.settings.log.level) {
                tracing::error!(%error, "the configuration is not reloaded");
                return;
            }
            self.settings
                .log
                .level
                .clone_from(&loaded.settings.log.level);
        }
        tracing::info!(
            log_level = self.settings.log.level,
            "configuration reloaded"
        );
        if restart {
            tracing::warn!("other settings have changed, too; they take effect at the next start");
        }
    }
}

/// Whether what can change live differs, and whether anything else does.
fn differences(old: &Settings, new: &Settings) -> (bool, bool) {
    let live = old.log.level != new.log.level;
    let mut old = old.clone();
    old.log.level.clone_from(&new.log.level);
    (live, old != *new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_level_changes_live_and_all_else_at_the_next_start() {
        let old = Settings::default();
        assert_eq!(differences(&old, &old), (false, false));

        let mut new = old.clone();
        new.log.level = "debug".to_owned();
        assert_eq!(differences(&old, &new), (true, false));

        new.limits.channel_max = 7;
        assert_eq!(differences(&old, &new), (true, true));
    }
}
