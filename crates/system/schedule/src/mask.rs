/// Values that match one cron field, as a bit set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct FieldMask {
    pub(crate) bits: u64,
    /// Whether the field is unrestricted (`*` or `*/n`).
    pub(crate) wild: bool,
}

impl FieldMask {
    pub(crate) fn has(self, number: u32) -> bool {
        number < 64 && self.bits & (1 << number) != 0
    }

    /// Parses a field with values from `low` to `high`.
    pub(crate) fn parse(text: &str, low: u32, high: u32) -> Result<Self, String> {
        let mut mask = Self { bits: 0, wild: text.starts_with('*') };
        for part in text.split(',') {
            let (range, step) = match part.split_once('/') {
                Some((range, step)) => (range, Some(number(step, 1, high)?)),
                None => (part, None),
            };
            let (first, last) = match (range, range.split_once('-')) {
                ("*", _) => (low, high),
                (_, Some((first, last))) => (number(first, low, high)?, number(last, low, high)?),
                // `n/step` extends to the maximum.
                (one, None) => match step {
                    Some(_) => (number(one, low, high)?, high),
                    None => (number(one, low, high)?, number(one, low, high)?),
                },
            };
            if last < first {
                return Err(format!("{range} goes backwards"));
            }
            let step = usize::try_from(step.unwrap_or(1)).unwrap_or(1);
            mask.bits |= (first..=last).step_by(step).fold(0, |bits, it| bits | 1 << it);
        }
        Ok(mask)
    }
}

fn number(text: &str, low: u32, high: u32) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(number) if (low..=high).contains(&number) && text.bytes().all(|it| it.is_ascii_digit()) => {
            Ok(number)
        }
        _ => Err(format!("{text:?} is no number from {low} to {high}")),
    }
}
