//! A screen whose size changes many times in a row is drawn once, at the end.

use crate::app_state::ScreenSize;

/// A size that has not changed for so long is the new size.
const SETTLED_MS: u64 = 50;

/// The size that is on the way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ResizeDebounce {
    coming: Option<(ScreenSize, u64)>,
}

/// What is to be done about the size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SizeStep {
    /// Nothing: it is as it was.
    Same,
    /// Nothing is drawn: it still changes.
    Wait,
    /// It is this one from now on.
    Changed(ScreenSize),
}

impl ResizeDebounce {
    /// The screen has this size now, and things are drawn for that one.
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

    /// When to look again.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.coming.map(|it| it.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_of_sizes_is_one_change() {
        let size = |columns| ScreenSize { columns, rows: 24 };
        let (mut settler, mut drawn) = (ResizeDebounce::default(), size(80));
        let mut changes = Vec::new();
        // Thirty widths in a second, then stillness; looked at every millisecond.
        for now in 0..1200_u64 {
            let step = usize::try_from(now / 33).unwrap_or(0).min(29);
            if let SizeStep::Changed(to) = settler.look(size(40 + step), drawn, now) {
                drawn = to;
                changes.push(now);
            }
        }
        assert_eq!((changes.len(), drawn), (1, size(69)), "{changes:?}");
        assert_eq!(settler.deadline(), None);
        // Back to what is drawn before it settled: nothing happens.
        assert_eq!(settler.look(size(50), drawn, 2000), SizeStep::Wait);
        assert_eq!(settler.look(size(69), drawn, 2010), SizeStep::Same);
        assert_eq!(settler.deadline(), None);
    }
}
