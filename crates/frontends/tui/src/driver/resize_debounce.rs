//! Debounces resizes: the screen is painted once, when the size has settled.

use crate::app_state::ScreenSize;

/// Milliseconds without a change after which a size has settled.
const SETTLED_MS: u64 = 50;

/// A resize in progress.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResizeDebounce {
    coming: Option<(ScreenSize, u64)>,
}

/// What to do about the size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SizeStep {
    /// Nothing: it is unchanged.
    Same,
    /// Do not paint: it is still changing.
    Wait,
    /// Use this size from now on.
    Changed(ScreenSize),
}

impl ResizeDebounce {
    /// Processes the current size; `drawn` is the size painted for.
    pub(super) fn look(&mut self, size: ScreenSize, drawn: ScreenSize, now: u64) -> SizeStep {
        if size == drawn {
            self.coming = None;
            return SizeStep::Same;
        }
        match self.coming {
            Some((coming, at)) if coming == size && at <= now => {
                self.coming = None;
                SizeStep::Changed(size)
            }
            Some((coming, _)) if coming == size => SizeStep::Wait,
            _ => {
                self.coming = Some((size, now + SETTLED_MS));
                SizeStep::Wait
            }
        }
    }

    /// Returns when to check again.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.coming.map(|it| it.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resize_burst_is_one_change() {
        let size = |columns| ScreenSize { columns, rows: 24 };
        let (mut settler, mut drawn) = (ResizeDebounce::default(), size(80));
        let mut changes = Vec::new();
        // Thirty sizes in a second, then no more; checked every millisecond.
        for now in 0..1200_u64 {
            let step = usize::try_from(now / 33).unwrap_or(0).min(29);
            if let SizeStep::Changed(to) = settler.look(size(40 + step), drawn, now) {
                drawn = to;
                changes.push(now);
            }
        }
        assert_eq!((changes.len(), drawn), (1, size(69)), "{changes:?}");
        assert_eq!(settler.deadline(), None);
        // Back at the painted size before it settled: nothing to do.
        assert_eq!(settler.look(size(50), drawn, 2000), SizeStep::Wait);
        assert_eq!(settler.look(size(69), drawn, 2010), SizeStep::Same);
        assert_eq!(settler.deadline(), None);
    }
}
